"""A clock that moves only when a test says so."""


class FakeClock:
    """Stands in for `base.clock.SystemClock`; wall and monotonic time advance together.

    Args:
        now_ms: The wall time it starts at, milliseconds since 1970.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""
        return self._now_ms

    def monotonic(self) -> float:
        """Return the seconds that were advanced so far."""
        return self._monotonic_ms / 1000

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass."""
        assert ms >= 0
        self._now_ms += ms
        self._monotonic_ms += ms

    def step_wall(self, ms: int) -> None:
        """Set the wall time by `ms`, backwards if negative, as an administrator would."""
        self._now_ms += ms
