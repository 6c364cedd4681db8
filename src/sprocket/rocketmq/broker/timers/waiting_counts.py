"""How many messages wait, by the topic where they are to go, and how many come and go a second."""

from collections.abc import Mapping
from typing import NamedTuple

from sprocket.base.clock import Clock
from sprocket.rocketmq.store.timer import TimerCount, TimerCounts


class TimerFigures(NamedTuple):
    """What is told of the delivery of timed messages.

    Attributes:
        late_ms: By how much the oldest slot is late that is not delivered.
        behind: Messages of the topic that are not in the wheel yet.
        waiting: Messages that wait.
        come: Messages that come into the wheel, a second.
        gone: Messages that are delivered, a second.
    """

    late_ms: int
    behind: int
    waiting: int
    come: float
    gone: float


class WaitingCounts:
    """Counts what waits. A message that was taken back waits until its time.

    Args:
        clock: For rates, and for when a count has changed.
        found: What was counted up to the checkpoint that was found.
        since: How many were delivered after it, by topic; they come into the wheel once more, and
            are not delivered again.
    """

    def __init__(self, clock: Clock, found: TimerCounts, since: Mapping[str, int]) -> None:
        self._clock = clock
        self._version = found.version
        self._topics = dict(found.topics)
        self._came = self._went = 0
        self._sampled = (clock.monotonic(), 0, 0)
        self.come = self.gone = 0.0
        """Messages a second, between the last two samples."""
        for topic, count in since.items():
            self._add(topic, -count)

    @property
    def total(self) -> int:
        """How many wait."""
        return sum(max(0, one.count) for one in self._topics.values())

    def came(self, topic: str) -> None:
        """Count a message that came into the wheel."""
        self._came += 1
        self._add(topic, 1)

    def went(self, topic: str) -> None:
        """Count one that waits no more; an empty topic is not counted."""
        self._went += 1
        if topic:
            self._add(topic, -1)

    def sample(self) -> None:
        """Take a sample for the rates; wanted about once a second."""
        before, came, went = self._sampled
        now = self._clock.monotonic()
        if now > before:
            self.come = (self._came - came) / (now - before)
            self.gone = (self._went - went) / (now - before)
            self._sampled = now, self._came, self._went

    def snapshot(self) -> TimerCounts:
        """Return all counts; topics for which nothing waits are left out."""
        self._topics = {name: one for name, one in self._topics.items() if one.count}
        waiting = {name: one for name, one in self._topics.items() if one.count > 0}
        return TimerCounts(version=self._version, topics=waiting)

    def _add(self, topic: str, count: int) -> None:
        before = self._topics.get(topic)
        now_ms = self._clock.now_ms()
        # Below 0 until those that were delivered before a kill come into the wheel once more.
        waiting = count if before is None else before.count + count
        self._topics[topic] = TimerCount(waiting, now_ms)
        self._version = self._version.next(now_ms)
