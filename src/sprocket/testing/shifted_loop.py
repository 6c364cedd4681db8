"""An event loop whose timers can be made due before their time."""

import asyncio
import selectors


class ShiftedLoop(asyncio.SelectorEventLoop):
    """Its time goes on as the machine's does, and jumps ahead when it is told to."""

    def __init__(self) -> None:
        self._ahead_seconds = 0.0
        super().__init__(selectors.DefaultSelector())

    def time(self) -> float:
        """Return the machine's monotonic time and all jumps so far, in seconds."""
        return super().time() + self._ahead_seconds

    def jump(self, seconds: float) -> None:
        """Let `seconds` pass at once; what is due by then runs in the coming turns."""
        assert seconds >= 0
        self._ahead_seconds += seconds
