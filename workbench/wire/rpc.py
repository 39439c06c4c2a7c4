"""gRPC without generated code: JSON calls for control, byte streams for steps, a token on every one.

A server takes plain functions (`calls`) and stream handlers (`streams`). A `Caller` is the other end of the calls:
it raises the same class of error as the function did. Sockets are for their owner alone.
"""

from __future__ import annotations

import hmac
import json
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from workbench.errors import AccessDenied, ConnectionLost, WorkbenchError, by_name

Handler = Callable[..., Any]
StreamHandler = Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]

_SERVICE = "workbench.Run"
_TOKEN = "x-workbench-token"
LARGEST_MESSAGE = 256 * 2**20  # bytes; 1,024 stacked Atari observations are 29 MB
_OPTIONS = [
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
]
_CLIENT_OPTIONS = [
    *_OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc, unused-ignore]
    """Finds the method of an RPC after its token was checked."""

    def __init__(self, token: str, calls: Mapping[str, Handler], streams: Mapping[str, StreamHandler]) -> None:
        self._token = token.encode()
        self._calls = calls
        self._streams = streams

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        service, _, method = details.method.lstrip("/").partition("/")
        if service != _SERVICE:
            return None
        given = dict(details.invocation_metadata).get(_TOKEN, "")
        if not hmac.compare_digest(str(given).encode(), self._token):
            return grpc.unary_unary_rpc_method_handler(_refuse)
        if method in self._streams:
            return grpc.stream_stream_rpc_method_handler(self._streams[method])
        if method in self._calls:
            return grpc.unary_unary_rpc_method_handler(_as_json(self._calls[method]))
        return None


def _refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is not this run's")
    return b""


def _as_json(handler: Handler) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    """`handler` behind JSON: {"result": …} or {"error": {"type", "message"}}."""

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return json.dumps({"result": handler(**json.loads(request))}).encode()
        except WorkbenchError as error:
            told = {"type": type(error).__name__, "message": str(error)}
        except Exception as error:  # a fault of ours: the caller must see it, and the process goes on
            traceback.print_exc()
            told = {"type": "WorkbenchError", "message": f"{type(error).__name__}: {error}"}
        return json.dumps({"error": told}).encode()

    return answer


class Server:
    """A running gRPC server; `stop` ends it."""

    def __init__(self, server: grpc.Server, address: str) -> None:
        self.address = address
        self._server = server

    def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new RPCs at once and end those in flight after `grace_s` seconds."""
        self._server.stop(grace_s).wait()


def serve(
    address: str,
    token: str,
    *,
    calls: Mapping[str, Handler],
    streams: Mapping[str, StreamHandler] | None = None,
    threads: int = 16,
) -> Server:
    """A started server at `address` ("unix:/path"); each open stream keeps one of its `threads`."""
    pool = futures.ThreadPoolExecutor(threads, thread_name_prefix="rpc")
    server = grpc.server(pool, handlers=[_Methods(token, calls, streams or {})], options=_OPTIONS)
    path = Path(address.removeprefix("unix:"))
    path.unlink(missing_ok=True)  # of a server that was killed; a run's lock sees to it that it has one of each
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConnectionLost(f"cannot listen on {address}: is its folder there and writable? ({error})") from None
    path.chmod(0o600)
    server.start()
    return Server(server, address)


def open_channel(address: str) -> grpc.Channel:
    """A channel to `address`; it connects when first used and again after a loss."""
    return grpc.insecure_channel(address, options=_CLIENT_OPTIONS)


def open_stream_channel(address: str) -> grpc.aio.Channel:
    """The same for asyncio, of the loop that runs."""
    return grpc.aio.insecure_channel(address, options=_CLIENT_OPTIONS)


def token_metadata(token: str) -> tuple[tuple[str, str], ...]:
    """The metadata that proves to belong to the run."""
    return ((_TOKEN, token),)


def method_path(method: str) -> str:
    """The gRPC path of a method."""
    return f"/{_SERVICE}/{method}"


class Caller:
    """Calls the JSON methods of a server; its repr shows no token."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self._metadata = token_metadata(token)
        self._channel = open_channel(address)

    def call(self, method: str, *, timeout_s: float = 10.0, **arguments: Any) -> Any:
        """The function's result. Raises its WorkbenchError, AccessDenied, or ConnectionLost if nobody answers."""
        rpc, request = self._channel.unary_unary(method_path(method)), json.dumps(arguments).encode()
        try:
            answer = rpc(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._translated(method, error) from None
        except ValueError as error:  # grpc's word for a closed channel
            raise ConnectionLost(f"{self.address} was not asked {method}: {error}") from None
        reply = json.loads(answer)
        if "error" in reply:
            raise by_name(reply["error"]["type"], reply["error"]["message"])
        return reply["result"]

    def _translated(self, method: str, error: grpc.RpcError) -> WorkbenchError:
        code = error.code()
        if code == grpc.StatusCode.UNAUTHENTICATED:
            return AccessDenied(f"{self.address} refused {method}: {error.details()}.")
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return WorkbenchError(f"{self.address} has no method {method!r}; is it of another version?")
        return ConnectionLost(f"{self.address} did not answer {method}: {code.name} {error.details()}")

    def close(self) -> None:
        """Drop the connection."""
        self._channel.close()

    def __repr__(self) -> str:
        return f"Caller({self.address!r})"
