"""Which queues each member of a group is given by the broker."""

import pytest
from tests.unit.rocketmq.broker.groups.test_client_manager import Link, Table

from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import Assignments
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.model.group import BROADCASTING, CLUSTERING
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.sharing import ShareQuery
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, TopicSettings
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk


def share(
    topic: str,
    *,
    known: list[MessageQueue] | None = None,
    me: str | None = None,
    model: str = CLUSTERING,
) -> list[str] | None:
    """Return what a member of group g gets of a topic; T has three queues on broker b."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    topics = Topics(Place(disk, "/s", FakeClock()), BrokerSettings(), TopicSettings())
    topics.put(TopicConfig(name="T", read_queues=3))
    table = Table()
    table.beat(Link(), "T")
    (member,) = table.members.consumers("g").client_ids()
    me = member if me is None else me
    query = ShareQuery(topic=topic, group="g", client_id=me, strategy="AVG", message_model=model)
    found = Assignments(table.members, topics, "b").share(query, known)
    return None if found is None else [str(queue) for queue in found]


@pytest.mark.parametrize("model", [CLUSTERING, BROADCASTING])
def test_the_brokers_own_queues_are_shared_if_no_others_are_known(model: str) -> None:
    """Of a topic that it does not have there are none, so that the consumer keeps its own."""
    assert share("T", model=model) == ["T/b/0", "T/b/1", "T/b/2"]
    assert share("none", model=model) is None


def test_queues_of_the_cluster_come_before_those_of_the_broker() -> None:
    """A topic may lie on brokers that this one knows nothing of."""
    known = [MessageQueue("T", "other", 1), MessageQueue("T", "other", 0)]
    assert share("T", known=known) == ["T/other/0", "T/other/1"]
    assert share("T", known=known, me="stranger") == []
    assert share("T", known=known, me="") is None


def test_a_light_topic_has_one_queue() -> None:
    """On this broker, whatever is known."""
    assert share("%LMQ%light", known=[]) == ["%LMQ%light/b/0"]
