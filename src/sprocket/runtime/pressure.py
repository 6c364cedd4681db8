"""What to do while more is read than can be finished: the disk is slow, and senders are not.

The code that finishes the work says how many bytes of it wait (`weigh`). From half of the limit on,
a connection that sent much since its last answer is not read until the work has caught up, so that
one fast sender does not use up the limit for all. At the limit `is_full` is true, and handlers
refuse requests that would add to it.

While there is no pressure this costs one look at a flag for each read of a socket.

What is read takes memory, too, faster than anybody looks who only looks now and then. So each read
counts (`arrivals_left_bytes`), and after this many bytes as somebody has allowed they look again
(`allow`), before anything of that read is handled.
"""

import sys
from collections.abc import Callable

from sprocket.base import log

_log = log.get_limited_logger(__name__)


class Pressure:
    """The weight of what was taken in and is not finished.

    Args:
        bytes_max: From here on `is_full`; half of it is `is_high`.
        connection_bytes_max: What one connection may bring between two answers while it is high.

    Threads: event loop only.
    """

    __slots__ = (
        "_held",
        "_look",
        "_shared_bytes",
        "arrivals_left_bytes",
        "bytes_max",
        "connection_bytes_max",
        "is_full",
        "is_high",
    )

    def __init__(self, bytes_max: int, connection_bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.connection_bytes_max = connection_bytes_max
        self.is_high = False
        self.is_full = False
        self._held: set[Callable[[], None]] = set()
        self._shared_bytes = 0
        self.arrivals_left_bytes = sys.maxsize
        """How much may still be read before somebody looks; whoever reads subtracts it, and calls
        `look` when it is below 0."""
        self._look: Callable[[], None] | None = None

    def allow(self, size: int, look: Callable[[], None]) -> None:
        """Have `look` called as soon as more than `size` bytes were read from now on.

        It is called once; to be called again, it has to allow more.
        """
        self.arrivals_left_bytes, self._look = size, look

    def look(self) -> None:
        """Call whoever wants to know that this much was read."""
        look, self._look = self._look, None
        self.arrivals_left_bytes = sys.maxsize
        if look is not None:
            look()

    def share(self) -> "PressureShare":
        """Return what one of several weighs by that finish work; all of them do it by shares."""
        return PressureShare(self)

    def weigh_share(self, change_bytes: int) -> None:
        """Note that a share has changed by this much."""
        self._shared_bytes += change_bytes
        self.weigh(self._shared_bytes)

    def weigh(self, waiting_bytes: int) -> None:
        """Note how many bytes wait to be finished."""
        is_full = waiting_bytes >= self.bytes_max
        if is_full != self.is_full:
            self.is_full = is_full
            if is_full:
                _log.warning("the disk is behind: sends are refused", waiting_bytes=waiting_bytes)
            else:
                _log.info("the disk has caught up: sends are taken again")
        self.is_high = waiting_bytes >= self.bytes_max // 2
        if not self.is_high and self._held:
            held, self._held = self._held, set()
            for read_on in held:
                read_on()

    def keep(self, read_on: Callable[[], None]) -> None:
        """Have a connection that stopped reading read on when the pressure is over."""
        self._held.add(read_on)

    def forget(self, read_on: Callable[[], None]) -> None:
        """Let go of a connection that is gone."""
        self._held.discard(read_on)


class PressureShare:
    """What waits for one of several that finish work: all of them together make the pressure.

    Threads: event loop only.
    """

    __slots__ = ("_waiting_bytes", "_whole")

    def __init__(self, whole: Pressure) -> None:
        self._whole = whole
        self._waiting_bytes = 0

    @property
    def is_high(self) -> bool:
        """Whether much waits for all of them together."""
        return self._whole.is_high

    def weigh(self, waiting_bytes: int) -> None:
        """Note how many bytes wait to be finished here."""
        change, self._waiting_bytes = waiting_bytes - self._waiting_bytes, waiting_bytes
        self._whole.weigh_share(change)
