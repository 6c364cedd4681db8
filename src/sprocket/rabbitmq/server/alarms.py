"""What the server runs short of, and the connections that wait for that to end.

While memory or the disk is low, whoever publishes is not read any more. Those that only consume
are left alone: they make room.

Source: `rabbit_alarm`, `rabbit_reader:control_throttle`.
"""

from collections.abc import Iterable
from typing import Protocol

from sprocket.base import log

_log = log.get_logger(__name__)


class Blocked(Protocol):
    """A connection that waits."""

    def unblock(self) -> None:
        """Go on."""


class Alarms:
    """What is low, such as `memory` and `disk`.

    Threads: event loop only.
    """

    def __init__(self) -> None:
        self.low: tuple[str, ...] = ()
        """Empty if there is enough of everything."""
        self._blocked: dict[Blocked, None] = {}

    @property
    def blocked_count(self) -> int:
        """How many connections wait."""
        return len(self._blocked)

    @property
    def reason(self) -> str:
        """The reason that clients are told."""
        return f"low on {' & '.join(self.low)}"

    def set(self, low: Iterable[str]) -> None:
        """Say what is low; if nothing is any more, everybody who waits goes on."""
        before, self.low = self.low, tuple(low)
        if self.low and self.low != before:
            _log.warning("who publishes is blocked", reason=self.reason)
        if self.low or not before:
            return
        _log.info("nobody is blocked any more")
        blocked, self._blocked = self._blocked, {}
        for one in blocked:
            one.unblock()

    def block(self, connection: Blocked) -> None:
        """Have a connection go on when nothing is low any more."""
        self._blocked[connection] = None

    def has(self, connection: Blocked) -> bool:
        """Say whether a connection waits for that."""
        return connection in self._blocked

    def forget(self, connection: Blocked) -> None:
        """Let go of one that does not wait any more."""
        self._blocked.pop(connection, None)
