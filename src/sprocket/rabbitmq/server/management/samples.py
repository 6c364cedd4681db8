"""Counters as they are reported: how much each rises in a second, and how it rose before.

`sampler` takes a row of each object every five seconds. A rate is what changed since the newest row
that is five seconds old, so the first request has it; an object that did not exist then counted 0.

A row is kept only if it is another one than the row before. Rows are kept for ten minutes; of more
than `ROWS_MAX` in that time the oldest go, so that the objects of a busy node have a shorter past,
of a minute at least.

Source: `rabbit_mgmt_stats`, `rabbit_mgmt_util:range`.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from msgspec import Struct

from sprocket.base.clock import Clock
from sprocket.rabbitmq.server.management.measures import RowPart
from sprocket.rabbitmq.server.management.requests import answers

SAMPLE_SECONDS: Final = 5.0
KEEP_SECONDS: Final = 605
"""RabbitMQ's `sample_retention_policies` for all objects: ten minutes and a row before them."""
ROWS_MAX: Final = 200_000
"""Of all objects, up to 300 bytes each: enough for ten minutes of 1,600 that change always."""
_ROUNDS_MAX: Final = int(KEEP_SECONDS / SAMPLE_SECONDS) + 1
_ROUNDS_MIN: Final = 14
"""Kept of each object in any case: a minute, and the rows that rates are made of."""
_POINTS_MAX: Final = 500
"""In one answer, for each counter; RabbitMQ's limit."""
_RANGES: Final = ("lengths", "msg_rates", "data_rates", "node_stats")
_FORMATS: Final = [f"{count}q" for count in range(64)]
_at_time = itemgetter(0)


class _Series(Struct):
    """Rows of one object, the newest last; each counts until the next."""

    of: object
    """The object. It is kept here so that no other gets its `id` meanwhile."""
    rows: list[tuple[float, bytes]]
    seen_at: float

    def at(self, time: float) -> tuple[int, ...] | None:
        """Return the row of a time; None if there was none, or it is forgotten."""
        at = bisect_right(self.rows, time, key=_at_time)
        if not at:
            return None
        row = self.rows[at - 1][1]
        return struct.unpack(_FORMATS[len(row) // 8], row)


class Samples:
    """See the head of the module.

    Args:
        clock: Of the machine.

    Threads: event loop only.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._series: dict[int, _Series] = {}
        """By the identity of their objects."""
        self._rounds: deque[float] = deque(maxlen=_ROUNDS_MAX)
        self._changed_count = 0
        self._oldest = 0.0

    def begin(self) -> None:
        """Begin a round."""
        self._rounds.append(self._clock.monotonic())
        kept = min(max(ROWS_MAX // max(self._changed_count, 1), _ROUNDS_MIN), len(self._rounds))
        self._oldest = self._rounds[-kept]
        self._changed_count = 0

    def record(self, of: object, row: Sequence[int]) -> None:
        """Note what an object has in this round."""
        now, packed = self._rounds[-1], struct.pack(_FORMATS[len(row)], *row)
        series = self._series.get(id(of))
        if series is None:
            self._series[id(of)] = _Series(of, [(now, packed)], now)
            return
        series.seen_at, rows = now, series.rows
        if rows[-1][1] != packed:
            rows.append((now, packed))
            self._changed_count += 1
        while len(rows) > 1 and rows[1][0] <= self._oldest:
            del rows[0]

    def end(self) -> None:
        """Forget the objects of which nothing was noted in this round."""
        now = self._rounds[-1]
        gone = [key for key, series in self._series.items() if series.seen_at != now]
        for key in gone:
            del self._series[key]

    def rates(self, query: Mapping[str, str]) -> "Rates":
        """Return the figures of objects now, with the samples that a query asks for.

        Raises:
            ApiError: 400.
        """
        now = self._clock.monotonic()
        since = next((one for one in reversed(self._rounds) if one <= now - SAMPLE_SECONDS), None)
        return Rates(self._series, now, since, _ranges(query, now, self._clock.now_ms()))


class _Point(NamedTuple):
    at: float
    """Of the clock that only rises."""
    timestamp: int


class Rates:
    """Counters and their rates at one moment; made by `Samples`.

    Args:
        series: Of all objects.
        now: Of the clock that only rises.
        since: When the rows were taken that rates are of; None if there are none yet.
        ranges: Of which times there are to be samples, the newest first.
    """

    def __init__(
        self,
        series: Mapping[int, _Series],
        now: float,
        since: float | None,
        ranges: Mapping[str, Sequence[_Point]],
    ) -> None:
        self._series = series
        self._now = now
        self._since = since
        self._ranges = ranges

    def counters(self, part: RowPart, values: Sequence[int], *objects: object) -> dict[str, object]:
        """Return counters by their names, each with its rate.

        Args:
            part: What they are.
            values: What they are now.
            objects: Whose they are; of several they are sums.
        """
        series = [one for of in objects if (one := self._series.get(id(of))) is not None]
        rates: Sequence[float] = [0.0] * len(values)
        if self._since is not None:
            before, seconds = _sums(series, part, self._since), self._now - self._since
            if before is None:
                before = [0] * len(values)
            rates = [round((a - b) / seconds, 3) for a, b in zip(values, before, strict=True)]
        details: list[dict[str, object]] = [{"rate": rate} for rate in rates]
        points = self._ranges.get(part.range)
        if points is not None:
            _add_samples(details, [(one, _sums(series, part, one.at)) for one in points])
        found: dict[str, object] = {}
        for name, value, detail in zip(part.names, values, details, strict=True):
            found[name] = value
            found[f"{name}_details"] = detail
        return found


def _sums(series: Sequence[_Series], part: RowPart, time: float) -> Sequence[int] | None:
    """Return what some objects had together at a time; None if none was there."""
    rows = [row for one in series if (row := one.at(time)) is not None]
    if not rows:
        return None
    start, end = part.at, part.at + len(part.names)
    return [sum(of) for of in zip(*[row[start:end] for row in rows], strict=True)]


def _add_samples(
    details: Sequence[dict[str, object]],
    points: Sequence[tuple[_Point, Sequence[int] | None]],
) -> None:
    there = [(point.timestamp, values) for point, values in points if values is not None]
    for at, detail in enumerate(details):
        samples = [(timestamp, values[at]) for timestamp, values in there]
        detail["samples"] = [{"sample": value, "timestamp": time} for time, value in samples]
        if len(samples) > 1:
            (newest, last), (oldest, first) = samples[0], samples[-1]
            detail["avg_rate"] = (last - first) * 1000 / (newest - oldest)
            detail["avg"] = sum([value for _, value in samples]) / len(samples)


def _ranges(query: Mapping[str, str], now: float, now_ms: int) -> Mapping[str, Sequence[_Point]]:
    found = {}
    for name in _RANGES:
        age, step = (_number(query.get(f"{name}_{what}")) for what in ("age", "incr"))
        if age is None or step is None:
            continue
        if age <= 0 or step <= 0 or age // step > _POINTS_MAX:
            raise answers.bad_request(f"Invalid range parameters: age {age}, incr {step}")
        found[name] = list(_points(1000 * age, 1000 * step, now, now_ms))
    return found


def _points(age_ms: int, step_ms: int, now: float, now_ms: int) -> Iterator[_Point]:
    """Give whole multiples of a step, the newest first."""
    last = now_ms // step_ms * step_ms
    for timestamp in range(last, last - age_ms - 1, -step_ms):
        yield _Point(now - (now_ms - timestamp) / 1000, timestamp)


def _number(text: str | None) -> int | None:
    """Return a number; None if there is none, which RabbitMQ does not mind."""
    if text is None or not text.removeprefix("-").isdecimal():
        return None
    return int(text)
