"""Bodies that administrators ask for."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.bodies import admin_bodies, body_parts
from sprocket.rocketmq.codec.bodies.admin_bodies import (
    QueueStats,
    QueueUnit,
    QueueUnits,
    TopicsOfGroup,
    TopicStats,
    TopicTable,
)
from sprocket.rocketmq.codec.config import DataVersion, tables
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
    assert admin_bodies.encode_topic_stats(STATS).decode() == (
        f'{{"offsetTable":{{{{"brokerName":"b","queueId":0,"topic":"t"}}:{one},'
        f'{{"brokerName":"b","queueId":1,"topic":"t"}}:{one}}},"topicPutTps":0.5}}'
    )


def test_bodies_are_read_back() -> None:
    """Each as it was written."""
    assert admin_bodies.decode_topic_stats(admin_bodies.encode_topic_stats(STATS)) == STATS
    table = TopicTable(version=DataVersion(3, 7), topics=TOPICS)
    assert admin_bodies.decode_topic_table(admin_bodies.encode_topic_table(table)) == table
    configs = admin_bodies.encode_topic_configs(TOPICS)
    assert admin_bodies.decode_topic_configs(configs) == TOPICS
    assert admin_bodies.decode_groups(admin_bodies.encode_groups(["a", "b"])) == ["a", "b"]
    found = TopicsOfGroup(broker_address="h:1", topics=["t"])
    assert admin_bodies.decode_topics_of_group(admin_bodies.encode_topics_of_group(found)) == found


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
    assert admin_bodies.decode_queue_units(admin_bodies.encode_queue_units(units)) == units


def test_what_cannot_be_read_is_named() -> None:
    """Members of the wrong kind."""
    with pytest.raises(WireError, match="topicPutTps"):
        admin_bodies.decode_topic_stats(b'{"topicPutTps":"x"}')
    with pytest.raises(WireError, match="queueData"):
        admin_bodies.decode_queue_units(b'{"queueData":{}}')
    with pytest.raises(WireError, match="topicConfigList"):
        admin_bodies.decode_topic_configs(b'{"topicConfigList":3}')


def test_a_table_of_topics_comes_in_pieces_by_the_order_of_names() -> None:
    """As RocketMQ's library sorts its members."""
    topics = [TopicConfig(name=f't{number}é"') for number in range(1000)]
    pieces = list(
        admin_bodies.topic_table_pieces(TopicTable(version=DataVersion(3, 7), topics=topics))
    )
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 2 * body_parts.PIECE_BYTES
    whole = {
        "dataVersion": DataVersion(3, 7).to_json(),
        "mappingDataVersion": DataVersion.new(0).to_json(),
        "topicConfigTable": {one.name: tables.topic_to_json(one) for one in topics},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    assert b"".join(pieces) == body_parts.encode(whole)
