"""How much goes through the broker: counters, and their rates over 10, 60 and 600 seconds."""

from collections import deque
from dataclasses import dataclass

from sprocket.base.clock import Clock

WINDOWS_SECONDS = (10, 60, 600)
"""The spans that RocketMQ's tools show."""

SAMPLE_SECONDS = 5
"""How often the counters are noted; rates are as exact as that."""


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    put: int
    got: int


class Stats:
    """Counters since the start.

    `put` counts messages written to the log, `got` messages handed out.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.put = 0
        self.got = 0
        self.started_at_ms = clock.now_ms()
        self._samples: deque[_Sample] = deque(
            [_Sample(clock.monotonic(), 0, 0)], maxlen=WINDOWS_SECONDS[-1] // SAMPLE_SECONDS + 1
        )

    def sample(self) -> None:
        """Note the counters; called about every second, kept every five."""
        now = self._clock.monotonic()
        if now - self._samples[-1].at >= SAMPLE_SECONDS:
            self._samples.append(_Sample(now, self.put, self.got))

    def put_rates(self) -> list[float]:
        """Return messages stored per second over each window."""
        return [self._rate(seconds, "put") for seconds in WINDOWS_SECONDS]

    def got_rates(self) -> list[float]:
        """Return messages handed out per second over each window."""
        return [self._rate(seconds, "got") for seconds in WINDOWS_SECONDS]

    def _rate(self, seconds: int, counter: str) -> float:
        now = self._clock.monotonic()
        start = self._samples[0]
        for sample in reversed(self._samples):
            start = sample
            if now - sample.at >= seconds:
                break
        passed = now - start.at
        count: int = getattr(self, counter) - getattr(start, counter)
        return count / passed if passed > 0 else 0.0
