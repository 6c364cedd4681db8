"""How often log lines that strangers can cause are written: once a kind and interval, with a count.

    event 1 ── told     events 2 … 900 ── counted, the last one kept     interval over ── event 900
                                                                         told, suppressed=898

Two events are of the same kind if they have the same logger, level and text, whatever their values.
So there are as many kinds as places in the source, and a flood of all is some 40 lines a second.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sprocket.base import log
from sprocket.base.clock import Clock

INTERVAL_SECONDS: Final = 1.0
"""How long a kind is silent after one of it was logged."""


class _Key(NamedTuple):
    """What makes a kind."""

    name: str
    level: str
    event: str


@dataclass(slots=True)
class _Silence:
    """Events of one kind since the last that was logged."""

    until: float
    count: int = 0
    values: dict[str, object] = field(default_factory=dict)
    """Of the last one."""


class EventLimit:
    """See the head of the module.

    Threads: any.
    """

    def __init__(self, clock: Clock, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._silent: dict[_Key, _Silence] = {}
        # What is done under it may be interrupted by a finalizer that logs.
        self._lock = threading.RLock()

    def admits(self, name: str, level: str, event: str, values: dict[str, object]) -> bool:
        """Say whether an event is logged now; if not, it is counted, and its values kept."""
        key = _Key(name, level, event)
        with self._lock:
            silence = self._silent.get(key)
            if silence is None:
                self._silent[key] = _Silence(self._clock.monotonic() + self._interval_seconds)
                return True
            silence.count += 1
            silence.values = values
            if level == "exception":  # what is handled now is no longer handled when this is logged
                silence.values = {"exc_info": sys.exc_info()[1], **values}
            return False

    def tell_due(self, *, is_end: bool = False) -> None:
        """Tell the last of each kind whose interval is over, and how many came before it.

        To be called once in an interval, and with `is_end` for all that is left.
        """
        now = self._clock.monotonic()
        due: list[tuple[_Key, _Silence]] = []
        with self._lock:
            for key, silence in list(self._silent.items()):
                if not (is_end or silence.until <= now):
                    continue
                del self._silent[key]
                if silence.count:
                    due.append((key, silence))
                    self._silent[key] = _Silence(now + self._interval_seconds)
        for key, silence in due:
            count = silence.count - 1
            values = silence.values | ({"suppressed": count} if count else {})
            getattr(log.get_logger(key.name), key.level)(key.event, **values)


@contextmanager
def limiting(limit: EventLimit) -> Iterator[None]:
    """Have what strangers can cause logged as `limit` says meanwhile; at the end, what is left."""
    try:
        with log.limited_by(limit):
            yield
    finally:
        limit.tell_due(is_end=True)
