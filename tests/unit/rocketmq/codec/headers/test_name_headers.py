"""The names on the wire of the NameServer's headers."""

import pytest

from sprocket.rocketmq.codec.headers import Header, ext, name_headers


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        (name_headers.KeyValue(namespace="n", key="k"), {"namespace": "n", "key": "k"}),
        (name_headers.ValueAnswer(value="v"), {"value": "v"}),
        (name_headers.QueryDataVersionAnswer(changed=True), {"changed": "true"}),
        (name_headers.WipeAnswer(wipe_topic_count=2), {"wipeTopicCount": "2"}),
        (name_headers.AddAnswer(add_topic_count=2), {"addTopicCount": "2"}),
        (name_headers.BrokerNameOnly(broker_name="b"), {"brokerName": "b"}),
        (
            name_headers.DeleteTopicInNames(topic="t", cluster_name="c"),
            {"topic": "t", "clusterName": "c"},
        ),
        (
            name_headers.QueryDataVersion(
                broker_name="b", broker_addr="a", cluster_name="c", broker_id=1
            ),
            {"brokerName": "b", "brokerAddr": "a", "clusterName": "c", "brokerId": "1"},
        ),
    ],
)
def test_names_on_the_wire(header: Header, texts: dict[str, str]) -> None:
    """Both ways."""
    codec = ext.codec(type(header))
    assert codec.write(header) == texts
    assert codec.read(texts) == header
