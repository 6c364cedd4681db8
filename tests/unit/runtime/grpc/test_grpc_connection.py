"""Calls of gRPC over HTTP/2: messages however they are cut, ends of calls, wrong requests."""

import gzip
import struct
import time
from collections.abc import Sequence

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.http2.http2_client import (
    END_HEADERS,
    END_STREAM,
    POST,
    Clock,
    Fields,
    frame,
    read,
)

from sprocket.base.units import MIB
from sprocket.runtime import grpc, http2
from sprocket.runtime.grpc import (
    CallBegun,
    CallLeft,
    CallReady,
    Event,
    GrpcConnection,
    MessageReceived,
    MessagesEnded,
    RpcMethod,
    StatusCode,
    messages,
)
from sprocket.runtime.http2 import frames

DATA, HEADERS, RST = 0, 1, 3
ONE = RpcMethod("/service/Method")
MANY = RpcMethod("/service/Many", takes_stream=True)
METHODS = {method.path: method for method in (ONE, MANY)}
MESSAGE_BYTES_MAX = 1_000


class Caller:
    """A client and the server that it calls."""

    def __init__(self) -> None:
        """Begin a connection."""
        limits = http2.Limits()
        self.server = GrpcConnection(METHODS, MESSAGE_BYTES_MAX, limits, Clock())
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.server.receive(frames.PREFACE + frame(4, 0, 0))

    def begin(self, stream: int, fields: Fields = POST, flags: int = END_HEADERS) -> bytes:
        """Return the beginning of a call."""
        return frame(HEADERS, flags, stream, self.encoder.encode(list(fields)))

    def call(self, stream: int, data: bytes, fields: Fields = POST) -> Sequence[Event]:
        """Make a call with this body, and return what becomes of it."""
        return self.server.receive(
            self.begin(stream, fields) + frame(DATA, END_STREAM, stream, data)
        )

    def end_of(self, said: bytes) -> tuple[str, str]:
        """Return the status and text with which a call ends."""
        fields: dict[str, str] = {}
        for kind, _, _, payload in read(said):
            if kind == HEADERS:
                fields |= {str(name): str(value) for name, value in self.decoder.decode(payload)}
        return fields["grpc-status"], fields.get("grpc-message", "")


def message(data: bytes, flag: int = 0) -> bytes:
    """Return a message as it is sent."""
    return struct.pack(">BI", flag, len(data)) + data


def octets(events: Sequence[Event]) -> bytes:
    """Return what the server says by itself."""
    return b"".join(b"".join(event.buffers) for event in events if isinstance(event, http2.Octets))


def test_a_call_and_its_answer() -> None:
    """One event, and what the client reads."""
    caller = Caller()
    fields = [*POST, ("x-mq-client-id", "c"), ("grpc-timeout", "250m")]
    (event,) = caller.call(1, message(b"question"), fields)
    assert isinstance(event, CallBegun)
    assert event.message == b"question"
    call = event.call
    assert (call.method, call.timeout_seconds, call.authority) == (ONE, 0.25, "here:8081")
    assert call.metadata["x-mq-client-id"] == "c"
    said = b"".join(call.answer(b"answer"))
    assert [one[3] for one in read(said) if one[0] == DATA] == [message(b"answer")]
    assert caller.end_of(said) == ("0", "")
    assert not call.is_open
    assert call.answer(b"again") == []


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 300), max_size=10))
def test_messages_are_the_same_however_they_are_cut(sent: list[bytes], places: list[int]) -> None:
    """In one frame or many."""
    caller = Caller()
    fields = [(name, MANY.path if name == ":path" else value) for name, value in POST]
    (event,) = caller.server.receive(caller.begin(1, fields))
    assert isinstance(event, CallBegun)
    assert event.message is None
    data = b"".join(map(message, sent))
    ends = [*sorted({place for place in places if place < len(data)}), len(data)]
    found: list[Event] = []
    start = 0
    for end in ends:
        last = END_STREAM if end == len(data) else 0
        found += caller.server.receive(frame(DATA, last, 1, data[start:end]))
        start = end
    expected = [MessageReceived(event.call, one) for one in sent]
    assert [one for one in found if not isinstance(one, http2.Octets)] == [
        *expected,
        MessagesEnded(event.call),
    ]


@given(st.binary(max_size=40) | st.just(bytes(MESSAGE_BYTES_MAX + 1)), st.data())
def test_a_request_is_the_same_however_it_is_cut(sent: bytes, data: st.DataObject) -> None:
    """In one frame or many: a call, or the same refusal; also of bytes that are not a message."""
    flag, more = data.draw(st.sampled_from((0, 0, 1, 7))), data.draw(st.binary(max_size=3))
    body = (message(sent, flag) + more)[: data.draw(st.integers(0, len(sent) + 12))]
    told = []
    for place in (0, data.draw(st.integers(0, len(body)))):
        caller = Caller()
        parts = frame(DATA, 0, 1, body[:place]) if place else b""
        events = caller.server.receive(
            caller.begin(1) + parts + frame(DATA, END_STREAM, 1, body[place:])
        )
        ends = [payload for kind, _, _, payload in read(octets(events)) if kind == HEADERS]
        told.append((ends, [one.message for one in events if isinstance(one, CallBegun)]))
    assert told[0] == told[1]


@pytest.mark.parametrize("size", [0, 20, 20_000, 70_000])
def test_an_answer_at_once_is_a_message_and_the_end(size: int) -> None:
    """Byte by byte, and both leave the same waiting."""
    told = []
    for is_whole in (True, False):
        caller = Caller()
        (event,) = caller.call(1, message(b""))
        assert isinstance(event, CallBegun)
        call, answer = event.call, bytes(size)
        out = call.answer(answer) if is_whole else call.message(answer) + call.end()
        told.append((b"".join(out), call.waiting_bytes, call.is_open))
    assert told[0] == told[1]


def with_field(name: str, value: str) -> Fields:
    """Return a request's fields with one changed or added."""
    kept = [(key, value if key == name else old) for key, old in POST]
    return kept if name in dict(POST) else [*kept, (name, value)]


@pytest.mark.parametrize(
    ("fields", "data", "status", "text"),
    [
        (with_field(":path", "/service/Nothing"), message(b""), 12, "Method not found"),
        (with_field("grpc-encoding", "br"), message(b""), 12, "identity,gzip"),
        (with_field("grpc-timeout", "soon"), message(b""), 13, "grpc-timeout"),
        (POST, b"", 13, "no message"),
        (POST, message(b"1") * 2, 13, "more than one"),
        (POST, message(b"12")[:-1], 13, "within a message"),
        (POST, struct.pack(">BI", 0, 5_000), 8, "5000 bytes"),
        (POST, message(b"x", 1), 13, "compression"),
        (with_field("grpc-encoding", "gzip"), message(b"x" * 20, 1), 13, "not gzip"),
        (
            with_field("grpc-encoding", "gzip"),
            message(gzip.compress(bytes(9_000), mtime=0), 1),
            8,
            "1000",
        ),
        (
            with_field("grpc-encoding", "gzip"),
            message(gzip.compress(b"xy", mtime=0)[:-9], 1),
            13,
            "soon",
        ),
    ],
)
def test_a_wrong_request_is_told_why(fields: Fields, data: bytes, status: int, text: str) -> None:
    """And the next call is served."""
    caller = Caller()
    events = caller.call(1, data, fields)
    assert not [event for event in events if isinstance(event, CallBegun)]
    code, why = caller.end_of(octets(events))
    assert int(code) == status
    assert text in why
    assert isinstance(caller.call(3, message(b"right"))[0], CallBegun)


def test_what_is_no_call_gets_an_answer_of_http() -> None:
    """Another method than POST, and other content."""
    for name, value, status in ((":method", "GET", "405"), ("content-type", "text/html", "415")):
        caller = Caller()
        said = octets(caller.call(1, b"", with_field(name, value)))
        (head,) = [payload for kind, _, _, payload in read(said) if kind == HEADERS]
        first, *_ = caller.decoder.decode(head)
        assert (str(first[0]), str(first[1])) == (":status", status)


def test_a_compressed_message_is_given_out_as_it_is() -> None:
    """Beside plain ones of the same call."""
    caller = Caller()
    data = message(gzip.compress(b"long text"), 1)
    (event,) = caller.call(1, data, with_field("grpc-encoding", "gzip"))
    assert isinstance(event, CallBegun)
    assert event.message == b"long text"
    packed = messages.compressed(b"text")
    assert (packed[0], gzip.decompress(packed[5:])) == (1, b"text")


def test_a_call_that_fails_says_why() -> None:
    """With any text, with details, before and after messages."""
    caller = Caller()
    (event,) = caller.call(1, message(b""))
    assert isinstance(event, CallBegun)
    why = "nö: 100 %\n"
    said = b"".join(event.call.end(StatusCode.NOT_FOUND, why, [("more", "x")]))
    assert caller.end_of(said) == ("5", "n%C3%B6: 100 %25%0A")
    (event,) = caller.call(3, message(b""))
    assert isinstance(event, CallBegun)
    said = b"".join([*event.call.message(b"some"), *event.call.end(StatusCode.ABORTED)])
    assert caller.end_of(said) == ("10", "")


def test_a_client_that_leaves_is_told_of() -> None:
    """Nothing is sent to it after that."""
    caller = Caller()
    (event,) = caller.call(1, message(b""))
    assert isinstance(event, CallBegun)
    assert caller.server.receive(frame(RST, 0, 1, bytes(4))) == [CallLeft(event.call)]
    assert event.call.message(b"x") == event.call.end() == []
    (event,) = caller.call(3, message(b""))
    assert isinstance(event, CallBegun)
    (out,) = caller.server.cancel(event.call)
    assert read(bytes(out)) == [(RST, 0, 3, struct.pack(">I", 8))]


def test_who_sends_at_length_is_told_when_the_client_takes_more() -> None:
    """After its windows were full."""
    caller = Caller()
    (event,) = caller.call(1, message(b""))
    assert isinstance(event, CallBegun)
    event.call.message(bytes(70_000))
    assert event.call.waiting_bytes == 70_005 - 65_535
    for stream in (0, 1):
        events = caller.server.receive(frame(8, 0, stream, struct.pack(">I", 9_000)))
    assert events[1] == CallReady(event.call)
    assert event.call.waiting_bytes == 0


def test_a_stream_of_messages_that_breaks_is_left() -> None:
    """Its method hears of it, and the client why."""
    caller = Caller()
    (event,) = caller.server.receive(caller.begin(1, with_field(":path", MANY.path)))
    assert isinstance(event, CallBegun)
    events = caller.server.receive(frame(DATA, 0, 1, struct.pack(">BI", 0, 5_000)))
    assert events[1] == CallLeft(event.call)
    assert caller.end_of(octets(events))[0] == "8"


def test_the_face_has_what_is_needed() -> None:
    """Whoever serves calls imports the room alone."""
    assert {"GrpcCall", "CallBegun", "GrpcConnection", "RpcMethod", "StatusCode"} <= set(
        grpc.__all__
    )


def parts_seconds(before: int, count: int = 2_000) -> float:
    """Return the CPU that so many parts of a byte take, after so much of their message."""
    reader = messages.MessageReader("identity", 64 * MIB)
    reader.receive(struct.pack(">BI", 0, 32 * MIB) + bytes(before))
    begun = time.process_time()
    for _ in range(count):
        assert reader.receive(b"x") == []
    return time.process_time() - begun


def test_a_message_that_comes_by_bytes_is_not_copied_for_each() -> None:
    """Or 2,000 bytes after 16 MiB of it would take seconds."""
    assert parts_seconds(16 * MIB) < 50 * parts_seconds(10) + 0.2


def test_a_message_that_is_refused_is_not_counted() -> None:
    """What was there before it still is, so that the connection's sum stays right."""
    reader = messages.MessageReader("identity", 100)
    assert reader.receive(message(b"whole") + message(b"12345")[:3]) == [b"whole"]
    assert reader.rest_bytes == 3
    with pytest.raises(grpc.CallFailed):
        reader.receive(b"\xff" * 10)
    assert reader.rest_bytes == 3
