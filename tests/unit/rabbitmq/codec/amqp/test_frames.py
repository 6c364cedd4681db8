"""How what is sent is put into frames."""

from itertools import pairwise

import pamqp.frame
import pytest
from pamqp import body, commands, header

from sprocket.rabbitmq.codec.amqp import frames, methods, properties, tables
from sprocket.rabbitmq.model.properties import BasicProperties

PERSISTENT = properties.encode(BasicProperties(delivery_mode=2))
PAYLOAD = methods.encode(methods.BasicDeliver("tag", 7, True, "x", "key"))


def taken_apart(buffers: list[frames.Buffer]) -> list[tuple[int, object]]:
    """Return channel and frame of each, as pamqp reads them."""
    data, found = b"".join(buffers), []
    while data:
        size, channel, frame = pamqp.frame.unmarshal(data)
        found.append((channel, frame))
        data = data[size:]
    return found


def test_a_method_is_a_frame() -> None:
    """With kind, channel and size before it, and the end behind it."""
    octets = frames.encode_method(3, methods.BasicAck(5, True))
    assert octets == bytes.fromhex("01 0003 0000000d 003c0050 0000000000000005 01 ce")


def test_a_small_message_is_one_buffer() -> None:
    """Method, header and body."""
    buffers = frames.encode_content(9, PAYLOAD, PERSISTENT, [b"hello ", b"world"], 4096)
    assert len(buffers) == 1
    (_, deliver), (_, head), (channel, content) = taken_apart(buffers)
    assert isinstance(deliver, commands.Basic.Deliver)
    assert (deliver.delivery_tag, deliver.redelivered) == (7, True)
    assert isinstance(head, header.ContentHeader)
    assert (head.body_size, head.properties.delivery_mode) == (11, 2)
    assert isinstance(content, body.ContentBody)
    assert (channel, content.value) == (9, b"hello world")


def test_an_empty_message_has_no_body_frame() -> None:
    """Its header says 0."""
    buffers = frames.encode_content(9, PAYLOAD, PERSISTENT, [], 4096)
    _, (_, head) = taken_apart(buffers)
    assert isinstance(head, header.ContentHeader)
    assert head.body_size == 0


@pytest.mark.parametrize("size", [4088, 4089, 8176, 8177, 16384, 16385, 70000])
def test_frames_are_no_larger_than_agreed(size: int) -> None:
    """With what is around them; and no more of them than needed."""
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    found = taken_apart(frames.encode_content(1, PAYLOAD, PERSISTENT, [content], 4096))
    pieces = [frame.value for _, frame in found if isinstance(frame, body.ContentBody)]
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) <= 4096 - 8
    assert len(pieces) == -(-size // 4088)


def test_pieces_are_passed_on_as_they_came() -> None:
    """Without a copy, if they are not tiny."""
    pieces = [b"a" * 20_000, b"b" * 20_000]
    buffers = frames.encode_content(1, PAYLOAD, PERSISTENT, pieces, 131072)
    views = [one for one in buffers if isinstance(one, memoryview)]
    assert [view.obj is piece for view, piece in zip(views, pieces, strict=True)] == [True, True]


def test_tiny_pieces_are_put_together() -> None:
    """A consumer does not pay for how somebody published."""
    buffers = frames.encode_content(1, PAYLOAD, PERSISTENT, [b"a"] * 40_000, 131072)
    assert len(taken_apart(buffers)) == 3


def test_without_a_limit_a_body_is_one_frame() -> None:
    """0 stands for none."""
    buffers = frames.encode_content(1, PAYLOAD, PERSISTENT, [b"a" * 200_000], 0)
    assert len(taken_apart(buffers)) == 3


@pytest.mark.parametrize("tag", [0, 1, (1 << 64) - 1])
@pytest.mark.parametrize("redelivered", [True, False])
def test_the_quick_way_to_deliver_gives_the_same(tag: int, redelivered: bool) -> None:
    """Octet for octet."""
    short = tables.encode_short_string
    quick = frames.delivery_payload(short("tag"), tag, redelivered, short("x") + short("a.b"))
    assert quick == methods.encode(methods.BasicDeliver("tag", tag, redelivered, "x", "a.b"))


@pytest.mark.parametrize("limit", [0, 4096, 131072])
def test_deliveries_together_are_the_same_as_one_by_one(limit: int) -> None:
    """Whatever their size, their pieces, their origin and their properties."""
    short = tables.encode_short_string
    bodies: list[list[bytes]] = [[b"x"], [], [b"a", b"b"], [b"y" * 4088], [b"z" * 4089]]
    bodies += [[b"v" * 20_000], [b"w" * 16_384] * 2, *([b"u" * 9000] for _ in range(20)), [b"t"]]
    deliveries: list[frames.Delivery] = [
        (
            number % 3 == 0,
            short("x") + short("key" * (number % 2)),
            PERSISTENT if number % 4 else bytes(2),
            pieces,
        )
        for number, pieces in enumerate(bodies)
    ]
    consumer = short("tag")
    one_by_one = b"".join(
        buffer
        for tag, (redelivered, origin, held, pieces) in enumerate(deliveries, 41)
        for buffer in frames.encode_content(
            5, frames.delivery_payload(consumer, tag, redelivered, origin), held, pieces, limit
        )
    )
    assert b"".join(frames.encode_deliveries(5, consumer, 41, deliveries, limit)) == one_by_one


def test_a_heartbeat_is_8_octets() -> None:
    """On channel 0, with nothing in it."""
    assert bytes.fromhex("08 0000 00000000 ce") == frames.HEARTBEAT


def test_kinds_have_numbers_of_their_own() -> None:
    """Those of the protocol."""
    assert [int(kind) for kind in frames.FrameKind] == [1, 2, 3, 8]
    assert all(one < other for one, other in pairwise(frames.FrameKind))
