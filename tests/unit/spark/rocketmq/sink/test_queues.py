"""The queues of a topic: asked for once, and again while nobody can say."""

import pytest

from sprocket.base.errors import NotConnected
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq.sink.writer import UNKNOWN_TOPIC_MS, TopicQueues
from sprocket.testing.clock import FakeClock

FOUND = [MessageQueue("orders", "a", 0)]


class Names:
    """A NameServer that fails first."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked = 0
        self.clock = FakeClock()

    def ask(self, topic: str) -> list[MessageQueue]:
        """Return the queues, or raise the next failure."""
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return [queue for queue in FOUND if queue.topic == topic]

    def queues(self, patience_ms: int) -> TopicQueues:
        """Return what a task asks."""
        wait = lambda seconds: self.clock.advance(round(seconds * 1000))  # noqa: E731
        return TopicQueues(self.ask, patience_ms, self.clock, wait)


def test_a_topic_is_asked_for_once() -> None:
    """A key keeps its queue through a task."""
    names = Names()
    queues = names.queues(60_000)
    assert queues.of("orders") is queues.of("orders")
    assert names.asked == 1


def test_a_cluster_that_starts() -> None:
    """Nobody there, then nobody who knows the topic: a task waits."""
    names = Names(NotConnected("gone"), NoRoute("none"), NoSuchTopic("unknown"))
    assert names.queues(60_000).of("orders") == FOUND
    assert names.asked == 4


def test_patience_ends() -> None:
    """As long as a message is tried; for a topic that nobody knows, some seconds."""
    names = Names(*[NotConnected("gone")] * 99)
    with pytest.raises(NotConnected):
        names.queues(20_000).of("orders")
    assert names.clock.monotonic() == pytest.approx(20)
    names = Names(*[NoSuchTopic("unknown")] * 99)
    with pytest.raises(NoSuchTopic):
        names.queues(60_000).of("orders")
    assert names.clock.monotonic() * 1000 == pytest.approx(UNKNOWN_TOPIC_MS)
