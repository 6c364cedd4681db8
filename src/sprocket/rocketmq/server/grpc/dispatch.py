"""Finds what handles a call, and what becomes of calls whose client leaves.

    event of the connection ── row, by path ── request ── guard ── handler

A handler is given a `ClientCall`, and answers it now or later. What it raises is answered by
`ClientCall.fail`.

Source: RocketMQ `GrpcMessagingApplication`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message
from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import DiskBusy
from sprocket.rocketmq.codec.grpc.messages import Status
from sprocket.rocketmq.codec.grpc.schema import Rpc
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.model.rights import Requirement
from sprocket.rocketmq.server.grpc.calls import A, ClientCall, Q
from sprocket.runtime import http2
from sprocket.runtime.driver import Peer
from sprocket.runtime.grpc import (
    CallBegun,
    CallLeft,
    Event,
    GrpcCall,
    GrpcConnection,
    MessageReceived,
    MessagesEnded,
    RpcMethod,
    StatusCode,
)

_log = log.get_limited_logger(__name__)

M = TypeVar("M", bound=Message)
P = TypeVar("P", bound=Message)


class CallGuard(Protocol):
    """Refuses calls that are not signed, or not allowed."""

    def check(self, call: "AnyCall", needs: Iterable[Requirement]) -> None:
        """Return if a call may be handled. Raises Declined."""


AnyCall = ClientCall[Message, Message]


class GrpcRow(Struct, frozen=True):
    """A method, and what handles its calls.

    Attributes:
        method: Which.
        begin: Handles what begins a call.
        receive: Handles a message of one that takes any number.
    """

    method: RpcMethod
    begin: Callable[[Peer, GrpcCall, bytes | None, CallGuard | None], None]
    receive: Callable[[GrpcCall, bytes, CallGuard | None], None] | None = None


def one(made: Callable[[Status], M]) -> Callable[[Status], Sequence[M]]:
    """Return what makes the only answer of a call that fails."""
    return lambda status: [made(status)]


def row(
    rpc: Rpc,
    read: Callable[[bytes], Q],
    failing: Callable[[Status], Sequence[A]],
    needs: Callable[[ClientCall[Q, A]], Iterable[Requirement]] | None,
    handle: Callable[[ClientCall[Q, A]], None],
) -> GrpcRow:
    """Return the row of a method that takes one request.

    Args:
        rpc: Which.
        read: Reads its requests; raises DecodeError.
        failing: Makes the answers that tell of a status.
        needs: Gives what a request needs of the rights of whoever asks; None if anybody may ask who
            need not even say who they are.
        handle: Handles a call; answers it, or raises.
    """

    def begin(peer: Peer, rpc_call: GrpcCall, data: bytes | None, guard: CallGuard | None) -> None:
        assert data is not None, "a call of one request comes with it"
        try:
            request = read(data)
        except DecodeError:
            peer.send(rpc_call.end(StatusCode.INTERNAL, "Invalid protobuf byte sequence"))
            return
        call = rpc_call.context = ClientCall(peer, rpc_call, request, failing)
        try:
            _check(call, needs, guard)
            handle(call)
        except Exception as error:  # its client is told, and others are served
            call.fail(error)

    return GrpcRow(RpcMethod(rpc.path), begin)


def stream_row(
    rpc: Rpc,
    kind: type[P],
    needs: Callable[[ClientCall[P, A]], Iterable[Requirement]] | None,
    handle: Callable[[ClientCall[P, A]], None],
) -> GrpcRow:
    """Return the row of a method that takes any number of requests.

    Args:
        rpc: Which.
        kind: Its requests.
        needs: As for `row`; asked of each request.
        handle: Handles each request, which is the call's then; what it raises ends the call.
    """

    def begin(peer: Peer, rpc_call: GrpcCall, _: bytes | None, __: CallGuard | None) -> None:
        rpc_call.context = ClientCall[P, A](peer, rpc_call, kind(), lambda _: ())

    def receive(rpc_call: GrpcCall, data: bytes, guard: CallGuard | None) -> None:
        call: ClientCall[P, A] | None = rpc_call.context  # type: ignore[assignment]
        assert call is not None, "a message follows the beginning of its call"
        try:
            call.request = kind.FromString(data)
            _check(call, needs, guard)
            handle(call)
        except DecodeError:
            call.end(StatusCode.INTERNAL, "Invalid protobuf byte sequence")
        except Declined as declined:
            call.end(_END_CODES.get(declined.code, StatusCode.INVALID_ARGUMENT), declined.why)
        except Exception as error:  # its client is told, and others are served
            _log.error("a stream failed unexpectedly", exc_info=error, peer=call.peer.told_address)
            call.end(StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

    return GrpcRow(RpcMethod(rpc.path, takes_stream=True), begin, receive)


_END_CODES: Final = {
    Code.UNAUTHORIZED: StatusCode.UNAUTHENTICATED,
    Code.FORBIDDEN: StatusCode.PERMISSION_DENIED,
    Code.TOO_MANY_REQUESTS: StatusCode.RESOURCE_EXHAUSTED,
}


def _check(
    call: ClientCall[Q, A],
    needs: Callable[[ClientCall[Q, A]], Iterable[Requirement]] | None,
    guard: CallGuard | None,
) -> None:
    """Refuse a call without a client, or that its client may not make. Raises Declined."""
    if needs is None:
        return
    if not call.client_id.strip():
        raise Declined(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
    if guard is not None:
        guard.check(call, needs(call))  # type: ignore[arg-type]


def busy() -> DiskBusy:
    """Return the refusal of what would add to what waits for the disk (`runtime.pressure`)."""
    return DiskBusy("the disk is behind and too many messages wait for it")


class GrpcDispatcher:
    """The table.

    Args:
        rows: One for each method.
        guard: Looks at each call first, if there is one.

    Threads: event loop only.
    """

    def __init__(self, rows: Iterable[GrpcRow], guard: CallGuard | None = None) -> None:
        self._rows = {one.method.path: one for one in rows}
        self._guard = guard
        self.methods = {path: one.method for path, one in self._rows.items()}
        """What is served, by path."""

    def __call__(self, peer: Peer, event: Event) -> None:
        """Handle one event of a connection; what `runtime.driver.listen` wants."""
        if isinstance(event, CallBegun):
            call = event.call
            self._rows[call.method.path].begin(peer, call, event.message, self._guard)
            if call.is_open:
                peer.when_closed(closed)
        elif isinstance(event, MessageReceived):
            call = event.call
            receive = self._rows[call.method.path].receive
            if receive is not None and call.is_open:
                receive(call, event.message, self._guard)
        elif isinstance(event, MessagesEnded):
            _leave(event.call)
            if event.call.is_open:
                peer.send(event.call.end())
        elif isinstance(event, CallLeft):
            _leave(event.call)
        elif isinstance(event, http2.Octets):
            peer.send(event.buffers)
        elif isinstance(event, http2.ConnectionFailed):
            _log.info("a client broke the rules of HTTP/2", peer=peer.told_address, why=event.why)
            peer.send([event.octets])
            peer.close()


def closed(peer: Peer) -> None:
    """Tell each call of a connection that is gone."""
    connection = peer.connection
    if isinstance(connection, GrpcConnection):
        for stream in [*connection.http.streams.values()]:
            if isinstance(stream.context, GrpcCall):
                _leave(stream.context)


def _leave(rpc_call: GrpcCall) -> None:
    """Tell a call that its client does not wait any more; once."""
    call = rpc_call.context
    rpc_call.let_go()
    if isinstance(call, ClientCall):
        call.leave()
