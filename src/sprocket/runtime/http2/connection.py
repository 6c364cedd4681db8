"""One connection of HTTP/2, the server's side, without I/O: bytes to events, answers to bytes.

    bytes ── frames ── streams ── events
    answers ── frames, as much as the client's windows allow ── the rest, when it opens them

Invariants

1. Any bytes, however cut, give events, or one `ConnectionFailed`, after which nothing is read.
2. An event of a stream comes while the stream is open: after `StreamReset`, or after both sides
   have ended it, there is none.
3. Of what the client sends nothing is kept but header blocks that are not whole, which have a
   limit. What it may have open is told to it (`Limits`), and what exceeds that is refused.
4. Answers that its windows hold back are kept, by the stream that they belong to; whoever answers
   at length looks at `Stream.waiting_bytes` first. All together have a limit.
5. What costs the client less than this side has a `Budget`: resets, pings, settings, priorities,
   frames of little data, windows opened by little, long header blocks; answers earn more of it.

A stream's state is what its two sides have ended. What is sent for a stream that is gone already
gives no bytes.

Source: RFC 9113.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.base.units import KIB, MIB
from sprocket.runtime.http2 import frames
from sprocket.runtime.http2.budget import Budget
from sprocket.runtime.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEAD_BYTES,
    PADDED,
    PRIORITY,
    STREAM_MAX,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    ErrorCode,
    FrameType,
    Setting,
)
from sprocket.runtime.http2.header_blocks import (
    BLOCK_BYTES_MAX,
    BLOCK_BYTES_PER_COST,
    FIELDS_PER_COST,
    LIST_BYTES_MAX,
    HeaderDecoder,
    MalformedHeaders,
    OversizedHeaders,
    RequestHead,
    UnreadableBlock,
)

Buffer = bytes | bytearray | memoryview

_DATA, _HEADERS = int(FrameType.DATA), int(FrameType.HEADERS)
_LAST: Final = END_HEADERS | END_STREAM
TABLE_BYTES: Final = 4096
"""The client's header table, as large as RFC 7541 has it by default."""
CLOSED_REMEMBERED: Final = 256
"""How many streams are known that this side has ended first; frames of them may still come."""
CONTINUATIONS_MAX: Final = 8
SHORT_BYTES: Final = frames.FRAME_BYTES_DEFAULT
"""An answer of so little needs no more than a frame for each of its parts, at any client."""
ANSWERS_REMEMBERED: Final = 256
"""What of short answers depends on their sizes alone; those to sends have some dozens of them."""
DATA_LITTLE: Final = 32
"""Less data than this, and not the last, counts against the budget: a frame has its cost."""
WINDOW_LITTLE: Final = KIB
"""A window opened by less than this counts against the budget: what waits is looked at."""


class Limits(Struct, frozen=True, kw_only=True):
    """What a client may have under way.

    Attributes:
        streams: Requests that are not answered yet.
        frame_bytes: The largest payload of a frame.
        stream_window_bytes: What of one body may be on its way.
        window_bytes: What of all bodies may be.
        waiting_bytes: What of all answers may wait for the client's windows.
    """

    streams: int = 1024
    frame_bytes: int = 64 * KIB
    stream_window_bytes: int = MIB
    window_bytes: int = 4 * MIB
    waiting_bytes: int = 64 * MIB


class Stream(Struct, eq=False):
    """One request and its answer.

    Attributes:
        number: Its own.
        head: What it began with.
        has_ended: Whether the client has sent all.
        context: What its receiver keeps beside it.
        is_open: Whether anything may be sent for it.
        waiting_bytes: How much of the answer waits for the client's windows.
    """

    number: int
    head: RequestHead
    _send_window: int
    has_ended: bool
    context: object = None
    is_open: bool = True
    waiting_bytes: int = 0
    _received_bytes: int = 0
    """Counted if its head says how many there will be."""
    _unacknowledged: int = 0
    """Received, and not given back to the client's window yet."""
    _waiting: deque[Buffer] | None = None
    _is_ending: bytes | None = None
    """The trailers that follow what waits, as a block."""


class StreamBegun(Struct, frozen=True, gc=False):
    """A request has begun; `is_last` if that is all of it, with `data` if that came with it."""

    stream: Stream
    is_last: bool
    data: bytes = b""


class DataReceived(Struct, frozen=True, gc=False):
    """A part of a body; may be empty if it is the last."""

    stream: Stream
    data: bytes
    is_last: bool


class StreamEnded(Struct, frozen=True):
    """A body is whole; it came with trailers."""

    stream: Stream
    trailers: dict[str, str]


class StreamReset(Struct, frozen=True):
    """The client has given up, or broke a rule: nothing more is sent for this stream.

    If it broke one of the whole connection, each stream that is open has this before
    `ConnectionFailed`.
    """

    stream: Stream
    code: int


class WindowOpened(Struct, frozen=True):
    """All that waited of an answer was sent."""

    stream: Stream


class Octets(Struct, frozen=True):
    """What is to be sent in answer to what was read, beside answers."""

    buffers: list[Buffer]


class ConnectionFailed(Struct, frozen=True):
    """Nothing more can be read: to be sent before the connection is closed."""

    octets: bytes
    why: str


Event = (
    StreamBegun
    | DataReceived
    | StreamEnded
    | StreamReset
    | WindowOpened
    | Octets
    | ConnectionFailed
)


class _Broken(Exception):
    """The client broke a rule of the whole connection."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


class _StreamBroken(Exception):
    """The client broke a rule of one stream."""

    def __init__(self, number: int, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.number = number
        self.code = code


class Http2Connection:
    """See the head of the module; a `runtime.driver.Carried`.

    Args:
        limits: Told to the client.
        monotonic: Seconds, for budgets.
    """

    def __init__(self, limits: Limits, monotonic: Callable[[], float]) -> None:
        self.broken: WireError | None = None
        self.is_over = False
        """Whether nothing is read any more."""
        self.streams: dict[int, Stream] = {}
        """Those that are open."""
        self.waiting_bytes = 0
        """How much of all answers waits for the client's windows."""
        self._limits = limits
        self._budget = Budget(monotonic)
        self._headers = HeaderDecoder(TABLE_BYTES)
        self._data = bytearray()
        """What was read of a frame that is not whole."""
        self._whole_bytes = 0
        """How long that is when it is whole, as far as that is known."""
        self._needs_preface = True
        self._needs_settings = True
        self._last = 0
        """The highest stream that the client has begun."""
        self._refused_after = frames.STREAM_MAX
        """The last stream that is served, once this side goes away."""
        self._send_window = WINDOW_DEFAULT
        self._stream_send_window = WINDOW_DEFAULT
        self._frame_bytes = frames.FRAME_BYTES_DEFAULT
        """The largest payload that the client takes."""
        self._unacknowledged = 0
        self._receive_window = WINDOW_DEFAULT
        """What the client may still send, of all streams."""
        self._block: bytearray | None = None
        """A header block that is not whole, while one is read."""
        self._block_stream = self._block_flags = self._continuations = 0
        self._closed: deque[int] = deque(maxlen=CLOSED_REMEMBERED)
        self._out: list[Buffer] = []
        self._events: list[Event] = []

    def receive(self, data: bytes) -> Sequence[Event]:
        """Take bytes and return the events that they complete, in their order; `Octets` first."""
        if self.is_over:
            return ()
        kept = self._data
        if kept:
            kept += data
            if len(kept) < self._whole_bytes:
                return ()
            data = bytes(kept)
            kept.clear()
        events: list[Event] = []
        self._events = events
        try:
            self._read(data)
        except _Broken as broken:
            events.append(self._fail(broken))
        if self._out:
            if not self.is_over:
                events.insert(0, Octets(self._out))
            self._out = []
        return events

    def _fail(self, broken: _Broken) -> ConnectionFailed:
        self.is_over = True
        self._data.clear()
        for stream in [*self.streams.values()]:
            self._forget(stream)
            self._events.append(StreamReset(stream, broken.code))
        out = b"".join(self._out) + frames.go_away(self._last, broken.code, broken.why)
        return ConnectionFailed(out, broken.why)

    # What is read

    def _read(self, data: bytes) -> None:
        """Take the frames of some bytes, and keep the beginning of one that is not whole."""
        at, end = 0, len(data)
        if self._needs_preface:
            if not self._read_preface(data):
                self._data += data
                return
            at = len(frames.PREFACE)
        limit, unpack, take_request = (
            self._limits.frame_bytes,
            frames.unpack_head,
            self._take_request,
        )
        whole = at + HEAD_BYTES
        while whole <= end:
            high, low, kind, flags, number = unpack(data, at)
            size, number = high << 8 | low, number & STREAM_MAX
            if size > limit:
                raise _Broken(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
            start, whole = whole, whole + size
            if whole > end:
                break
            payload, at = data[start:whole], 0
            if kind == _HEADERS:
                at = take_request(data, whole, flags, number, payload)
            if not at:
                self._take(kind, flags, number, payload)
                at = whole
            whole = at + HEAD_BYTES
        if at < end:
            self._data += data[at:]
            self._whole_bytes = whole - at

    def _take_request(self, data: bytes, at: int, flags: int, number: int, block: bytes) -> int:
        """Take a whole request if it is as nearly all are: a known block, then one frame of data.

        Args:
            data: What was read.
            at: Where the frame lies in it that follows the HEADERS.
            flags: Of the HEADERS.
            number: Its stream.
            block: Its payload.

        Returns:
            Where the next frame lies; 0 if nothing was taken, and each frame has to be.
        """
        head = self._headers.remembered(block) or self._headers.alike(block)
        start = at + HEAD_BYTES
        if head is None or head.content_length is not None or start > len(data):
            return 0
        high, low, kind, data_flags, data_number = frames.unpack_head(data, at)
        size = high << 8 | low
        end = start + size
        limits = self._limits
        if (
            flags != END_HEADERS
            or kind != _DATA
            or data_flags != END_STREAM
            or data_number & STREAM_MAX != number
            or end > len(data)
            or number <= self._last
            or not number & 1
            or number > self._refused_after
            or len(self.streams) >= limits.streams
            or not 0 < size <= self._receive_window
            or size > limits.stream_window_bytes
            or size > limits.frame_bytes
            or self._block is not None
        ):
            return 0
        self._last = number
        self._receive_window -= size
        self._unacknowledged += size
        if self._unacknowledged * 2 >= limits.window_bytes:
            self._open_window()
        stream = Stream(number, head, self._stream_send_window, True)
        self.streams[number] = stream
        self._events.append(StreamBegun(stream, True, data[start:end]))
        return end

    def _read_preface(self, data: bytes) -> bool:
        seen = data[: len(frames.PREFACE)]
        if not frames.PREFACE.startswith(seen):
            raise _Broken(ErrorCode.PROTOCOL_ERROR, "this is not HTTP/2")
        if len(seen) < len(frames.PREFACE):
            return False
        self._needs_preface = False
        limits = self._limits
        said = {
            Setting.HEADER_TABLE_SIZE: TABLE_BYTES,
            Setting.MAX_CONCURRENT_STREAMS: limits.streams,
            Setting.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
            Setting.MAX_FRAME_SIZE: limits.frame_bytes,
            Setting.MAX_HEADER_LIST_SIZE: LIST_BYTES_MAX,
        }
        self._out.append(frames.settings(said))
        wider = limits.window_bytes - WINDOW_DEFAULT
        if wider > 0:
            self._receive_window += wider
            self._out.append(frames.window_update(0, wider))
        return True

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Take one frame."""
        if self._block is not None or self._needs_settings:
            self._check_turn(kind, flags, number)
        take = _TAKE.get(kind)
        if take is None:
            self._spend()
            return
        try:
            take(self, flags, number, payload)
        except _StreamBroken as broken:
            self._spend()
            self._end_broken(broken)

    def _check_turn(self, kind: int, flags: int, number: int) -> None:
        """Refuse any frame but the one that has to be next."""
        if self._block is not None and (
            kind != FrameType.CONTINUATION or number != self._block_stream
        ):
            raise _Broken(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
        if self._needs_settings:
            if kind != FrameType.SETTINGS or flags & ACK:
                raise _Broken(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self._needs_settings = False

    def _end_broken(self, broken: _StreamBroken) -> None:
        stream = self.streams.get(broken.number)
        self._out.append(frames.reset(broken.number, broken.code))
        if stream is None:
            self._closed.append(broken.number)
        else:
            self._forget(stream)
            self._closed.append(broken.number)
            self._events.append(StreamReset(stream, broken.code))

    def _spend(self, count: int = 1) -> None:
        if not self._budget.spend(count):
            raise _Broken(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    def _take_data(self, flags: int, number: int, payload: bytes) -> None:
        stream = self.streams.get(number)
        if stream is None:
            self._check_begun(number)
        size = len(payload)
        self._count_data(size)
        if stream is None:
            if number not in self._closed:
                raise _StreamBroken(number, ErrorCode.STREAM_CLOSED)
            return  # on its way when this side ended it
        if stream.has_ended:
            raise _StreamBroken(number, ErrorCode.STREAM_CLOSED)
        data = _unpadded(payload) if flags & PADDED else payload
        has_ended = bool(flags & END_STREAM)
        if len(data) < DATA_LITTLE and not has_ended:
            self._spend()
            if not data:
                return
        length = stream.head.content_length
        if length is not None:
            stream._received_bytes += len(data)
            if stream._received_bytes > length or (has_ended and stream._received_bytes != length):
                raise _StreamBroken(number, ErrorCode.PROTOCOL_ERROR)
        stream._unacknowledged += size
        if stream._unacknowledged > self._limits.stream_window_bytes:
            raise _StreamBroken(number, ErrorCode.FLOW_CONTROL_ERROR)
        if has_ended:
            stream.has_ended = True
        elif stream._unacknowledged * 2 >= self._limits.stream_window_bytes:
            self._out.append(frames.window_update(number, stream._unacknowledged))
            stream._unacknowledged = 0
        self._events.append(DataReceived(stream, data, has_ended))

    def _count_data(self, size: int) -> None:
        """Count data against the window of the connection, and open that again in time."""
        self._receive_window -= size
        if self._receive_window < 0:
            raise _Broken(ErrorCode.FLOW_CONTROL_ERROR, "more data than the window allows")
        self._unacknowledged += size
        if self._unacknowledged * 2 >= self._limits.window_bytes:
            self._open_window()

    def _open_window(self) -> None:
        """Let the client send as much as it has sent since the last time."""
        self._out.append(frames.window_update(0, self._unacknowledged))
        self._receive_window += self._unacknowledged
        self._unacknowledged = 0

    def _check_begun(self, number: int) -> None:
        """Refuse a frame of a stream that never was."""
        if number == 0:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, "a stream's frame for the connection")
        if number > self._last:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, f"stream {number} was not begun")

    def _known(self, number: int) -> Stream | None:
        """Return an open stream, None for one that is over."""
        self._check_begun(number)
        return self.streams.get(number)

    def _take_headers(self, flags: int, number: int, payload: bytes) -> None:
        if number % 2 == 0:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, f"a client begins no stream {number}")
        block = _unpadded(payload) if flags & PADDED else payload
        if flags & PRIORITY:
            if len(block) < 5:
                raise _Broken(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without its priority")
            depends = frames.U32.unpack_from(block)[0] & frames.STREAM_MAX
            block = block[5:]
            if depends == number:
                flags |= _DEPENDS_ON_ITSELF
        if flags & END_HEADERS:
            self._take_block(flags, number, block)
            return
        self._block = bytearray(block)
        self._block_stream, self._block_flags, self._continuations = number, flags, 0

    def _take_continuation(self, flags: int, _number: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        block += payload
        self._continuations += 1
        if len(block) > BLOCK_BYTES_MAX or self._continuations > CONTINUATIONS_MAX:
            raise _Broken(ErrorCode.ENHANCE_YOUR_CALM, "a header block that does not end")
        if flags & END_HEADERS:
            self._block = None
            self._take_block(self._block_flags, self._block_stream, bytes(block))

    def _take_block(self, flags: int, number: int, block: bytes) -> None:
        """Take a whole header block: it must be read, whatever becomes of its stream."""
        stream = self.streams.get(number)
        has_ended = bool(flags & END_STREAM)
        if len(block) >= BLOCK_BYTES_PER_COST:
            self._count_block(len(block))
        try:
            if stream is not None:
                self._take_trailers(stream, block, has_ended=has_ended)
                return
            if number <= self._last:
                self._headers.skip(block)
            else:
                head = self._headers.request(block)
        except UnreadableBlock as error:
            code = ErrorCode.COMPRESSION_ERROR
            if isinstance(error, OversizedHeaders):
                code = ErrorCode.ENHANCE_YOUR_CALM
            raise _Broken(code, str(error)) from error
        except MalformedHeaders as error:
            self._last = max(self._last, number)
            raise _StreamBroken(number, ErrorCode.PROTOCOL_ERROR) from error
        if self._headers.field_count >= FIELDS_PER_COST:
            self._count_fields()
        if number <= self._last:
            if number in self._closed:
                return  # on its way when this side ended it
            raise _Broken(ErrorCode.STREAM_CLOSED, f"stream {number} is over")
        self._last = number
        if flags & _DEPENDS_ON_ITSELF or (has_ended and head.content_length):
            raise _StreamBroken(number, ErrorCode.PROTOCOL_ERROR)
        if len(self.streams) >= self._limits.streams or number > self._refused_after:
            raise _StreamBroken(number, ErrorCode.REFUSED_STREAM)
        stream = Stream(number, head, self._stream_send_window, has_ended)
        self.streams[number] = stream
        self._events.append(StreamBegun(stream, has_ended))

    def _count_block(self, size: int) -> None:
        """Count a long header block, unless it is longer than any may be."""
        if size > BLOCK_BYTES_MAX:
            raise _Broken(ErrorCode.ENHANCE_YOUR_CALM, f"a header block of {size} bytes")
        self._spend(size // BLOCK_BYTES_PER_COST)

    def _count_fields(self) -> None:
        """Count the fields of a block that had many."""
        count, self._headers.field_count = self._headers.field_count, 0
        self._spend(count // FIELDS_PER_COST)

    def _take_trailers(self, stream: Stream, block: bytes, *, has_ended: bool) -> None:
        if stream.has_ended:
            self._headers.skip(block)
            raise _StreamBroken(stream.number, ErrorCode.STREAM_CLOSED)
        trailers = self._headers.trailers(block)
        length = stream.head.content_length
        if not has_ended or (length is not None and length != stream._received_bytes):
            raise _StreamBroken(stream.number, ErrorCode.PROTOCOL_ERROR)
        stream.has_ended = True
        self._events.append(StreamEnded(stream, trailers))

    def _take_priority(self, _flags: int, number: int, payload: bytes) -> None:
        """Take what is not followed: no stream is preferred here."""
        if number == 0:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, "PRIORITY of the connection")
        if len(payload) != 5:
            raise _StreamBroken(number, ErrorCode.FRAME_SIZE_ERROR)
        if frames.U32.unpack_from(payload)[0] & frames.STREAM_MAX == number:
            raise _StreamBroken(number, ErrorCode.PROTOCOL_ERROR)
        self._spend()

    def _take_reset(self, _flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise _Broken(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM is not of 4 bytes")
        stream = self._known(number)
        self._spend()
        if stream is not None:
            self._forget(stream)
            self._events.append(StreamReset(stream, frames.U32.unpack(payload)[0]))

    def _take_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, "SETTINGS of a stream")
        if len(payload) % 6 or (flags & ACK and payload):
            raise _Broken(ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes")
        if flags & ACK:
            return
        values = frames.read_settings(payload)
        self._spend(max(len(values), 1))  # each may change the windows of all streams
        self._out.append(frames.SETTINGS_ACK)  # before what they allow
        for name, value in values:
            self._take_setting(name, value)

    def _take_setting(self, name: int, value: int) -> None:
        if name == Setting.ENABLE_PUSH and value > 1:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}")
        if name == Setting.MAX_FRAME_SIZE:
            if not frames.FRAME_BYTES_DEFAULT <= value <= frames.FRAME_BYTES_LIMIT:
                raise _Broken(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE is {value}")
            self._frame_bytes = min(value, self._limits.frame_bytes)
        if name == Setting.INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                raise _Broken(ErrorCode.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE is {value}")
            wider, self._stream_send_window = value - self._stream_send_window, value
            for stream in [*self.streams.values()]:
                stream._send_window += wider
                if stream._send_window > WINDOW_MAX:
                    raise _Broken(ErrorCode.FLOW_CONTROL_ERROR, "a window is too large")
                if wider > 0 and stream.waiting_bytes:
                    self._send_waiting(stream)

    def _take_push(self, _flags: int, _number: int, _payload: bytes) -> None:
        raise _Broken(ErrorCode.PROTOCOL_ERROR, "a client pushes nothing")

    def _take_ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise _Broken(ErrorCode.FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes")
        if not flags & ACK:
            self._spend()
            self._out.append(frames.ping_ack(payload))

    def _take_go_away(self, _flags: int, number: int, payload: bytes) -> None:
        """Take what changes nothing here: what the client has begun is answered."""
        if number:
            raise _Broken(ErrorCode.PROTOCOL_ERROR, "GOAWAY of a stream")
        if len(payload) < 8:
            raise _Broken(ErrorCode.FRAME_SIZE_ERROR, f"GOAWAY of {len(payload)} bytes")
        self._spend()

    def _take_window(self, _flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise _Broken(ErrorCode.FRAME_SIZE_ERROR, f"WINDOW_UPDATE of {len(payload)} bytes")
        wider = frames.U32.unpack(payload)[0] & frames.STREAM_MAX
        if wider < WINDOW_LITTLE:
            self._spend()
        if number == 0:
            self._send_window += wider
            if wider == 0 or self._send_window > WINDOW_MAX:
                code = ErrorCode.FLOW_CONTROL_ERROR if wider else ErrorCode.PROTOCOL_ERROR
                raise _Broken(code, f"a window that is opened by {wider}")
            if self.waiting_bytes:
                for waiting in [one for one in self.streams.values() if one.waiting_bytes]:
                    self._send_waiting(waiting)
            return
        stream = self._known(number)
        if wider == 0:
            raise _StreamBroken(number, ErrorCode.PROTOCOL_ERROR)
        if stream is None:
            return
        stream._send_window += wider
        if stream._send_window > WINDOW_MAX:
            raise _StreamBroken(number, ErrorCode.FLOW_CONTROL_ERROR)
        if stream.waiting_bytes:
            self._send_waiting(stream)

    # What is sent

    def begin(self, stream: Stream, block: bytes) -> list[Buffer]:
        """Return what begins an answer: its headers."""
        return self._header_frames(stream.number, block, 0) if stream.is_open else []

    def data(self, stream: Stream, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Return a part of an answer, as much as the client's windows allow; the rest waits.

        Raises:
            WireError: More waits for this client than may.
        """
        if not stream.is_open:
            return []
        size = sum(map(len, pieces))
        if not stream.waiting_bytes and size <= min(
            self._frame_bytes, self._send_window, stream._send_window
        ):
            self._send_window -= size
            stream._send_window -= size
            self._budget.earn()
            return [frames.head(size, FrameType.DATA, 0, stream.number), *pieces]
        if stream._waiting is None:
            stream._waiting = deque()
        stream._waiting += pieces
        stream.waiting_bytes += size
        self.waiting_bytes += size
        out = self._waiting_frames(stream)
        if self.waiting_bytes > self._limits.waiting_bytes:
            raise WireError(f"{self.waiting_bytes} bytes of answers wait for the client's windows")
        return out

    def end(self, stream: Stream, block: bytes) -> list[Buffer]:
        """Return what ends an answer: its trailers, which follow all its data."""
        if not stream.is_open:
            return []
        stream._is_ending = block
        return [] if stream.waiting_bytes else self._last_frames(stream)

    def answer(self, stream: Stream, head: bytes, data: bytes, trailers: bytes) -> list[Buffer]:
        """Return a whole answer: `begin`, `data` and `end` at once.

        That of a short one is a single buffer, which costs a third of what its parts do.
        """
        number, size = stream.number, len(data)
        if (
            not stream.is_open
            or not stream.has_ended
            or stream.waiting_bytes
            or not 0 < size <= SHORT_BYTES
            or size > self._send_window
            or size > stream._send_window
            or len(head) > SHORT_BYTES
            or len(trailers) > SHORT_BYTES
        ):
            out = self.begin(stream, head)
            if data:
                out += self.data(stream, (data,))
            return out + self.end(stream, trailers)
        self._send_window -= size
        self._budget.earn(2)
        stream.is_open = False
        del self.streams[number]
        begun, said, ended = _answer_parts(head, size, trailers)
        octets = frames.U32.pack(number)
        return [b"".join((begun, octets, said, octets, data, ended, octets, trailers))]

    def reset(self, stream: Stream, code: ErrorCode) -> list[Buffer]:
        """Return what ends a stream at once."""
        if not stream.is_open:
            return []
        self._forget(stream)
        self._closed.append(stream.number)
        return [frames.reset(stream.number, code)]

    def go_away(self) -> bytes:
        """Return what tells the client to begin no more streams here; those begun are served."""
        self._refused_after = self._last
        return frames.go_away(self._last, ErrorCode.NO_ERROR)

    def _header_frames(self, number: int, block: bytes, flags: int) -> list[Buffer]:
        limit = self._frame_bytes
        if len(block) <= limit:
            flags |= END_HEADERS
            return [frames.head(len(block), FrameType.HEADERS, flags, number) + block]
        out: list[Buffer] = []
        for start in range(0, len(block), limit):
            part = block[start : start + limit]
            kind = FrameType.CONTINUATION if start else FrameType.HEADERS
            part_flags = 0 if start else flags
            if start + limit >= len(block):
                part_flags |= END_HEADERS
            out.append(frames.head(len(part), kind, part_flags, number) + part)
        return out

    def _waiting_frames(self, stream: Stream) -> list[Buffer]:
        """Take from what waits what the windows allow."""
        out: list[Buffer] = []
        waiting = stream._waiting
        while waiting is not None and stream.waiting_bytes:
            room = min(self._frame_bytes, self._send_window, stream._send_window)
            if room <= 0:
                break
            size = min(room, stream.waiting_bytes)
            out.append(frames.head(size, FrameType.DATA, 0, stream.number))
            self._send_window -= size
            stream._send_window -= size
            self._budget.earn()
            stream.waiting_bytes -= size
            self.waiting_bytes -= size
            while size:
                piece = memoryview(waiting.popleft())
                if len(piece) > size:
                    waiting.appendleft(piece[size:])
                    piece = piece[:size]
                out.append(piece)
                size -= len(piece)
        return out

    def _last_frames(self, stream: Stream) -> list[Buffer]:
        block = stream._is_ending
        assert block is not None, "an answer that goes on"
        self._budget.earn()
        out = self._header_frames(stream.number, block, END_STREAM)
        if not stream.has_ended:  # the client need not send the rest
            out.append(frames.reset(stream.number, ErrorCode.NO_ERROR))
            self._closed.append(stream.number)
        self._forget(stream)
        return out

    def _send_waiting(self, stream: Stream) -> None:
        self._out += self._waiting_frames(stream)
        if stream.waiting_bytes:
            return
        if stream._is_ending is not None:
            self._out += self._last_frames(stream)
        else:
            self._events.append(WindowOpened(stream))

    def _forget(self, stream: Stream) -> None:
        stream.is_open = False
        del self.streams[stream.number]
        self.waiting_bytes -= stream.waiting_bytes
        stream.waiting_bytes = 0
        stream._waiting = None


_DEPENDS_ON_ITSELF: Final = 0x100
"""Beside the flags of a HEADERS frame: its priority names its own stream."""

_TAKE: Final[dict[int, Callable[[Http2Connection, int, int, bytes], None]]] = {
    FrameType.DATA: Http2Connection._take_data,
    FrameType.HEADERS: Http2Connection._take_headers,
    FrameType.PRIORITY: Http2Connection._take_priority,
    FrameType.RST_STREAM: Http2Connection._take_reset,
    FrameType.SETTINGS: Http2Connection._take_settings,
    FrameType.PUSH_PROMISE: Http2Connection._take_push,
    FrameType.PING: Http2Connection._take_ping,
    FrameType.GOAWAY: Http2Connection._take_go_away,
    FrameType.WINDOW_UPDATE: Http2Connection._take_window,
    FrameType.CONTINUATION: Http2Connection._take_continuation,
}
"""What takes a frame, by its type."""


@lru_cache(ANSWERS_REMEMBERED)
def _answer_parts(head: bytes, size: int, trailers: bytes) -> tuple[bytes, bytes, bytes]:
    """Return what of a short answer is the same for each stream, in three parts.

    Each ends where the number of the stream follows.

    Args:
        head: The block that it begins with.
        size: Of its data, which follow the second number.
        trailers: The block that follows the third number.
    """
    begun, said, ended = (
        frames.head(length, kind, flags, 0)[: -frames.U32.size]
        for length, kind, flags in (
            (len(head), _HEADERS, END_HEADERS),
            (size, _DATA, 0),
            (len(trailers), _HEADERS, _LAST),
        )
    )
    return begun, head + said, ended


def _unpadded(payload: bytes) -> bytes:
    """Return the payload of a padded frame without its padding."""
    if not payload or payload[0] >= len(payload):
        raise _Broken(ErrorCode.PROTOCOL_ERROR, "a frame that is nothing but padding")
    return payload[1 : len(payload) - payload[0]]
