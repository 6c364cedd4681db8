"""Counts of a consumer for each topic, which brokers ask for on behalf of operators.

Counted are the messages that it pulled, handed to the listener and failed with, and how long pulls
and calls took.
"""

import asyncio
from collections import deque

from msgspec import Struct

from sprocket.base.clock import Clock
from sprocket.rocketmq.codec.bodies import TopicInfo

_SAMPLE_S = 10.0
"""How often the sums are looked at; rates are those of the last minute."""
_SAMPLES = 7
_HOUR_SAMPLES = 361


class TopicCounts(Struct):
    """Sums for one topic since the consumer began; times in seconds."""

    pulls: int = 0
    pulled: int = 0
    pull_s: float = 0.0
    calls: int = 0
    consumed: int = 0
    consume_s: float = 0.0
    failed: int = 0


class ConsumeCounts:
    """The sums of all topics of a consumer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, TopicCounts] = {}
        self._samples: dict[str, deque[tuple[float, TopicCounts]]] = {}
        self._failures: dict[str, deque[int]] = {}

    def of(self, topic: str) -> TopicCounts:
        """Return the sums of a topic, which whoever counts adds to."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicCounts()
            self._samples[topic] = deque([(self._clock.monotonic(), TopicCounts())], _SAMPLES)
            self._failures[topic] = deque([0], _HOUR_SAMPLES)
        return found

    async def run(self) -> None:
        """Remember the sums from time to time, until cancelled."""
        while True:
            await asyncio.sleep(_SAMPLE_S)
            self.sample()

    def sample(self) -> None:
        """Remember the sums as they are now."""
        now = self._clock.monotonic()
        for topic, sums in self._topics.items():
            copy = TopicCounts(**{name: getattr(sums, name) for name in sums.__struct_fields__})
            self._samples[topic].append((now, copy))
            self._failures[topic].append(sums.failed)

    def infos(self) -> dict[str, TopicInfo]:
        """Return rates and times of the last minute, and failures of the last hour, by topic."""
        return {topic: self._info(topic, sums) for topic, sums in self._topics.items()}

    def _info(self, topic: str, sums: TopicCounts) -> TopicInfo:
        at, before = self._samples[topic][0]
        elapsed_s = max(self._clock.monotonic() - at, 1e-3)
        pulls, calls = sums.pulls - before.pulls, sums.calls - before.calls
        return TopicInfo(
            pull_ms=1000 * (sums.pull_s - before.pull_s) / max(pulls, 1),
            pull_rate=(sums.pulled - before.pulled) / elapsed_s,
            consume_ms=1000 * (sums.consume_s - before.consume_s) / max(calls, 1),
            consume_rate=(sums.consumed - before.consumed) / elapsed_s,
            failure_rate=(sums.failed - before.failed) / elapsed_s,
            failures=sums.failed - self._failures[topic][0],
        )
