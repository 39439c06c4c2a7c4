"""All messages of widgets go to the shell that the page chose (the browser tests click while a cell runs)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ipykernel.comm.comm import BaseComm
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from tests.conftest import eventually
from workbench.widgets.kernel.subshells import keep_to_the_pages_choice

ENDLESS = """import asyncio
try:
    seen.append("begun")
    await asyncio.sleep(600)
finally:
    seen.append("cancelled")
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    manager, client = start_new_kernel()
    try:
        assert not printed(client, "import workbench.widgets, gc, time; seen = []")
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def printed(kernel: BlockingKernelClient, code: str) -> str:
    """All that a cell's output shows, errors too."""
    shown: list[dict[str, Any]] = []
    kernel.execute_interactive(code, output_hook=lambda message: shown.append(message["content"]), timeout=240)
    return "".join(one.get("text", "") or one.get("evalue", "") for one in shown)


def control(kernel: BlockingKernelClient, kind: str, **content: Any) -> dict[str, Any]:
    """What the kernel replies to a request of that kind on its control channel."""
    request = kernel.session.msg(kind, content)
    kernel.control_channel.send(request)
    while (reply := kernel.control_channel.get_msg(timeout=240))["parent_header"]["msg_id"] != request["msg_id"]:
        pass
    assert reply["content"]["status"] == "ok", reply["content"]
    return reply["content"]


def send(kernel: BlockingKernelClient, code: str, subshell: str) -> None:
    message = kernel.session.msg("execute_request", {"code": code, "silent": True, "store_history": False})
    message["header"]["subshell_id"] = subshell
    kernel.shell_channel.send(message)


def test_a_page_that_goes_has_its_last_messages_handled_and_leaves_nothing_behind(kernel: BlockingKernelClient) -> None:
    for turn in range(10):
        page = control(kernel, "create_subshell_request")["subshell_id"]
        send(kernel, "time.sleep(0.3)", page)
        for number in range(5):
            send(kernel, f"seen.append(({turn}, {number}))", page)
        assert not printed(kernel, "")  # what was sent before it has been handed on, and waits for the first
        control(kernel, "delete_subshell_request", subshell_id=page)
    assert printed(kernel, "_ = gc.collect(); print(len(seen))") == "50\n"


def test_what_a_page_began_and_does_not_end_is_cancelled(kernel: BlockingKernelClient) -> None:
    page = control(kernel, "create_subshell_request")["subshell_id"]
    send(kernel, ENDLESS, page)
    eventually(lambda: printed(kernel, "print(seen[-1:])") == "['begun']\n")
    control(kernel, "delete_subshell_request", subshell_id=page)
    assert printed(kernel, "_ = gc.collect(); print(seen[-1])") == "cancelled\n"


def test_a_message_goes_to_the_shell_that_the_page_chose_and_a_reply_to_the_one_that_asked(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(BaseComm, "_reply_subshell_id", raising=False)  # as ipykernel has it; put back afterwards
    comm = BaseComm(target_name="test", primary=False)
    comm._reply_subshell_id = "a cell's"
    assert comm._reply_subshell_for({"method": "update"}, "the page's") == "a cell's"  # what is mended
    del comm._reply_subshell_id
    keep_to_the_pages_choice()
    comm._reply_subshell_id = "a cell's"
    comm._reply_subshell_ids["7"] = "who asked 7"
    assert comm._reply_subshell_for({"method": "update"}, "the page's") == "the page's"
    assert comm._reply_subshell_for({"content": {"id": "7"}}, "the page's") == "who asked 7"
