"""Messages of widgets go to the shell that the page chose (the browser tests click while a cell runs)."""

from __future__ import annotations

import pytest
from ipykernel.comm.comm import BaseComm

from workbench.widgets.subshells import keep_to_the_pages_choice


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
