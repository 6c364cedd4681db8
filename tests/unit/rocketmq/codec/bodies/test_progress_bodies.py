"""How far groups are, as texts."""

import msgspec
import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import OffsetTable
from sprocket.rocketmq.codec.config import DataVersion, declared
from sprocket.rocketmq.model.progress import ConsumeStats, QueueProgress
from sprocket.rocketmq.model.route import MessageQueue

QUEUE = MessageQueue("t", "b", 0)
STATS = ConsumeStats(
    queues={
        QUEUE: QueueProgress(
            broker_offset=9, consumer_offset=4, pull_offset=6, last_consumed_at_ms=7
        ),
        MessageQueue("t", "b", 1): QueueProgress(broker_offset=1, consumer_offset=0),
    },
    consume_tps=1.5,
)


def test_lag_and_what_is_in_flight() -> None:
    """Of a queue, and of all."""
    one = STATS.queues[QUEUE]
    assert (one.lag, one.in_flight, STATS.lag) == (5, 2, 6)


def test_what_cannot_be_read_is_named() -> None:
    """Members of the wrong kind."""
    for wrong in (b'{"offsetTable":[]}', b'{"consumeTps":[]}', b"[]"):
        with pytest.raises(WireError):
            bodies.decode(ConsumeStats, wrong)


def test_long_bodies_come_in_pieces_of_the_same_bytes() -> None:
    """Of some size each, however small or large its parts are."""
    queues = {MessageQueue("t", "b", number): STATS.queues[QUEUE] for number in range(1000)}
    stats = ConsumeStats(queues=queues, consume_tps=0.5)
    pieces = list(bodies.encode_pieces(stats))
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 2 * declared.PIECE_BYTES
    assert bodies.decode(ConsumeStats, b"".join(pieces)) == stats
    offsets = {f't{number}@g{number % 7}"é': {0: 5, 10: -1} for number in range(3000)}
    table = OffsetTable(version=DataVersion(1, 2), offsets=offsets)
    groups: dict[str, list[str]] = {}
    for key in offsets:
        topic, _, group = key.partition("@")
        groups.setdefault(group, []).append(topic)
    whole = {
        "dataVersion": declared.plain(table.version),
        "groupTopicMap": groups,
        "offsetTable": offsets,
    }
    pieces = list(bodies.offset_table_pieces(table))
    assert len(pieces) > 3
    expected = msgspec.json.encode(whole).replace(b'{"0":5,"10":-1}', b"{0:5,10:-1}")
    assert b"".join(pieces) == expected


def test_what_goes_while_the_offsets_are_written_is_left_out() -> None:
    """They are written while the broker serves."""
    offsets = {f"t{number}@g": {0: number} for number in range(3000)}
    pieces = bodies.offset_table_pieces(OffsetTable(version=DataVersion(1, 2), offsets=offsets))
    begun = next(pieces)
    del offsets["t2999@g"]
    offsets["new@g"] = {0: 1}
    found = bodies.decode(OffsetTable, begun + b"".join(pieces))
    assert list(found.offsets) == [f"t{number}@g" for number in range(2999)]
