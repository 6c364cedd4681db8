"""Says in the log that a master is alone in sync, for as long as it is."""

from typing import Final

from sprocket.base import log

GRACE_SECONDS: Final = 5.0
"""So long a master may be alone before that is said: others join within this after a switch."""
REPEAT_SECONDS: Final = 60.0
"""How often it is said again."""

_log = log.get_logger(__name__)


class Alone:
    """See the head of the module."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._told_at: float | None = None

    def look(self, in_sync_count: int, now: float) -> None:
        """Say what is to be said.

        Args:
            in_sync_count: How many are in sync, this master among them; 0 if it is none.
            now: On any clock that goes on.
        """
        if in_sync_count != 1:
            if in_sync_count and self._told_at is not None:
                _log.info("another member is in sync again")
            self._since = self._told_at = None
            return
        if self._since is None:
            self._since = now
        seconds = now - self._since
        is_news = self._told_at is None or now - self._told_at >= REPEAT_SECONDS
        if seconds >= GRACE_SECONDS and is_news:
            self._told_at = now
            _log.warning(
                "no other member is in sync: what is acknowledged is on this disk alone",
                seconds=round(seconds),
            )
