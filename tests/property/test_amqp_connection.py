"""AMQP connections under any bytes, in any pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amqp import connection, frame, handshake, header, message, method, publish, said, split

from sprocket.rabbitmq.codec.amqp import frames, methods
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.rabbitmq.server.connection import Event, WireLimits

LIMITS = WireLimits(frame_bytes_max=4096, message_bytes_max=200, channel_max=3)

numbers = st.sampled_from([0, 1, 1, 1, 2, 3, 4, 65535])
bodies = st.binary(max_size=120)


@st.composite
def pieces(draw: st.DrawFn) -> bytes:
    """Draw something that a client may send, in its place or not."""
    number = draw(numbers)
    one = draw(st.integers(0, 13))
    body = draw(bodies)
    match one:
        case 0 | 1 | 2:
            return message(number, body, draw(st.sampled_from(["k", "é", ""])))
        case 3:
            cut = draw(st.integers(0, len(body)))
            content = frame(3, number, body[:cut]) + frame(3, number, body[cut:])
            return publish(number) + header(number, len(body)) + content
        case 4:
            return method(number, methods.ChannelOpen())
        case 5:
            return method(number, methods.ChannelClose(200, "", 0, 0))
        case 6:
            acks = draw(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4))
            return b"".join([method(number, methods.BasicAck(*one)) for one in acks])
        case 7:
            return method(number, methods.QueueUnbind(0, "q", "x", "k", NO_FIELDS))
        case 8:
            return frames.HEARTBEAT
        case 9:
            return draw(
                st.sampled_from([publish(number), header(number, 5), frame(3, number, b"x")])
            )
        case 10:
            return frame(draw(st.sampled_from([1, 2, 3, 4, 8])), number, body)
        case 11:
            return method(number, methods.ChannelCloseOk())
        case 12:
            whole = bytearray(message(number, body))
            place = draw(st.integers(0, len(whole) - 1))
            whole[place] = draw(st.sampled_from([0, 1, 2, 60, 127, 206, 255]))
            return bytes(whole)
        case _:
            return draw(
                st.sampled_from(
                    [
                        method(0, methods.ConnectionClose(200, "", 0, 0)),
                        method(0, methods.ConnectionCloseOk()),
                        frames.HEAD.pack(3, 1, 4097),
                        frame(1, 1, b"", end=0),
                        b"\x01",
                    ]
                )
            )


openings = st.sampled_from(
    [
        *[handshake(LIMITS) + method(1, methods.ChannelOpen())] * 6,
        handshake(LIMITS)[:-5],
        b"GET / HTTP/1.1\r\n\r\n",
    ]
)
streams = st.tuples(openings, st.lists(pieces(), max_size=8)).map(
    lambda found: found[0] + b"".join(found[1])
)


def fed(parts: list[bytes]) -> list[tuple[object, ...]]:
    """Return what comes out of a new connection, and what it holds at the end."""
    found = connection(LIMITS)
    events: list[Event] = []
    for part in parts:
        events += found.receive(part)
        assert found.pending_bytes <= 4096 + 8 + 2 * LIMITS.message_bytes_max
    return [*said(events), (found.state, found.pending_bytes, found.channel_count)]


@pytest.mark.slow
@given(streams, st.lists(st.integers(0, 1500), max_size=20))
def test_any_split_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    """Whole, octet by octet, and cut anywhere."""
    whole = fed([stream])
    assert fed(split(stream, cuts)) == whole
    assert fed([bytes((octet,)) for octet in stream]) == whole


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_give_events(data: bytes, is_in: bool) -> None:
    """Before and after the handshake; after a failure nothing but the end comes."""
    stream = (handshake(LIMITS) if is_in else frames.PROTOCOL_HEADER) + data
    names = [name for name, *_ in fed([stream])[:-1]]
    if "Failed" in names:
        assert set(names[names.index("Failed") + 1 :]) <= {"ToSend", "Ended"}
