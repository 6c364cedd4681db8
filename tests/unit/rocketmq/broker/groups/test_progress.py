"""How far groups are, held against the queues."""

import pytest
from tests.stores import filled

from sprocket.base.disk import steps
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets, Groups, Progress
from sprocket.rocketmq.broker.groups.progress import QUEUES_A_CALL
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.model.group import Heartbeat, Membership, Subscription
from sprocket.rocketmq.model.progress import QueueProgress
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, GroupSettings, TopicSettings
from sprocket.testing.clock import FakeClock

START_MS = 1_700_000_000_000
QUEUES = [MessageQueue("topic", "b", number) for number in (0, 1)]


class Link:
    """A consumer's connection."""

    address = "1.2.3.4:5"
    proxy_address = ""

    def close(self) -> None:
        """Nobody closes it here."""


class Scene:
    """Twenty messages a second apart, in two queues; the clock is at the first."""

    def __init__(self) -> None:
        disk, store = filled(20)
        clock = self.clock = FakeClock()
        self.topics = Topics(Place(disk, "/store", clock), BrokerSettings(), TopicSettings())
        self.topic = TopicConfig(name="topic", read_queues=2, write_queues=2)
        self.topics.put(self.topic)
        self.groups = Groups(Place(disk, "/store", clock), GroupSettings())
        self.members = ClientManager(clock, 120, lambda _link, _group: None)
        self.offsets = ConsumerOffsets(Place(disk, "/store", clock))
        self.stats = Stats(clock)
        self.progress = Progress(
            store, self.topics, self.groups, self.members, self.offsets, self.stats, clock, "b"
        )

    def subscribe(self, group: str, topic: str) -> None:
        """Have a consumer of a group want a topic."""
        data = Membership(group=group, subscriptions=[Subscription.parse(topic, "*")])
        heartbeat = Heartbeat(client_id="c", consumers=[data])
        self.members.heartbeat(Link(), heartbeat, "JAVA", 479, [data])


@pytest.fixture
def scene() -> Scene:
    """Return a new one."""
    return Scene()


def test_offsets_are_held_against_queues(scene: Scene) -> None:
    """Lag, what is in flight, and when the last message consumed was stored."""
    scene.offsets.commit("g", "topic", 0, 4)
    scene.stats.pulled("topic", "g", 0, 7, 3, 300)
    found = steps.run(scene.progress.of_group("g"))
    assert found.queues == {
        QUEUES[0]: QueueProgress(
            broker_offset=10,
            consumer_offset=4,
            pull_offset=7,
            last_consumed_at_ms=START_MS + 6000,
        ),
        QUEUES[1]: QueueProgress(broker_offset=10, consumer_offset=0),
    }
    assert found.lag == 16
    assert found.consume_tps == 0.0
    scene.clock.advance(10_000)
    scene.stats.sample()
    assert steps.run(scene.progress.of_group("g")).consume_tps == pytest.approx(0.3)


def test_only_what_is_there_and_consumed_counts(scene: Scene) -> None:
    """Groups and topics that nobody knows, and topics the group has left, have nothing."""
    assert steps.run(scene.progress.of_group("nobody")).queues == {}
    assert steps.run(scene.progress.of_group("g", "none")).queues == {}
    assert set(steps.run(scene.progress.of_group("g", topics=["topic", "none"])).queues) == set(
        QUEUES
    )
    scene.offsets.commit("g", "topic", 0, 4)
    scene.subscribe("g", "other")
    assert steps.run(scene.progress.of_group("g")).queues == {}
    assert steps.run(scene.progress.of_group("g", "topic")).queues == {}
    assert set(steps.run(scene.progress.of_group("g", topics=["topic"])).queues) == set(QUEUES)
    scene.subscribe("g", "topic")
    assert set(steps.run(scene.progress.of_group("g")).queues) == set(QUEUES)


def test_every_group_is_told(scene: Scene) -> None:
    """Those with an order only, if asked."""
    scene.groups.find("g")
    scene.offsets.commit("g", "topic", 0, 10)
    scene.offsets.commit("g", "gone", 0, 10)
    found = {
        group: steps.run(scene.progress.by_topic(group, ordered_only=False))
        for group in scene.progress.groups()
    }
    assert [stats.lag for stats in found["g"]] == [10]
    assert found["TOOLS_CONSUMER"] == []
    assert steps.run(scene.progress.by_topic("g", ordered_only=True)) == []


def test_a_group_is_looked_at_some_queues_at_a_time(scene: Scene) -> None:
    """However many a topic has, no call takes long; all of them are there in the end."""
    count = 3 * QUEUES_A_CALL + 1
    scene.topics.put_all([TopicConfig(name="wide", read_queues=count, write_queues=count)])
    scene.offsets.commit("g", "wide", count - 1, 0)
    calls: list[dict[MessageQueue, QueueProgress]] = []
    work = scene.progress.of_group("g")
    while True:
        try:
            call = work.send(calls[-1] if calls else None)
        except StopIteration as end:
            found = end.value
            break
        calls.append(call())
    assert [len(one) for one in calls] == [QUEUES_A_CALL] * 3 + [1]
    assert len(found.queues) == count


def test_spans_of_time(scene: Scene) -> None:
    """Of the queue, of what was consumed, and how long the next message has waited."""
    scene.offsets.commit("g", "topic", 0, 4)
    scene.offsets.commit("g", "topic", 1, 10)
    scene.clock.advance(30_000)
    first, second = scene.progress.time_spans("g", scene.topic)
    assert (first.min_at_ms, first.max_at_ms) == (START_MS, START_MS + 18_000)
    assert (first.consumed_at_ms, first.delay_ms) == (START_MS + 6000, 22_000)
    assert (second.consumed_at_ms, second.delay_ms) == (START_MS + 19_000, 0)
    fresh = scene.progress.time_spans("new", scene.topic)[0]
    assert (fresh.consumed_at_ms, fresh.delay_ms) == (START_MS, 30_000)


def test_who_consumes_a_topic(scene: Scene) -> None:
    """Who is subscribed to it, and who was."""
    assert scene.progress.groups_of("topic") == []
    scene.offsets.commit("was", "topic", 0, 4)
    scene.subscribe("is", "topic")
    assert scene.progress.groups_of("topic") == ["is", "was"]
