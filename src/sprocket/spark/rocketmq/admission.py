"""How much a micro-batch of a stream reads, and when there is enough for one.

Spark asks a source for its limit once and passes it back with each question for the next end. It
knows one limit at a time. So of several options the engine gets the first of bytes, most messages
and fewest messages; whichever it passes, all of them hold, but not with `ReadAllAvailable`, by
which Trigger.Once asks for everything.
"""

import dataclasses

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from sprocket.base.clock import Clock
from sprocket.spark.rocketmq.options import Options


@dataclasses.dataclass(frozen=True, slots=True)
class Admitted:
    """What one micro-batch may have; 0 stands for no limit.

    Args:
        bytes_max: Bytes of the log at most.
        count_max: Messages at most.
        count_min: Messages that are worth a batch.
    """

    bytes_max: int = 0
    count_max: int = 0
    count_min: int = 0


class Admission:
    """The limits that the options of a stream set.

    Args:
        options: The stream's.
        clock: Tells how long ago the last batch was.
    """

    def __init__(self, options: Options, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._began: float | None = None

    def read_limit(self) -> ReadLimit:
        """Return the limit that the engine is to pass back."""
        options = self._options
        if options.bytes_per_trigger_max:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        if options.offsets_per_trigger_max:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.offsets_per_trigger_min:
            return ReadMinRows(options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def admitted(self, limit: ReadLimit, *, is_waiting: bool = True) -> Admitted:
        """Return what holds for a batch.

        Args:
            limit: What the engine passed.
            is_waiting: Whether the batch waits for more to come; not if the end is fixed, since
                it would wait for ever.
        """
        if isinstance(limit, ReadAllAvailable):
            return Admitted()
        options = self._options
        return Admitted(
            options.bytes_per_trigger_max,
            options.offsets_per_trigger_max,
            options.offsets_per_trigger_min if is_waiting and not self._is_late() else 0,
        )

    def note_batch(self) -> None:
        """Take note that a batch begins."""
        self._began = self._clock.monotonic()

    def _is_late(self) -> bool:
        """Tell whether the last batch is too long ago to wait on; so is one never seen."""
        if self._began is None:
            return True
        waited_ms = round((self._clock.monotonic() - self._began) * 1000)
        return waited_ms >= self._options.trigger_delay_ms_max
