"""One connection of gRPC, the server's side, without I/O: bytes to calls, answers to bytes.

    HTTP/2 events ── calls, by the path that was asked for ── messages ── events
    messages and how a call ends ── HTTP/2 frames

A method takes one message, or any number (`takes_stream`). A call of the first kind is one event,
once its message is whole; of the second kind each message is one, and so is the end.

Invariants

1. Each call gets one end: a status that its method gives, or one of this module's if the request is
   wrong; none if the client has left it.
2. After `CallLeft` nothing that is sent for a call gives any bytes.

Source: gRPC over HTTP2.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.base.units import MIB
from sprocket.runtime import http2
from sprocket.runtime.grpc import messages
from sprocket.runtime.grpc.messages import ENCODINGS, GZIP, IDENTITY, MessageReader
from sprocket.runtime.grpc.status import CallFailed, StatusCode, message_text
from sprocket.runtime.http2 import (
    DataReceived,
    ErrorCode,
    Http2Connection,
    Octets,
    StreamBegun,
    StreamEnded,
    StreamReset,
    WindowOpened,
)

Buffer = bytes | bytearray | memoryview

UNFINISHED_BYTES_MAX: Final = 64 * MIB
"""What one client may have sent of messages that are not whole."""

TIMEOUTS_REMEMBERED: Final = 256
"""Most clients give all calls of a kind the same time; to read it again takes 1 µs."""
_HEAD: Final = http2.response_block(
    200, [("content-type", "application/grpc"), ("grpc-accept-encoding", ENCODINGS)]
)
_OK: Final = http2.trailers_block([("grpc-status", "0")])
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)
_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


class RpcMethod(Struct, frozen=True):
    """A method that is served.

    Attributes:
        path: `/package.Service/Name`.
        takes_stream: Whether it takes any number of messages.
    """

    path: str
    takes_stream: bool = False


class CallHead(Struct, frozen=True):
    """What the head of a request says of a call.

    Attributes:
        method: Which is called.
        encoding: How it compresses them.
        timeout_seconds: How long it will wait from the beginning of the call; None for ever.
    """

    method: RpcMethod
    encoding: str
    timeout_seconds: float | None


class GrpcCall(Struct, eq=False):
    """One call of a method.

    Attributes:
        head: What it began with.
        method: Which.
        metadata: What the client says beside its messages, by names in small letters.
        context: What its receiver keeps beside it.
    """

    _connection: "GrpcConnection"
    _stream: http2.Stream
    head: CallHead
    method: RpcMethod
    metadata: Mapping[str, str]
    context: object = None
    _reader: MessageReader | None = None
    _request: bytes | None = None
    _has_begun: bool = False

    @property
    def timeout_seconds(self) -> float | None:
        """How long the client will wait from the beginning of the call; None for ever."""
        return self.head.timeout_seconds

    @property
    def authority(self) -> str:
        """The name by which the client asked for this server."""
        return self._stream.head.authority

    @property
    def rest_bytes(self) -> int:
        """How much there is of a message that is not whole."""
        return 0 if self._reader is None else self._reader.rest_bytes

    @property
    def is_open(self) -> bool:
        """Whether the client waits for anything."""
        return self._stream.is_open

    @property
    def waiting_bytes(self) -> int:
        """How much that was sent waits until the client takes more."""
        return self._stream.waiting_bytes

    def answer(self, message: bytes) -> list[Buffer]:
        """Return the bytes of a message and the end of the call, which went well.

        Raises as `message`.
        """
        stream = self._stream
        self.context = stream.context = None  # as `let_go` does
        if self._has_begun:
            return self.message(message) + self.end()
        self._has_begun = True
        data = messages.message_head(len(message)) + message
        return self._connection.http.answer(stream, _HEAD, data, _OK)

    def message(self, message: bytes) -> list[Buffer]:
        """Return the bytes of a message. Raises WireError if too much waits for this client."""
        out: list[Buffer] = []
        http = self._connection.http
        if not self._has_begun:
            self._has_begun = True
            out += http.begin(self._stream, _HEAD)
        return out + http.data(self._stream, (messages.message_head(len(message)), message))

    def end(
        self,
        code: StatusCode = StatusCode.OK,
        why: str = "",
        details: Sequence[tuple[str, str]] = (),
    ) -> list[Buffer]:
        """Return the bytes that end the call.

        Args:
            code: How it went.
            why: For people.
            details: Further trailers.
        """
        if code == StatusCode.OK and not details and self._has_begun:
            block = _OK
        else:
            fields = [("grpc-status", str(int(code)))]
            if why:
                fields.append(("grpc-message", message_text(why)))
            block = http2.trailers_block([*fields, *details])
        if not self._has_begun:
            self._has_begun = True
            block = _HEAD + block
        self.let_go()
        return self._connection.http.end(self._stream, block)

    def let_go(self) -> None:
        """Let nothing be found by it any more, nor it by its stream: nobody will ask.

        Each of these refers to the other, and a circle may stay for ever (`runtime.collector`).
        """
        self.context = self._stream.context = None


class CallBegun(Struct, frozen=True, gc=False):
    """A call with its only message, or of a method that takes any number: these will come."""

    call: GrpcCall
    message: bytes | None


class MessageReceived(Struct, frozen=True):
    """One message of a method that takes any number."""

    call: GrpcCall
    message: bytes


class MessagesEnded(Struct, frozen=True):
    """The last message of such a method has come."""

    call: GrpcCall


class CallLeft(Struct, frozen=True):
    """The client does not wait for the call any more."""

    call: GrpcCall


class CallReady(Struct, frozen=True):
    """All that was sent of the call has been taken."""

    call: GrpcCall


Event = (
    CallBegun
    | MessageReceived
    | MessagesEnded
    | CallLeft
    | CallReady
    | http2.Octets
    | http2.ConnectionFailed
)


class _NotGrpc(Exception):
    """A request of something else; the status of HTTP says what is wrong."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class GrpcConnection:
    """See the head of the module; a `runtime.driver.Carried`.

    Args:
        methods: What is served, by path; connections share it.
        message_bytes_max: The largest message that is taken.
        limits: What a client may have under way.
        monotonic: Seconds.
    """

    def __init__(
        self,
        methods: Mapping[str, RpcMethod],
        message_bytes_max: int,
        limits: http2.Limits,
        monotonic: Callable[[], float],
    ) -> None:
        self.broken: WireError | None = None
        self.http = Http2Connection(limits, monotonic)
        """What carries it."""
        self._methods = methods
        self._message_bytes_max = message_bytes_max
        self._unfinished_bytes = 0

    def receive(self, data: bytes) -> Sequence[Event]:
        """Take bytes and return the events that they complete, in their order; `Octets` first."""
        found: list[Event] = []
        out: list[Buffer] = []
        for event in self.http.receive(data):
            if isinstance(event, StreamBegun):
                self._begin(event, found, out)
            elif isinstance(event, DataReceived):
                call = event.stream.context
                if isinstance(call, GrpcCall):
                    self._receive_part(call, event.data, found, out, is_last=event.is_last)
            elif isinstance(event, StreamEnded):
                call = event.stream.context
                if isinstance(call, GrpcCall):
                    self._receive_part(call, b"", found, out, is_last=True)
            elif isinstance(event, StreamReset):
                call = event.stream.context
                if isinstance(call, GrpcCall):
                    self._unfinished_bytes -= call.rest_bytes
                    found.append(CallLeft(call))
            elif isinstance(event, WindowOpened):
                call = event.stream.context
                if isinstance(call, GrpcCall):
                    found.append(CallReady(call))
            elif isinstance(event, Octets):
                out += event.buffers
            else:
                found.append(event)
        return [Octets(out), *found] if out else found

    def _begin(self, event: StreamBegun, found: list[Event], out: list[Buffer]) -> None:
        stream = event.stream
        said = stream.head.context
        if not isinstance(said, CallHead):
            try:
                said = stream.head.context = self._looked_at(stream.head)
            except _NotGrpc as error:
                out += self.http.end(stream, http2.response_block(error.status, []))
                return
            except CallFailed as failed:
                out += self._refused(stream, failed)
                return
        method = said.method
        call = stream.context = GrpcCall(self, stream, said, method, stream.head.fields)
        if method.takes_stream:
            found.append(CallBegun(call, None))
        elif event.is_last:
            message = messages.only_message(event.data, self._message_bytes_max)
            if message is not None:
                found.append(CallBegun(call, message))
                return
        if event.is_last:
            self._receive_part(call, event.data, found, out, is_last=True)

    def _looked_at(self, head: http2.RequestHead) -> CallHead:
        """Return what the head of a request says of a call. Raises CallFailed, _NotGrpc."""
        fields = head.fields
        if head.method != "POST":
            raise _NotGrpc(405)
        if not fields.get("content-type", "").startswith("application/grpc"):
            raise _NotGrpc(415)
        method = self._methods.get(head.path)
        if method is None:
            raise CallFailed(StatusCode.UNIMPLEMENTED, f"Method not found: {head.path[1:]}")
        encoding = fields.get("grpc-encoding", IDENTITY)
        if encoding not in (IDENTITY, GZIP):
            raise CallFailed(
                StatusCode.UNIMPLEMENTED, f"messages may be {ENCODINGS}, not {encoding}"
            )
        said = fields.get("grpc-timeout")
        seconds = None
        if said is not None:
            seconds = _timeout(said)
            if seconds is None:
                raise CallFailed(StatusCode.INTERNAL, f"grpc-timeout is {said!r}")
        return CallHead(method, encoding, seconds)

    def _receive_part(
        self, call: GrpcCall, part: bytes, found: list[Event], out: list[Buffer], *, is_last: bool
    ) -> None:
        """Take a part of a call's body."""
        reader = call._reader
        if reader is None:
            if is_last and not call.method.takes_stream:
                message = messages.only_message(part, self._message_bytes_max)
                if message is not None:
                    found.append(CallBegun(call, message))
                    return
            reader = call._reader = MessageReader(call.head.encoding, self._message_bytes_max)
        before = reader.rest_bytes
        try:
            received = reader.receive(part)
            self._unfinished_bytes += reader.rest_bytes - before
            if self._unfinished_bytes > UNFINISHED_BYTES_MAX:
                raise CallFailed(
                    StatusCode.RESOURCE_EXHAUSTED, "too many messages have begun and go on"
                )
            if is_last and reader.rest_bytes:
                raise CallFailed(StatusCode.INTERNAL, "the call ends within a message")
            if call.method.takes_stream:
                found += [MessageReceived(call, one) for one in received]
                if is_last:
                    found.append(MessagesEnded(call))
                return
            self._receive_only(call, received, found, is_last=is_last)
        except CallFailed as failed:
            self._unfinished_bytes -= reader.rest_bytes
            call._stream.context = None
            if call.method.takes_stream:
                found.append(CallLeft(call))
            out += self._refused(call._stream, failed, has_begun=call._has_begun)

    def _receive_only(
        self, call: GrpcCall, received: list[bytes], found: list[Event], *, is_last: bool
    ) -> None:
        """Take the message of a method that takes one. Raises CallFailed."""
        if len(received) > 1 or (received and call._request is not None):
            raise CallFailed(StatusCode.INTERNAL, "more than one message")
        if received:
            call._request = received[0]
        if is_last:
            if call._request is None:
                raise CallFailed(StatusCode.INTERNAL, "no message")
            message, call._request = call._request, None
            found.append(CallBegun(call, message))

    def _refused(
        self, stream: http2.Stream, failed: CallFailed, *, has_begun: bool = False
    ) -> list[Buffer]:
        fields = [
            ("grpc-status", str(int(failed.code))),
            ("grpc-message", message_text(failed.why)),
        ]
        block = http2.trailers_block(fields)
        return self.http.end(stream, block if has_begun else _HEAD + block)

    def cancel(self, call: GrpcCall) -> list[Buffer]:
        """Return the bytes that end a call without a status."""
        return self.http.reset(call._stream, ErrorCode.CANCEL)


@lru_cache(TIMEOUTS_REMEMBERED)
def _timeout(said: str) -> float | None:
    """Return the seconds that a `grpc-timeout` says, None if it says none."""
    found = _TIMEOUT.fullmatch(said)
    return None if found is None else int(found[1]) * _SECONDS[found[2]]
