"""The part of an event loop that plain functions use, run by hand and on a fake clock."""

from collections.abc import Callable

from sprocket.testing.clock import FakeClock


class FakeTimer:
    """A call that is due later."""

    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget the call."""
        self.callback = None


class FakeTimers:
    """Keeps calls until `turn` or `advance` makes them."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._soon: list[FakeTimer] = []
        self._later: list[FakeTimer] = []

    @property
    def pending_count(self) -> int:
        """How many timed calls are still to be made."""
        return sum(timer.callback is not None for timer in self._later)

    def call_soon(self, callback: Callable[[], None], /) -> FakeTimer:
        """Keep a call for the next turn."""
        timer = FakeTimer(self.clock.monotonic(), callback)
        self._soon.append(timer)
        return timer

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> FakeTimer:
        """Keep a call until the clock is `seconds` further."""
        timer = FakeTimer(self.clock.monotonic() + seconds, callback)
        self._later.append(timer)
        return timer

    def turn(self) -> None:
        """Make the calls that were due when the turn began."""
        calls, self._soon = self._soon, []
        for timer in calls:
            _call(timer)

    def drain(self) -> None:
        """Turn until no call is due any more."""
        while self._soon:
            self.turn()

    def run_early(self, ms: int) -> None:
        """Make the calls that are due within `ms`, as a loop does whose own clock is ahead."""
        until = self.clock.monotonic() + ms / 1000
        early = [timer for timer in self._later if timer.due <= until]
        self._later = [timer for timer in self._later if timer.due > until]
        for timer in early:
            _call(timer)

    def advance(self, ms: int) -> None:
        """Move the clock, then make every call that has become due, in order, and what follows."""
        self.clock.advance(ms)
        while True:
            now = self.clock.monotonic() + 1e-9
            self._later = [timer for timer in self._later if timer.callback is not None]
            due = sorted((t for t in self._later if t.due <= now), key=lambda timer: timer.due)
            if not due and not self._soon:
                return
            self._later = [timer for timer in self._later if timer.due > now]
            for timer in due:
                _call(timer)
            self.turn()


def _call(timer: FakeTimer) -> None:
    callback, timer.callback = timer.callback, None
    if callback is not None:
        callback()
