"""gRPC without generated code: JSON calls for control, byte streams for steps, a token on every one.

A server takes plain functions (`calls`) and stream handlers (`streams`). A `Caller` is the client of the calls: it
raises the same class of error as the function did. Only its owner can open a socket. Between machines there is only
TLS, with the one certificate that a caller accepts (`Endpoint.certificate`): no token travels in the clear.
"""

from __future__ import annotations

import hmac
import inspect
import ipaddress
import json
import resource
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from workbench.errors import AccessDenied, ConnectionLost, InvalidInput, WorkbenchError, error_of, record_of
from workbench.wire import grpc
from workbench.wire.strangers import Strangers

Handler = Callable[..., Any]
StreamHandler = Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]

_Answer = TypeVar("_Answer")
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
    ("grpc.use_local_subchannel_pool", 1),  # a new channel does not wait out a former one's failure at that address
]
# A machine that was cut off ends no connection: its peers ping every 20 s and give up after 20 s without an answer.
_PING_MS, _ANSWER_MS = 20_000, 20_000
_BEYOND_OPTIONS = [("grpc.keepalive_time_ms", _PING_MS), ("grpc.keepalive_timeout_ms", _ANSWER_MS),
                   ("grpc.http2.max_pings_without_data", 0)]
_BEYOND_SERVER_OPTIONS = [*_BEYOND_OPTIONS, ("grpc.http2.min_ping_interval_without_data_ms", _PING_MS // 2),
                          ("grpc.keepalive_permit_without_calls", 1)]
# Anybody can reach a port, but only a client with the token keeps a connection: one that is slow to shake hands, or has
# no call under way, is closed. Their number is bounded, so that the process keeps descriptors for itself.
_HANDSHAKE_MS, _IDLE_MS = 10_000, 30_000
_MOST_DESCRIPTORS, _RESERVED_DESCRIPTORS = 65_536, 256
LEARNER_THREADS = 1024  # of its server: each stream of an actor keeps one
THREADS_OF_CALLS = 16  # of a server that also serves streams
CERTIFICATE_NAME = "rl-workbench"  # of every run's certificate, whatever its host


@dataclass(frozen=True)
class Endpoint:
    """Where a server is.

    Attributes:
        address: "unix:/path" on this machine, or "HOST:PORT".
        certificate: of the server at HOST:PORT, as PEM; None: no TLS.
    """

    address: str
    certificate: bytes | None = field(default=None, repr=False)

    @property
    def is_here(self) -> bool:
        """Whether messages to it stay on this machine."""
        return self.address.startswith("unix:") or _is_loopback(self.address)


@dataclass(frozen=True)
class Listen:
    """Where a server listens beyond this machine: address of a network interface, certificate and its key (PEM), and
    the ports of which it takes the first that is free; 0: any."""

    host: str
    certificate: bytes
    key: bytes = field(repr=False)
    ports: Sequence[int] = (0,)


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc, unused-ignore]
    """Finds the method of an RPC after it has checked the token.

    Attributes:
        on_authenticated: called with gRPC's name of every peer that sent the token.
    """

    def __init__(
        self, token: str, calls: Mapping[str, Handler], streams: Mapping[str, StreamHandler], most_streams: int
    ) -> None:
        self._token = token.encode()
        self._calls = calls
        self._streams = streams
        self._room = threading.Semaphore(most_streams)
        self.on_authenticated: Callable[[str], None] = lambda _: None

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        service, _, method = details.method.lstrip("/").partition("/")
        if service != _SERVICE:
            return None
        token = dict(details.invocation_metadata).get(_TOKEN, "")
        if not hmac.compare_digest(str(token).encode(), self._token):
            return grpc.stream_stream_rpc_method_handler(_refuse)  # reads no message: it may be a large one
        if method in self._streams:
            return grpc.stream_stream_rpc_method_handler(self._reported(self._bounded(self._streams[method])))
        if method in self._calls:
            return grpc.unary_unary_rpc_method_handler(self._reported(
                lambda request, _: answered(self._calls[method], request)))
        return None

    def _bounded(self, handler: StreamHandler) -> StreamHandler:
        """`handler` where there is room for another stream: each keeps a thread, and calls need some, too."""

        def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            if not self._room.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _FULL)
            try:
                yield from handler(requests, context)
            finally:
                self._room.release()

        return answer

    def _reported(self, handler: Callable[[Any, grpc.ServicerContext], _Answer]
                  ) -> Callable[[Any, grpc.ServicerContext], _Answer]:
        """`handler`, which calls `on_authenticated` first."""

        def answer(request: Any, context: grpc.ServicerContext) -> _Answer:
            self.on_authenticated(context.peer())
            return handler(request, context)

        return answer


_FULL = ("this learner has as many actors as it can serve. Give the run more learners, one for each 1,000 actors: "
         "learners=2")


def _refuse(_: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is not this run's")
    yield b""


def answered(handler: Handler, request: bytes) -> bytes:
    """The answer to a call, as JSON that `result_of` reads: {"result": …} or {"error": {"type", "message"}}."""
    try:
        return json.dumps({"result": handler(**_arguments(request, handler))}).encode()
    except Exception as error:
        if not isinstance(error, WorkbenchError):  # a fault of ours: the caller gets it, and the process goes on
            traceback.print_exc()
        return json.dumps({"error": record_of(error)}).encode()


def result_of(answer: bytes, method: str, address: str) -> Any:
    """The result in an answer. Raises the WorkbenchError in it, or ConnectionLost for what is no answer."""
    try:
        reply = json.loads(answer)
        if "error" not in reply:
            return reply["result"]
        failure = error_of(reply["error"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConnectionLost(f"{address} answered {method} as no run does: {error!s:.100}") from None
    raise failure


def _arguments(request: bytes, handler: Handler) -> dict[str, Any]:
    """The keyword arguments of a call. Raises InvalidInput if they are no JSON, or do not fit the function."""
    try:
        arguments: dict[str, Any] = json.loads(request)
        inspect.signature(handler).bind(**arguments)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"this call does not take such arguments: {str(error)[:200]}.") from None
    return arguments


class Server:
    """A running gRPC server; `stop` ends it.

    Attributes:
        port: for other machines; None: it listens on this machine only.
    """

    def __init__(self, server: grpc.Server, address: str, port: int | None, strangers: Strangers | None) -> None:
        self.address, self.port = address, port
        self._server, self._strangers = server, strangers

    def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new RPCs at once and end those in flight after `grace_s` seconds."""
        if self._strangers is not None:
            self._strangers.stop()
        self._server.stop(grace_s).wait()


def serve(
    address: str,
    token: str,
    *,
    calls: Mapping[str, Handler],
    streams: Mapping[str, StreamHandler] | None = None,
    threads: int = 16,
    beyond: Listen | None = None,
    on_flood: Callable[[str], None] = print,
) -> Server:
    """A started server at `address`, "unix:/path"; each open stream keeps one of its `threads`, and some are kept for
    calls: THREADS_OF_CALLS, or half of few.

    Args:
        beyond: where it also listens for other machines, with TLS.
        on_flood: see `Strangers`, which guards that port.

    Raises ConnectionLost where it cannot listen, InvalidInput for an address without TLS that others could reach.
    """
    pool = futures.ThreadPoolExecutor(threads, thread_name_prefix="rpc")
    options = [*_OPTIONS, ("grpc.max_allowed_incoming_connections", _most_connections())]
    if beyond is not None:
        options += [*_BEYOND_SERVER_OPTIONS, ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                    ("grpc.max_connection_idle_ms", _IDLE_MS), ("grpc.so_reuseport", 0)]
    methods = _Methods(token, calls, streams or {}, most_streams=max(threads // 2, threads - THREADS_OF_CALLS))
    server = grpc.server(pool, handlers=[methods], options=options)
    _bind(server, address)
    port = strangers = None
    if beyond is not None:
        port = _bind_beyond(server, beyond)
        strangers = Strangers(port, on_flood)
        methods.on_authenticated = strangers.exempt
    server.start()
    return Server(server, address, port, strangers)


def _most_connections() -> int:
    """How many connections a port of this process takes; raises the limit of descriptors as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(most - _RESERVED_DESCRIPTORS, most // 2) // 2  # a run's server has at most two ports


def _bind(server: grpc.Server, address: str) -> None:
    _refuse_plain(Endpoint(address))
    path = Path(address.removeprefix("unix:")) if address.startswith("unix:") else None
    if path is not None:
        path.unlink(missing_ok=True)  # of a server that was killed: the run's lock admits one of each
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConnectionLost(f"cannot listen on {address}: is its folder there and writable? ({error})") from None
    if path is not None:
        path.chmod(0o600)


def _bind_beyond(server: grpc.Server, beyond: Listen) -> int:
    credentials = grpc.ssl_server_credentials([(beyond.key, beyond.certificate)])
    host = f"[{beyond.host}]" if ":" in beyond.host else beyond.host
    refusal = ""
    for wanted in beyond.ports:
        try:
            port: int = server.add_secure_port(f"{host}:{wanted}", credentials)
            return port
        except RuntimeError as error:
            refusal = str(error)
    which = "" if 0 in beyond.ports else f" at any of the ports {beyond.ports[0]} to {beyond.ports[-1]}"
    raise ConnectionLost(f"cannot listen on {beyond.host}{which}: is it an address of this machine"
                         f"{', and is one of them free' if which else ''}? ({refusal})")


def _refuse_plain(endpoint: Endpoint) -> None:
    """Raises InvalidInput if a token would travel between machines in the clear."""
    if endpoint.certificate is None and not endpoint.is_here:
        raise InvalidInput(
            f"{endpoint.address} is beyond this machine, and without a certificate everybody on the way could read the "
            "run's token. Let the run have one (launcher='ray' gives it one), or use a socket or 127.0.0.1."
        )


def open_channel(where: str | Endpoint) -> grpc.Channel:
    """A channel to that address; it connects when first used and again after a loss. Raises InvalidInput."""
    return _channel(grpc, where)


def open_stream_channel(where: str | Endpoint) -> grpc.aio.Channel:
    """As `open_channel`, for the running loop of asyncio."""
    return _channel(grpc.aio, where)


def _channel(api: Any, where: str | Endpoint) -> Any:
    """A channel of gRPC's blocking or its asyncio half (`api`)."""
    endpoint = Endpoint(where) if isinstance(where, str) else where
    _refuse_plain(endpoint)
    if endpoint.certificate is None:
        return api.insecure_channel(endpoint.address, options=_CLIENT_OPTIONS)
    return api.secure_channel(
        endpoint.address, grpc.ssl_channel_credentials(endpoint.certificate),
        options=[*_CLIENT_OPTIONS, *_BEYOND_OPTIONS, ("grpc.ssl_target_name_override", CERTIFICATE_NAME)],
    )


def token_metadata(token: str) -> tuple[tuple[str, str], ...]:
    """The metadata that authenticates an RPC."""
    return ((_TOKEN, token),)


def method_path(method: str) -> str:
    """The gRPC path of a method."""
    return f"/{_SERVICE}/{method}"


_IN_WORDS = {  # why a call has no answer, where gRPC's own text names its C++ files and sockets
    grpc.StatusCode.UNAVAILABLE: "it has ended, or cannot be reached",
    grpc.StatusCode.DEADLINE_EXCEEDED: "its time is over",
    grpc.StatusCode.CANCELLED: "the call was broken off",
}


class Caller:
    """Calls the JSON methods of a server, from any thread; its repr shows no token.

    Args:
        where: the server; a function is called before each call, for a server that may restart elsewhere.
    """

    def __init__(self, where: str | Endpoint | Callable[[], Endpoint], token: str) -> None:
        endpoint = Endpoint(where) if isinstance(where, str) else where
        self._where = endpoint if callable(endpoint) else lambda: endpoint
        self._metadata = token_metadata(token)
        self._guard = threading.Lock()
        self._endpoint: Endpoint | None = None
        self._channel: grpc.Channel | None = None
        self._closed = False

    @property
    def address(self) -> str:
        """Where the server is now."""
        return self._where().address

    def call(self, method: str, *, timeout_s: float = 10.0, **arguments: Any) -> Any:
        """The function's result. Raises its WorkbenchError, AccessDenied, or ConnectionLost without an answer."""
        channel = self._open(method)
        rpc, request = channel.unary_unary(method_path(method)), json.dumps(arguments).encode()
        try:
            answer = rpc(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._error(method, error) from None
        except ValueError as error:  # the channel was closed meanwhile
            raise ConnectionLost(f"{self.address} was not asked {method}: {error}") from None
        return result_of(answer, method, self._endpoint.address if self._endpoint else "")

    def _open(self, method: str) -> grpc.Channel:
        """A channel to where the server is now; one to its former place closes with the last call that waits there."""
        endpoint = self._where()
        with self._guard:
            if self._closed:
                raise ConnectionLost(f"{endpoint.address} was not asked {method}: this connection was closed.")
            if self._channel is None or endpoint != self._endpoint:
                self._channel, self._endpoint = open_channel(endpoint), endpoint
            return self._channel

    def _error(self, method: str, error: grpc.RpcError) -> WorkbenchError:
        code = error.code()
        if code == grpc.StatusCode.UNAUTHENTICATED:
            return AccessDenied(f"{self.address} refused {method}: {error.details()}.")
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return WorkbenchError(f"{self.address} has no method {method!r}: is it of another version?")
        why = _IN_WORDS.get(code) or f"{code.name} {error.details()}"
        return ConnectionLost(f"{self.address} did not answer {method}: {why}")

    def close(self) -> None:
        """Drop the connection."""
        with self._guard:
            self._closed = True
            if self._channel is not None:
                self._channel.close()

    def __repr__(self) -> str:
        return f"Caller({self.address!r})"
