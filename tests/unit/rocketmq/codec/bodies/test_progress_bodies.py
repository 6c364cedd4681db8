"""How far groups are, as texts."""

import msgspec
import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    BrokerConsumeStats,
    ConsumeStats,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
    DelayOffsets,
    OffsetTable,
    QueueProgress,
)
from sprocket.rocketmq.codec.config import DataVersion, declared
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


def test_stats_have_objects_as_keys() -> None:
    """What every released Java client expects."""
    only = ConsumeStats(queues={QUEUE: STATS.queues[QUEUE]})
    assert bodies.encode(only).decode() == (
        '{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:'
        '{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":7,"pullOffset":6}}}'
    )


def test_bodies_are_read_back() -> None:
    """Each as it was written."""
    data = bodies.encode(STATS)
    assert bodies.decode(ConsumeStats, data) == STATS
    all_of = BrokerConsumeStats(
        broker_address="h:1",
        groups=[("g", [STATS, STATS]), ("h", [])],
        total_lag=6,
        total_in_flight=2,
    )
    data = bodies.encode(all_of)
    assert bodies.decode(BrokerConsumeStats, data) == all_of
    span = ConsumeTimeSpan(queue=QUEUE, min_at_ms=1, max_at_ms=2, consumed_at_ms=3, delay_ms=4)
    assert bodies.decode(ConsumeTimeSpans, bodies.encode(ConsumeTimeSpans([span]))).spans == [span]
    table = OffsetTable(version=DataVersion(1, 2), offsets={"t@g": {0: 5, 1: 6}, "u@g": {}})
    data = b"".join(bodies.offset_table_pieces(table))
    assert b'"t@g":{0:5,1:6}' in data
    assert bodies.decode(OffsetTable, data) == table
    delays = DelayOffsets(version=DataVersion(1, 2), levels={1: 5, 18: 0})
    data = bodies.encode(delays)
    assert b'"offsetTable":{1:5,18:0}' in data
    assert bodies.decode(DelayOffsets, data) == delays


def test_lag_and_what_is_in_flight() -> None:
    """Of a queue, and of all."""
    one = STATS.queues[QUEUE]
    assert (one.lag, one.in_flight, STATS.lag) == (5, 2, 6)


def test_times_have_a_text_beside_them() -> None:
    """To the millisecond, in the zone of the broker."""
    span = ConsumeTimeSpan(
        queue=QUEUE, min_at_ms=1_700_000_000_007, max_at_ms=0, consumed_at_ms=0, delay_ms=0
    )
    text = bodies.encode(ConsumeTimeSpans([span])).decode()
    assert ':007"}' in text
    assert '"minTimeStamp":1700000000007,' in text


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
