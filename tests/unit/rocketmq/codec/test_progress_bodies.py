"""How far groups are, as texts."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import progress_bodies
from sprocket.rocketmq.codec.progress_bodies import (
    BrokerConsumeStats,
    ConsumeStats,
    ConsumeTimeSpan,
    DelayOffsets,
    OffsetTable,
    QueueProgress,
)
from sprocket.rocketmq.codec.tables import DataVersion
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
    assert progress_bodies.encode_consume_stats(only).decode() == (
        '{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:'
        '{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":7,"pullOffset":6}}}'
    )


def test_bodies_are_read_back() -> None:
    """Each as it was written."""
    data = progress_bodies.encode_consume_stats(STATS)
    assert progress_bodies.decode_consume_stats(data) == STATS
    all_of = BrokerConsumeStats(
        broker_address="h:1",
        groups=[("g", [STATS, STATS]), ("h", [])],
        total_lag=6,
        total_in_flight=2,
    )
    data = progress_bodies.encode_broker_consume_stats(all_of)
    assert progress_bodies.decode_broker_consume_stats(data) == all_of
    span = ConsumeTimeSpan(queue=QUEUE, min_at_ms=1, max_at_ms=2, consumed_at_ms=3, delay_ms=4)
    assert progress_bodies.decode_time_spans(progress_bodies.encode_time_spans([span])) == [span]
    table = OffsetTable(version=DataVersion(1, 2), offsets={"t@g": {0: 5, 1: 6}, "u@g": {}})
    data = progress_bodies.encode_offset_table(table)
    assert b'"t@g":{0:5,1:6}' in data
    assert progress_bodies.decode_offset_table(data) == table
    delays = DelayOffsets(version=DataVersion(1, 2), levels={1: 5, 18: 0})
    data = progress_bodies.encode_delay_offsets(delays)
    assert b'"offsetTable":{1:5,18:0}' in data
    assert progress_bodies.decode_delay_offsets(data) == delays


def test_lag_and_what_is_in_flight() -> None:
    """Of a queue, and of all."""
    one = STATS.queues[QUEUE]
    assert (one.lag, one.in_flight, STATS.lag) == (5, 2, 6)


def test_times_have_a_text_beside_them() -> None:
    """To the millisecond, in the zone of the broker."""
    span = ConsumeTimeSpan(
        queue=QUEUE, min_at_ms=1_700_000_000_007, max_at_ms=0, consumed_at_ms=0, delay_ms=0
    )
    text = progress_bodies.encode_time_spans([span]).decode()
    assert ':007"}' in text
    assert '"minTimeStamp":1700000000007,' in text


def test_what_cannot_be_read_is_named() -> None:
    """Members of the wrong kind."""
    for wrong in (b'{"offsetTable":[]}', b'{"consumeTps":[]}', b"[]"):
        with pytest.raises(WireError):
            progress_bodies.decode_consume_stats(wrong)
