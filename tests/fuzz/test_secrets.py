"""Tokens and keys: compared in constant time, asked for by every method, shown nowhere; and nothing is unpickled."""

from __future__ import annotations

import ast
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from ipywidgets.widgets.widget import _instances

import workbench
import workbench as wb
from tests.fuzz.live import Calls
from tests.widgets import recorded
from workbench.errors import AccessDenied
from workbench.rundir import RunDirectory
from workbench.running.connection import Control
from workbench.widgets.panel.panel import RunPanel
from workbench.wire import rpc
from workbench.wire.rpc import Caller, Endpoint, Listen, method_path, open_channel, serve, token_metadata

PACKAGE = Path(workbench.__file__).parent
RUNS_CODE = {  # what a person typed in a cell, and modules that lie beside it under the same seal
    "environments/adapters/code_by_value.py", "environments/adapters/sent_modules.py"}
LOADERS = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/s"


def test_tokens_are_compared_in_constant_time_and_never_with_an_operator(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest
    monkeypatch.setattr(rpc.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    server = serve(address, "secret", calls={"ping": lambda: 1})
    try:
        for given in ("secre", "secret"):
            caller = Caller(address, given)
            if given == "secret":
                assert caller.call("ping") == 1
            else:
                with pytest.raises(AccessDenied):
                    caller.call("ping")
        assert compared == [(b"secre", b"secret"), (b"secret", b"secret")]
    finally:
        server.stop(0)
    for node in ast.walk(ast.parse(Path(rpc.__file__).read_text())):
        if isinstance(node, ast.Compare) and any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
            assert "token" not in ast.unparse(node).lower(), ast.unparse(node)


def test_every_method_of_a_run_wants_the_token(capfd: pytest.CaptureFixture[str]) -> None:
    target = Calls()
    try:
        seeds = [json.loads(one) for one in target.seeds()]
        assert len({(one["server"], one["method"]) for one in seeds}) > 12
        for one in seeds:
            for kind in ("missing", "", "short", "long", "upper", "other"):
                said = target.give(json.dumps({**one, "token": kind}).encode())
                assert said.startswith("UNAUTHENTICATED"), one
    finally:
        target.close()


def test_a_message_that_is_too_large_is_refused_and_the_server_goes_on(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dict(rpc._OPTIONS)["grpc.max_receive_message_length"] == rpc.LARGEST_MESSAGE <= 2**28
    monkeypatch.setattr(rpc, "_OPTIONS", [("grpc.max_receive_message_length", 2**20)])
    server = serve(address, "secret", calls={"ping": lambda: 1})
    try:
        with open_channel(address) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(method_path("ping"))(bytes(2**21), metadata=token_metadata("secret"), timeout=240)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert Caller(address, "secret").call("ping") == 1
    finally:
        server.stop(0)


@pytest.fixture
def run(home: Path) -> Iterator[RunDirectory]:
    yield recorded.vtrace("private")


def test_no_repr_and_no_widget_shows_a_token_or_a_key(run: RunDirectory) -> None:
    token, key, certificate = run.token(), b"PRIVATE KEY", b"CERTIFICATE"
    handle = wb.attach(run.path)
    panel = RunPanel(handle)
    try:
        shown = [repr(one) for one in (
            Caller("unix:/x", token), Control(run), run, handle, handle.status, panel, Endpoint("host:1", certificate),
            Listen("host", certificate, key))]
        shown += [repr(model.get_state()) for model in _instances.values()]
        shown += [repr(panel._repr_mimebundle_())]
        shown += [run.record.read_text()]
    finally:
        panel.close()
    for one in shown:
        assert token not in one and "PRIVATE KEY" not in one


def test_nothing_but_what_a_person_typed_is_unpickled_and_nothing_is_evaluated() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if {name.partition(".")[0] for name in names} & LOADERS or called in (
                "eval", "exec", "compile", "torch.load", "np.load", "numpy.load", "__import__", "yaml.load"):
                found.add(str(path.relative_to(PACKAGE)))
    assert found == RUNS_CODE


def test_code_that_others_could_have_written_is_not_loaded(run: RunDirectory) -> None:
    from workbench.environments.adapters.code_by_value import load_factory

    run.code.mkdir(exist_ok=True)
    path = run.code / "environment.pkl"
    path.write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    path.chmod(0o666)
    with pytest.raises(AccessDenied):
        load_factory(path)
