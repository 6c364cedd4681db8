"""How many messages wait for their time, by the topic where they are to go: `config/timermetrics`.

Only figures: nothing is decided by them. Source: RocketMQ `TimerMetrics`.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from sprocket.base.disk import Disk, read_file, replace_file
from sprocket.base.errors import FileMissing, WireError
from sprocket.rocketmq.codec.config import DataVersion, declared


class TimerCount(Struct, frozen=True, gc=False):
    """What is said of one topic."""

    count: int = 0
    changed_at_ms: int = field(name="timeStamp", default=0)


class TimerCounts(Struct, frozen=True, kw_only=True):
    """The content of the file, and the answer to GET_TIMER_METRICS 61."""

    version: DataVersion = field(name="dataVersion")
    topics: Mapping[str, TimerCount] = field(name="timingCount")


def load(disk: Disk, path: str) -> TimerCounts:
    """Read the file; a missing or damaged one says nothing."""
    try:
        return declared.decode(TimerCounts, read_file(disk, path))
    except (FileMissing, WireError):
        return TimerCounts(version=DataVersion.new(0), topics={})


def save(disk: Disk, path: str, counts: TimerCounts) -> None:
    """Replace the file, whose folder exists.

    Durability: on return it is on the disk.
    Threads: any.
    """
    replace_file(disk, path, declared.encode(counts))
