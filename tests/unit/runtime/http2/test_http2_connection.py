"""HTTP/2 as RFC 9113 has it: requests however they are cut, rules, windows, floods."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.runtime.http2.http2_client import (
    ACK,
    END_HEADERS,
    END_STREAM,
    PADDED,
    POST,
    PRIORITY,
    Client,
    Clock,
    frame,
    read,
)

from sprocket.base.errors import WireError
from sprocket.runtime import http2
from sprocket.runtime.http2 import (
    ConnectionFailed,
    DataReceived,
    ErrorCode,
    Event,
    Http2Connection,
    Limits,
    Octets,
    Stream,
    StreamBegun,
    StreamEnded,
    StreamReset,
    WindowOpened,
)

DATA, HEADERS, PRIORITY_FRAME, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
HEAD = http2.response_block(200, [("content-type", "application/grpc")])
END = http2.trailers_block([("grpc-status", "0")])


def only(events: Sequence[Event], kind: type) -> list[Event]:
    """Return the events of a kind."""
    return [event for event in events if isinstance(event, kind)]


def begun(client: Client, number: int = 1, flags: int = END_HEADERS) -> Stream:
    """Begin a request and return its stream."""
    (event,) = only(client.tell(client.headers(number, POST, flags)), StreamBegun)
    assert isinstance(event, StreamBegun)
    return event.stream


def failure(client: Client, data: bytes) -> int:
    """Return the code with which the connection ends because of some bytes."""
    client.said()
    events = client.tell(data)
    assert only(events, ConnectionFailed), events
    kind, _, stream, payload = client.said()[-1]
    assert (kind, stream) == (GOAWAY, 0)
    assert not client.server.receive(frame(PING, 0, 0, bytes(8))), "nothing is read any more"
    code: int = struct.unpack_from(">II", payload)[1]
    return code


def reset_code(client: Client, data: bytes) -> int:
    """Return the code with which a stream ends because of some bytes."""
    client.said()
    client.tell(data)
    codes: list[int] = [
        struct.unpack(">I", payload)[0] for kind, _, _, payload in client.said() if kind == RST
    ]
    assert len(codes) == 1
    return codes[0]


def test_the_server_begins_with_what_it_takes() -> None:
    """Its settings, a window for all streams, and that it has read the client's."""
    client = Client(limits=Limits(streams=7, window_bytes=100_000))
    first, window, ack = client.said()
    assert first[:3] == (SETTINGS, 0, 0)
    said = dict(struct.iter_unpack(">HI", first[3]))
    assert (said[3], said[4], said[5]) == (7, Limits().stream_window_bytes, Limits().frame_bytes)
    assert window == (WINDOW, 0, 0, struct.pack(">I", 100_000 - 65_535))
    assert ack == (SETTINGS, ACK, 0, b"")


def test_a_request_and_its_answer() -> None:
    """Headers, a body, and an answer with trailers."""
    client = Client()
    events = client.tell(client.headers(1) + frame(DATA, END_STREAM, 1, b"asked"))
    assert isinstance(events[0], StreamBegun)
    stream = events[0].stream
    assert (stream.head.method, stream.head.path) == ("POST", "/service/Method")
    assert (stream.head.authority, stream.head.fields["te"]) == ("here:8081", "trailers")
    assert events[1:] == [DataReceived(stream, b"asked", True)]
    told = read(b"".join(client.server.answer(stream, HEAD, b"answer", END)))
    assert [one[:3] for one in told] == [
        (HEADERS, END_HEADERS, 1),
        (DATA, 0, 1),
        (HEADERS, END_HEADERS | END_STREAM, 1),
    ]
    assert client.fields(told[0][3]) == [
        (":status", "200"),
        ("content-type", "application/grpc"),
    ]
    assert told[1][3] == b"answer"
    assert client.fields(told[2][3]) == [("grpc-status", "0")]
    assert not client.server.streams
    assert client.server.data(stream, [b"more"]) == client.server.end(stream, END) == []


PINGS = frame(PING, 0, 0, bytes(8)) * 1_100
"""More than a client may send that is answered nothing else; each is of 17 bytes."""


@settings(max_examples=40)
@given(
    st.integers(0, 40_000) | st.integers(0, 300),
    st.sampled_from((b"", HEAD, bytes(20_000))),
    st.integers(0, 70_000),
    st.booleans(),
)
def test_an_answer_at_once_is_what_its_parts_are(
    size: int, head: bytes, window: int, ended: bool
) -> None:
    """Bytes, windows and budget, however long it is and however much may be sent."""
    data = (bytes(range(256)) * 160)[:size]
    told: list[tuple[object, ...]] = []
    for is_whole in (True, False):
        client = Client()
        client.tell(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window)))
        stream = begun(client, 1, END_HEADERS | (END_STREAM if ended else 0))
        server = client.server
        client.tell(PINGS[:340])
        client.said()
        if is_whole:
            out = server.answer(stream, head, data, END)
        else:
            out = [*server.begin(stream, head)]
            out += server.data(stream, [data]) if data else []
            out += server.end(stream, END)
        opened = struct.pack(">I", 200_000)
        client.tell(frame(WINDOW, 0, 0, opened) + frame(WINDOW, 0, 1, opened))
        told.append((b"".join(out), client.said(), server.waiting_bytes, stream.is_open))
        other = begun(client, 3)
        client.tell(frame(WINDOW, 0, 3, struct.pack(">I", 1 << 30)))
        much = b"".join(server.data(other, [bytes(300_000)]))  # what the window has left
        client.tell(PINGS)  # and the budget
        told[-1] += (len(much), client.said())
    assert told[0] == told[1]


def conversation(client: Client) -> bytes:
    """Return some requests as they are sent."""
    return b"".join(
        (
            client.headers(1),
            frame(DATA, 0, 1, b"one"),
            frame(PING, 0, 0, b"12345678"),
            client.headers(3, flags=END_HEADERS | END_STREAM),
            frame(DATA, PADDED, 1, b"\x03two\0\0\0"),
            *(
                client.headers(number) + frame(DATA, END_STREAM, number, b"all")
                for number in (5, 7)
            ),
            frame(HEADERS, 0, 9, client.encoder.encode([*POST, ("x", "y" * 200)])[:10]),
        )
    )


def told_by(events: Sequence[Event]) -> list[object]:
    """Return what tells events from others, as if all data had come by itself."""
    told: list[object] = []
    for event in events:
        match event:
            case StreamBegun(stream, is_last, data):
                told.append((stream.number, stream.head, is_last and not data))
                if data:
                    told.append((stream.number, data, True))
            case DataReceived(stream, data, is_last):
                told.append((stream.number, data, is_last))
            case StreamReset(stream, code):
                told.append((stream.number, code))
            case ConnectionFailed(_, why):
                told.append(why)
            case Octets():
                pass  # is compared by itself
            case _:
                told.append(event)
    return told


@given(st.lists(st.integers(1, 500), max_size=20))
def test_it_does_not_matter_how_bytes_are_cut(places: list[int]) -> None:
    """The same events, but for how much is answered at once."""
    whole, parts = Client(), Client()
    data = conversation(whole)
    expected = told_by(whole.tell(data))
    found: list[object] = []
    ends = [*sorted({place for place in places if place < len(data)}), len(data)]
    start = 0
    for end in ends:
        found += told_by(parts.tell(data[start:end]))
        start = end
    assert found == expected
    assert parts.answer == whole.answer


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request of two frames; the defaults are as nearly all are."""

    number: int = 5
    flags: int = END_HEADERS
    fields: tuple[tuple[str, str], ...] = ()
    kind: int = DATA
    data_flags: int = END_STREAM
    data_number: int = 5
    size: int = 5
    streams: int = 3
    window_bytes: int = 70_000
    frame_bytes: int = 80_000
    is_away: bool = False

    def told(self, *, at_once: bool) -> tuple[object, ...]:
        """Return what becomes of it, after others with the same block, and of one after it."""
        limits = Limits(
            streams=self.streams,
            frame_bytes=self.frame_bytes,
            stream_window_bytes=self.window_bytes,
            window_bytes=65_535,
        )
        client, fields = Client(limits=limits), [*POST, *self.fields]
        for before in (1, 3):
            client.tell(client.headers(before, fields))
        server = client.server
        if self.is_away:
            server.go_away()
        head = client.headers(self.number, fields, self.flags)
        data = frame(self.kind, self.data_flags, self.data_number, bytes([1]) * self.size)
        parts = [head + data] if at_once else [head, data]
        found = [one for part in parts for one in told_by(client.tell(part))]
        kept = [(one.number, one.has_ended, one.is_open) for one in server.streams.values()]
        last = server.go_away()
        for _ in range(3):  # a window that is opened tells what was counted before
            found += told_by(client.tell(frame(DATA, 0, 3, bytes(12_000))))
        return found, client.said(), kept, last, server.is_over


UNUSUAL: tuple[Mapping[str, Any], ...] = (
    *({"number": number, "data_number": number} for number in (6, 7, 3, 1, 0)),
    *({"flags": flags} for flags in (END_HEADERS | END_STREAM, 0, END_HEADERS | PRIORITY)),
    *({"fields": fields} for fields in ((("content-length", "5"),), (("a", "b"),) * 440)),
    *({"kind": kind} for kind in (HEADERS, PING, CONTINUATION)),
    *({"data_flags": flags} for flags in (0, END_STREAM | PADDED)),
    *({"data_number": number} for number in (7, 3, 1, 0)),
    *({"size": size} for size in (0, 16_384, 16_385, 60_000, 60_001, 65_535, 65_536)),
    *({"is_away": True}, {"streams": 2}, {"window_bytes": 60_000}, {"frame_bytes": 16_384}),
)


@pytest.mark.parametrize("one", [{}, *UNUSUAL])
def test_a_request_at_once_is_what_its_frames_are(one: Mapping[str, Any]) -> None:
    """Events, answers and windows, whether a known block and its data come together or not.

    However unusual one thing is, or two are.
    """
    for other in ({}, *UNUSUAL):
        asked = replace(Asked(), **one, **{name: other[name] for name in other.keys() - one})
        assert asked.told(at_once=True) == asked.told(at_once=False), asked


def test_a_request_whose_block_is_known_comes_as_a_whole() -> None:
    """One event."""
    client = Client()
    for number in (1, 3):
        begun(client, number)
    events = client.tell(client.headers(5) + frame(DATA, END_STREAM, 5, b"asked"))
    assert events == [StreamBegun(client.server.streams[5], True, b"asked")]


@given(st.binary(max_size=200))
def test_any_bytes_give_events(data: bytes) -> None:
    """After a right beginning, or none."""
    Http2Connection(Limits(), Clock()).receive(data)
    Client().tell(data)


@given(st.integers(0, 12), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40))
def test_any_frame_gives_events(kind: int, flags: int, stream: int, payload: bytes) -> None:
    """Beside a request that is open."""
    client = Client()
    client.tell(client.headers(1))
    client.tell(frame(kind, flags, stream, payload))
    if not client.server.is_over:
        assert len(client.server.streams) <= 2


def test_blocks_of_known_fields_are_remembered() -> None:
    """As long as no other block has changed the tables; each is what it would be without that."""
    client = Client()
    client.tell(client.headers(1))
    again = client.encoder.encode(list(POST))
    assert min(again) >= 0x80
    heads = [begun_by(client, 3 + 2 * n, again) for n in range(3)]
    assert heads[0] == heads[1] == heads[2]
    assert heads[1] is heads[2]
    client.tell(client.headers(9, [*POST, ("new", "field")]))
    moved = client.encoder.encode(list(POST))
    assert moved != again, "the table has moved"
    assert begun_by(client, 11, moved) == heads[0]
    assert begun_by(client, 13, client.encoder.encode([*POST, ("new", "field")])).fields["new"]


def begun_by(client: Client, number: int, block: bytes) -> http2.RequestHead:
    """Return the head of a request with this block."""
    (event,) = only(client.tell(frame(HEADERS, END_HEADERS, number, block)), StreamBegun)
    assert isinstance(event, StreamBegun)
    return event.stream.head


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frame(DATA, 0, 9, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frame(DATA, PADDED, 1, b"\x05xxxx"), ErrorCode.PROTOCOL_ERROR),
        (frame(DATA, PADDED, 1), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 2, b""), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 0, b""), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 3, b"\xff\xff\xff\xff\xff"), ErrorCode.COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS, 3, b"\xfe"), ErrorCode.COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS | PRIORITY, 3, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
        (frame(HEADERS, 0, 3) + frame(PING, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, 0, 3) + frame(CONTINUATION, 4, 5), ErrorCode.PROTOCOL_ERROR),
        (frame(CONTINUATION, END_HEADERS, 1), ErrorCode.PROTOCOL_ERROR),
        (frame(PRIORITY_FRAME, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
        (frame(RST, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(RST, 0, 9, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(RST, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(SETTINGS, ACK, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 0, struct.pack(">HI", 2, 2)), ErrorCode.PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 31)), ErrorCode.FLOW_CONTROL_ERROR),
        (frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 100)), ErrorCode.PROTOCOL_ERROR),
        (frame(PUSH, END_HEADERS, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(PING, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(GOAWAY, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(GOAWAY, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(WINDOW, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff"), ErrorCode.FLOW_CONTROL_ERROR),
        (frame(WINDOW, 0, 9, b"\0\0\0\1"), ErrorCode.PROTOCOL_ERROR),
        (frame(WINDOW, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (struct.pack(">BHBBI", 1, 0, 0, 0, 1) + bytes(65_536), ErrorCode.FRAME_SIZE_ERROR),
    ],
)
def test_who_breaks_the_rules_of_a_connection_is_told(data: bytes, code: ErrorCode) -> None:
    """And nothing more is read."""
    client = Client(limits=Limits(frame_bytes=65_535))
    begun(client)
    assert failure(client, data) == code


def field(name: str, value: str) -> list[tuple[str, str]]:
    """Return a request's fields with one of them set, or added."""
    return [(key, value if key == name else old) for key, old in POST] + (
        [] if name in dict(POST) else [(name, value)]
    )


@pytest.mark.parametrize(
    "fields",
    [
        field("Upper", "x"),
        field("connection", "close"),
        field("te", "gzip"),
        field(":unknown", "x"),
        field(":path", ""),
        field("content-length", "12x"),
        [one for one in POST if one[0] != ":method"],
        [one for one in POST if one[0] != ":scheme"],
        [*POST, (":method", "POST")],
        [POST[0], *POST],
    ],
)
def test_a_malformed_request_ends_its_stream_only(fields: list[tuple[str, str]]) -> None:
    """The tables go on, and so do other streams."""
    client = Client()
    assert reset_code(client, client.headers(1, fields)) == ErrorCode.PROTOCOL_ERROR
    assert begun(client, 3).head.path == "/service/Method"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(PRIORITY_FRAME, 0, 1, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(PRIORITY_FRAME, 0, 1, b"\0\0\0\1\0"), ErrorCode.PROTOCOL_ERROR),
        (frame(WINDOW, 0, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(WINDOW, 0, 1, b"\x7f\xff\xff\xff"), ErrorCode.FLOW_CONTROL_ERROR),
    ],
)
def test_who_breaks_the_rules_of_a_stream_loses_that(data: bytes, code: ErrorCode) -> None:
    """The connection goes on."""
    client = Client()
    stream = begun(client)
    assert reset_code(client, data) == code
    assert not stream.is_open
    assert begun(client, 3).is_open


def test_lengths_that_do_not_fit() -> None:
    """More than was said, less, and of a request without a body."""
    for data in (frame(DATA, 0, 1, b"1234"), frame(DATA, END_STREAM, 1, b"12")):
        client = Client()
        client.tell(client.headers(1, field("content-length", "3")))
        assert reset_code(client, data) == ErrorCode.PROTOCOL_ERROR
    client = Client()
    whole = client.headers(1, field("content-length", "3"), END_HEADERS | END_STREAM)
    assert reset_code(client, whole) == ErrorCode.PROTOCOL_ERROR


def test_trailers_of_a_request() -> None:
    """They end it; without that, or with a pseudo-header, they are an error."""
    client = Client()
    stream = begun(client)
    last = frame(HEADERS, END_HEADERS | END_STREAM, 1, client.encoder.encode([("checksum", "1")]))
    assert client.tell(last) == [StreamEnded(stream, {"checksum": "1"})]
    for flags, name in ((END_HEADERS, "x"), (END_HEADERS | END_STREAM, ":path")):
        client = Client()
        begun(client)
        block = client.encoder.encode([(name, "1")])
        assert reset_code(client, frame(HEADERS, flags, 1, block)) == ErrorCode.PROTOCOL_ERROR


def test_what_comes_after_the_end() -> None:
    """Of a body, of a stream that the client ended, of one that this side ended."""
    client = Client()
    begun(client, flags=END_HEADERS | END_STREAM)
    assert reset_code(client, frame(DATA, 0, 1, b"x")) == ErrorCode.STREAM_CLOSED
    stream = begun(client, 3)
    client.tell(frame(RST, 0, 3, bytes(4)))
    assert client.server.answer(stream, HEAD, b"x", END) == []
    stream = begun(client, 5)
    (out,) = client.server.reset(stream, ErrorCode.CANCEL)
    assert read(bytes(out)) == [(RST, 0, 5, struct.pack(">I", 8))]
    client.said()
    assert client.tell(frame(DATA, 0, 5, b"late")) == []
    assert client.tell(client.headers(5)) == []
    stream = begun(client, 7, flags=END_HEADERS | END_STREAM)
    client.server.answer(stream, HEAD, b"", END)
    assert failure(client, client.headers(7)) == ErrorCode.STREAM_CLOSED


def test_an_answer_that_comes_before_the_request_is_whole() -> None:
    """The client is told that the rest is not needed."""
    client = Client()
    stream = begun(client)
    told = read(b"".join(client.server.answer(stream, HEAD, b"no", END)))
    assert told[-1] == (RST, 0, 1, bytes(4))
    assert client.tell(frame(DATA, END_STREAM, 1, b"rest")) == []


def test_headers_in_pieces() -> None:
    """CONTINUATION frames are one block with what they continue, up to a limit."""
    client = Client()
    block = client.encoder.encode(list(POST))
    data = frame(HEADERS, END_STREAM, 1, block[:3]) + frame(CONTINUATION, 0, 1, block[3:7])
    (event,) = client.tell(data + frame(CONTINUATION, END_HEADERS, 1, block[7:]))
    assert isinstance(event, StreamBegun)
    assert event.is_last
    for piece in (b"", bytes(16_000)):
        client = Client()
        flood = frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1, piece) * 20
        assert failure(client, flood) == ErrorCode.ENHANCE_YOUR_CALM


def test_a_small_block_that_says_much_is_refused() -> None:
    """A bomb: one long field in the table, named again and again."""
    client = Client()
    client.tell(client.headers(1, [*POST, ("bomb", "x" * 3_900)]))
    block = client.encoder.encode([("bomb", "x" * 3_900)] * 1_000)
    assert len(block) < 2_000
    data = frame(HEADERS, END_HEADERS, 3, block)
    assert failure(client, data) == ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, 0, 0, bytes(8)),
        frame(SETTINGS, 0, 0),
        frame(DATA, 0, 1),
        frame(DATA, PADDED, 1, b"\x04" + bytes(4)),
        frame(DATA, 0, 1, b"\0"),
        frame(PRIORITY_FRAME, 0, 1, b"\0\0\0\3\0"),
        frame(WINDOW, 0, 0, b"\0\0\0\1"),
        frame(WINDOW, 0, 1, b"\0\0\0\1"),
        frame(WINDOW, 0, 1, struct.pack(">I", 1_000)),
        frame(99, 0, 1),
        frame(GOAWAY, 0, 0, bytes(8)),
    ],
)
def test_a_flood_ends_the_connection(flood: bytes) -> None:
    """Of what costs the client nothing; not what comes slowly."""
    client = Client()
    begun(client)
    for _ in range(30):
        assert not only(client.tell(flood * 100), ConnectionFailed)
        client.clock.now += 1.5
    assert failure(client, flood * 1_100) == ErrorCode.ENHANCE_YOUR_CALM


def test_a_frame_of_many_settings_counts_for_each() -> None:
    """Each may change the windows of all streams."""
    client = Client()
    for _ in range(9):
        client.tell(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1_000) * 100))
    assert not client.server.is_over
    flood = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1_000) * 200)
    assert failure(client, flood) == ErrorCode.ENHANCE_YOUR_CALM


def test_long_header_blocks_count() -> None:
    """Those of many fields and those of long ones; an answer pays for what is usual."""
    flags = END_HEADERS | END_STREAM
    tiny = [(f"a{number}", "") for number in range(400)]
    for more in (tiny, [("token", "0" * 14_000)]):
        client, number = Client(), 1
        block = http2.trailers_block([*POST, *more])
        while not client.server.is_over:
            client.answer.clear()
            client.tell(frame(HEADERS, flags, number, block))
            number += 2
        assert 40 < number < 800
        assert client.said()[-1][3][4:8] == struct.pack(">I", ErrorCode.ENHANCE_YOUR_CALM)
    client = Client()
    block = http2.trailers_block([*POST, ("token", "0" * 3_500)])
    for number in range(1, 2_001, 2):
        (event,) = only(client.tell(frame(HEADERS, flags, number, block)), StreamBegun)
        assert isinstance(event, StreamBegun)
        client.server.answer(event.stream, HEAD, b"hello", END)
    assert not client.server.is_over


def test_a_block_that_costs_more_than_it_says_is_refused() -> None:
    """One that is longer than any list of fields, and one that changes the table's size often."""
    long = frame(HEADERS, END_HEADERS, 1, bytes(16_385))
    assert failure(Client(), long) == ErrorCode.ENHANCE_YOUR_CALM
    for sizes in (b"\x20" * 3, b"\x20\x3f\x80\x1f\x20", b"\x3f" + b"\xff" * 9_000):
        block = sizes + Client().encoder.encode(list(POST))
        assert failure(Client(), frame(HEADERS, END_HEADERS, 1, block)) == (
            ErrorCode.COMPRESSION_ERROR
        )
    client = Client()
    assert begun_by(client, 1, b"\x20\x3f\xe1\x1f" + client.encoder.encode(list(POST))).path


def test_who_is_served_may_say_more() -> None:
    """Some clients ping and open windows for each answer."""
    client = Client()
    small = frame(PING, 0, 0, bytes(8)) + frame(WINDOW, 0, 0, b"\0\0\0\5")
    for number in range(1, 4_001, 2):
        stream = begun(client, number, END_HEADERS | END_STREAM)
        client.server.answer(stream, HEAD, b"hello", END)
        client.tell(small)
        client.answer.clear()
    assert not client.server.is_over


def test_requests_that_are_taken_back_at_once_are_a_flood() -> None:
    """The rapid reset of CVE-2023-44487."""
    client = Client()
    number = 1
    for _ in range(2_000):
        if client.server.is_over:
            break
        client.tell(client.headers(number) + frame(RST, 0, number, struct.pack(">I", 8)))
        number += 2
    assert client.server.is_over
    assert number < 2_100
    assert not client.server.streams


def test_no_more_streams_than_were_allowed() -> None:
    """The others are refused, and may be tried again; the tables go on."""
    client = Client(limits=Limits(streams=2))
    first = begun(client, 1)
    begun(client, 3)
    assert reset_code(client, client.headers(5)) == ErrorCode.REFUSED_STREAM
    client.server.answer(first, HEAD, b"", END)
    assert begun(client, 7).is_open


def test_windows_of_a_body_are_opened_as_it_comes() -> None:
    """For its stream and for all; more than they allow ends the connection or the stream."""
    client = Client(limits=Limits(stream_window_bytes=1_000, window_bytes=70_000))
    begun(client)
    client.said()
    opened = 0
    for _ in range(200):
        client.tell(frame(DATA, 0, 1, bytes(400)))
        for kind, _, stream, payload in client.said():
            assert kind == WINDOW
            opened += struct.unpack(">I", payload)[0] if stream == 0 else 0
    assert 80_000 - 35_000 <= opened <= 80_000
    assert reset_code(client, frame(DATA, 0, 1, bytes(1_100))) == ErrorCode.FLOW_CONTROL_ERROR


def test_an_answer_waits_for_the_windows_of_the_client() -> None:
    """Those of its stream and of all; then the rest, and its end."""
    client = Client()
    client.tell(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 10)))
    client.said()
    stream = begun(client)
    out = client.server.answer(stream, HEAD, b"0123456789abcdef", END)
    assert [one[3] for one in read(b"".join(out)) if one[0] == DATA] == [b"0123456789"]
    assert stream.waiting_bytes == client.server.waiting_bytes == 6
    client.tell(frame(WINDOW, 0, 1, struct.pack(">I", 4)))
    assert [(*one[:3], one[3]) for one in client.said()] == [(DATA, 0, 1, b"abcd")]
    client.tell(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 12)))
    ack, *told = client.said()
    assert ack == (SETTINGS, ACK, 0, b"")
    assert told[0] == (DATA, 0, 1, b"ef")
    assert told[1][:3] == (HEADERS, END_HEADERS | END_STREAM, 1)
    assert client.server.waiting_bytes == 0


def test_who_answers_at_length_is_told_when_to_go_on() -> None:
    """And a client that never opens its window keeps no more than a limit here."""
    client = Client(limits=Limits(waiting_bytes=100_000))
    stream, other = begun(client), begun(client, 3)
    client.server.data(stream, [bytes(65_535)])
    client.server.data(stream, [b"more"])
    client.server.data(other, [b"other"])
    events = client.tell(frame(WINDOW, 0, 0, struct.pack(">I", 100)))
    assert only(events, WindowOpened) == [WindowOpened(other)]
    assert stream.waiting_bytes == 4
    with pytest.raises(WireError, match="wait for the client"):
        client.server.data(stream, [bytes(100_000)])
    client.tell(frame(RST, 0, 1, bytes(4)))
    assert client.server.waiting_bytes == 0


def test_a_large_answer_is_sent_in_frames_that_the_client_takes() -> None:
    """16 KiB each by default."""
    client = Client()
    stream = begun(client)
    out = read(b"".join(client.server.answer(stream, HEAD, bytes(40_000), END)))
    assert [len(one[3]) for one in out if one[0] == DATA] == [16_384, 16_384, 7_232]


def test_a_server_that_goes_away_ends_what_has_begun() -> None:
    """And refuses what comes after."""
    client = Client()
    stream = begun(client)
    (said,) = read(client.server.go_away())
    assert (said[0], struct.unpack(">II", said[3])) == (GOAWAY, (1, 0))
    assert reset_code(client, client.headers(3)) == ErrorCode.REFUSED_STREAM
    assert client.server.answer(stream, HEAD, b"x", END)


def test_the_same_bytes_mean_something_else_once_the_table_has_moved() -> None:
    """A remembered block is forgotten then."""
    client = Client()
    client.tell(client.headers(1, [*POST, ("x", "1")]))
    pseudo = client.encoder.encode(list(POST))
    newest = pseudo + b"\xbe"  # the newest field of the table
    assert begun_by(client, 3, newest).fields["x"] == "1"
    assert begun_by(client, 5, newest).fields["x"] == "1"
    client.tell(client.headers(7, [*POST, ("x", "2")]))
    moved = client.encoder.encode(list(POST)) + b"\xbe"
    assert begun_by(client, 9, moved).fields["x"] == "2"
    client = Client()
    plain = b"\x83\x86\x84\xbe"  # POST, http, / and the newest field
    client.tell(client.headers(1, [*POST, ("x", "1")]))
    assert begun_by(client, 3, plain).fields == {"x": "1"}
    assert begun_by(client, 5, plain).fields == {"x": "1"}
    client.tell(client.headers(7, [*POST, ("x", "2")]))
    assert begun_by(client, 9, plain).fields == {"x": "2"}


def test_all_bodies_together_have_a_window() -> None:
    """Whoever sends more than was opened loses the connection."""
    client = Client(limits=Limits(frame_bytes=1 << 20, window_bytes=70_000))
    begun(client)
    assert failure(client, frame(DATA, 0, 1, bytes(70_001))) == ErrorCode.FLOW_CONTROL_ERROR
