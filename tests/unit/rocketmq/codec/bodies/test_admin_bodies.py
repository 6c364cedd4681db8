"""Bodies that administrators ask for."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    GroupNames,
    QueueStats,
    QueueUnit,
    QueueUnits,
    TopicConfigs,
    TopicNames,
    TopicStats,
)
from sprocket.rocketmq.codec.config import DataVersion, TopicTable, declared
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig

QUEUES = [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)]
STATS = TopicStats(
    queues={queue: QueueStats(min_offset=1, max_offset=2, last_update_at_ms=3) for queue in QUEUES},
    put_tps=0.5,
)
TOPICS = [TopicConfig(name="t", order=True), TopicConfig(name="u", attributes={"a": "b"})]


def test_topic_stats_have_objects_as_keys() -> None:
    """What every released Java client expects."""
    one = '{"lastUpdateTimestamp":3,"maxOffset":2,"minOffset":1}'
    assert bodies.encode(STATS).decode() == (
        f'{{"offsetTable":{{{{"brokerName":"b","queueId":0,"topic":"t"}}:{one},'
        f'{{"brokerName":"b","queueId":1,"topic":"t"}}:{one}}},"topicPutTps":0.5}}'
    )


def test_bodies_are_read_back() -> None:
    """Each as it was written."""
    assert bodies.decode(TopicStats, bodies.encode(STATS)) == STATS
    table = TopicTable(version=DataVersion(3, 7), topics=TOPICS)
    assert bodies.decode(TopicTable, bodies.encode(table)) == table
    configs = bodies.encode(TopicConfigs(TOPICS))
    assert bodies.decode_request(TopicConfigs, configs).topics == TOPICS
    assert bodies.decode(GroupNames, bodies.encode(GroupNames(["a", "b"]))).groups == ["a", "b"]
    found = TopicNames(broker_address="h:1", topics=["t"])
    assert bodies.decode(TopicNames, bodies.encode(found)) == found


@pytest.mark.parametrize(
    "units",
    [
        QueueUnits(min_offset=0, max_offset=0, units=[]),
        QueueUnits(
            min_offset=1,
            max_offset=9,
            units=[QueueUnit(physical_offset=5, size=6, tags_code=-7, passes=True)],
            subscription=Subscription.parse("t", "a||b"),
            filter_data="none",
        ),
    ],
)
def test_units_are_read_back(units: QueueUnits) -> None:
    """With and without a group's subscription."""
    assert bodies.decode(QueueUnits, bodies.encode(units)) == units


def test_what_cannot_be_read_is_named() -> None:
    """Members of the wrong kind."""
    with pytest.raises(WireError, match="topicPutTps"):
        bodies.decode(TopicStats, b'{"topicPutTps":"x"}')
    with pytest.raises(WireError, match="queueData"):
        bodies.decode(QueueUnits, b'{"queueData":{}}')
    with pytest.raises(WireError, match="topicConfigList"):
        bodies.decode_request(TopicConfigs, b'{"topicConfigList":3}')


def test_a_table_of_topics_comes_in_pieces_by_the_order_of_names() -> None:
    """As RocketMQ's library sorts its members."""
    topics = [TopicConfig(name=f't{number}é"') for number in range(1000)]
    pieces = list(bodies.encode_pieces(TopicTable(version=DataVersion(3, 7), topics=topics)))
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 2 * declared.PIECE_BYTES
    whole = {
        "dataVersion": declared.plain(DataVersion(3, 7)),
        "mappingDataVersion": declared.plain(DataVersion.new(0)),
        "topicConfigTable": {one.name: declared.plain(one) for one in topics},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    assert b"".join(pieces) == declared.encode(whole)
