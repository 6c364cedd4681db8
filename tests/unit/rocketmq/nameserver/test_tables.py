"""The tables of a NameServer."""

from sprocket.rocketmq.model.route import BrokerData, QueueData
from sprocket.rocketmq.nameserver.tables import BrokerEntry, Tables


def queues(broker: str) -> QueueData:
    """Return queues on a broker."""
    return QueueData(broker_name=broker, read_queues=1, write_queues=1, perm=6)


def test_a_topic_goes_with_its_last_queues() -> None:
    """Forgetting what is not there changes nothing."""
    tables = Tables()
    tables.topics["X"] = {"a": queues("a"), "b": queues("b")}
    tables.forget_queues("X", "a")
    tables.forget_queues("X", "a")
    tables.forget_queues("Y", "a")
    assert list(tables.topics["X"]) == ["b"]
    tables.forget_queues("X", "b")
    assert tables.topics == {}


def test_brokers_are_told_as_they_are() -> None:
    """A copy, so that an answer does not change while it waits to be written."""
    tables = Tables()
    entry = tables.brokers["a"] = BrokerEntry("C", zone="z", addresses={1: "1.1.1.1:1"})
    told = tables.broker_data("a")
    entry.addresses[0] = "2.2.2.2:2"
    assert told == BrokerData(cluster="C", name="a", addresses={1: "1.1.1.1:1"}, zone="z")
    assert entry.has_master
    assert tables.clusters() == {"C": ["a"]}
