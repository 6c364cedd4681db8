"""Which part of a log may hold records of some store times, by the first record of each file.

Store times grow along a log, but where a broker's clock was set, or another broker became master,
they go back. So a file is left out only if an hour lies between; each record is looked at later.
"""

import bisect
from collections.abc import Sequence
from contextlib import closing

from sprocket.rocketmq.codec.record_layout import (
    HOST_V6_EXTRA,
    STORED_AT_MS_AT,
    SYS_FLAG_AT,
)
from sprocket.rocketmq.model.message import BORN_HOST_V6
from sprocket.spark.files import Files
from sprocket.spark.rocketmq.folder.plan import LogFile

MARGIN_MS = 3_600_000
"""How far back the clock of a log may go without a record being missed."""


def part_of_times(
    files: Files, log: Sequence[LogFile], first_ms: int | None, last_ms: int | None
) -> tuple[int, int]:
    """Return the physical offsets between which records of some times may be.

    Looks at the first record of a file for each halving of their number.

    Args:
        files: Where.
        log: The files of the log.
        first_ms: The first store time wanted; None for all from the beginning.
        last_ms: The first store time not wanted; None for all up to the end.
    """
    start, end = log[0].start, log[-1].end
    if first_ms is not None:
        # All before a file that begins long before is older still.
        wanted = first_ms - MARGIN_MS
        number = bisect.bisect_left(log, wanted, key=lambda file: _first_ms(files, file))
        start = log[max(number - 1, 0)].start
    if last_ms is not None:
        wanted = last_ms + MARGIN_MS
        number = bisect.bisect_left(log, wanted, key=lambda file: _first_ms(files, file))
        end = log[number].start if number < len(log) else end
    return start, end


def _first_ms(files: Files, file: LogFile) -> int:
    """Return the store time of a file's first record."""
    with closing(files.open(file.path)) as opened:
        head = opened.read(0, STORED_AT_MS_AT + HOST_V6_EXTRA + 8)
    sys_flag = int.from_bytes(head[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")
    at = STORED_AT_MS_AT + (HOST_V6_EXTRA if sys_flag & BORN_HOST_V6 else 0)
    return int.from_bytes(head[at : at + 8], "big", signed=True)
