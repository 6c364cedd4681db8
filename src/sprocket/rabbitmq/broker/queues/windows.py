"""How much of their messages the queues hold in memory, beside what storages keep anyway."""

from typing import Final, Protocol

import msgspec

from sprocket.base.units import KIB, MIB

_LOW_PART: Final = 3 / 4
"""How much of that is left when queues have let go, so that they are not asked at each message."""
_PATIENCE: Final = 5 / 4


class WindowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much queues hold and read."""

    all_bytes: float = 64 * MIB
    """Bodies that all queues of a virtual host hold together."""
    window_messages: int = 4 * KIB
    window_bytes: int = 8 * MIB
    """What one window holds at most, whatever others need."""
    read_numbers: int = 2 * KIB
    """How many numbers are read at once for somebody who consumes: those of a segment."""
    head_numbers: int = 16
    """How many are read to know only what comes first: when it expires, for example."""
    read_numbers_max: int = 16 * KIB
    """Where numbers are missing, ranges get wider up to this: it may turn out to be full."""


class Window(Protocol):
    """What a queue holds, and can drop."""

    def trim(self) -> int:
        """Let go of what can be read again, except the first message; return its bytes."""


DEFAULT_LIMITS: Final = WindowLimits()


class Windows:
    """Has the queues let go that were not used for the longest time, when they hold too much.

    Threads: event loop only.
    """

    def __init__(self, limits: WindowLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.held_bytes = 0
        """Bodies that are held; the windows add and subtract."""
        self.limit_bytes = limits.all_bytes
        """From where on `shrink` has something to do."""
        self._by_use: dict[Window, None] = {}

    def note_use(self, window: Window) -> None:
        """Note that a window has something, and that it is the last to be asked to let go."""
        self._by_use.pop(window, None)
        self._by_use[window] = None

    def forget(self, window: Window) -> None:
        """Ask a window no more."""
        self._by_use.pop(window, None)

    def shrink(self, kept: Window) -> None:
        """Have other windows than `kept` let go, the least used first.

        If that does not bring enough, it is not tried again before they hold a quarter more.
        """
        enough = self.limits.all_bytes * _LOW_PART
        for window in [one for one in self._by_use if one is not kept]:
            if self.held_bytes <= enough:
                break
            self.held_bytes -= window.trim()
            self.note_use(window)
        self.limit_bytes = max(self.limits.all_bytes, self.held_bytes * _PATIENCE)
