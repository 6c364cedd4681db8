"""Bodies that administrators ask for."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    QueueUnits,
    TopicConfigs,
    TopicStats,
)
from sprocket.rocketmq.codec.config import DataVersion, TopicTable, declared
from sprocket.rocketmq.model.topic import TopicConfig


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
