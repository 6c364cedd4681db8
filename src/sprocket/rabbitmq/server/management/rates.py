"""Counters as they are told: with how much each rises in a second.

Nobody samples anything in the background: a rate is what changed since the last look at the same
object that is `SAMPLE_SECONDS` old, so it is 0.0 at the first look. Whoever looks every some
seconds, as dashboards do, sees what they expect.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final

from msgspec import Struct

from sprocket.base.clock import Clock

SAMPLE_SECONDS: Final = 5.0
OBJECTS_MAX: Final = 50_000
"""Of so many objects looks are remembered, the latest ones: of 10,000 queues as well as of 10,000
connections with some channels each. One takes a KiB."""


class _Look(Struct):
    at: float
    values: Mapping[str, float]


class _Looks(Struct):
    old: _Look
    new: _Look


class Rates:
    """See the head of the module.

    Args:
        clock: Of the machine.

    Threads: event loop only.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks: OrderedDict[Hashable, _Looks] = OrderedDict()

    def told(self, what: Hashable, values: Mapping[str, int]) -> dict[str, object]:
        """Return counters, each with its rate."""
        now = self._clock.monotonic()
        looks = self._looks.get(what)
        if looks is None:
            first = _Look(now, dict(values))
            looks = self._looks[what] = _Looks(first, first)
            if len(self._looks) > OBJECTS_MAX:
                self._looks.popitem(last=False)
        else:
            self._looks.move_to_end(what)
            if now - looks.new.at >= SAMPLE_SECONDS:
                looks.old, looks.new = looks.new, _Look(now, dict(values))
        since = looks.old
        seconds = now - since.at
        found: dict[str, object] = {}
        for name, value in values.items():
            rate = 0.0
            if seconds > 0:
                rate = round((value - since.values.get(name, 0)) / seconds, 3)
            found[name] = value
            found[f"{name}_details"] = {"rate": rate}
        return found
