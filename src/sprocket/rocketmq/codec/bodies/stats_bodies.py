"""Bodies with figures: rates by the minute, hour and day, and how replicas keep up."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import ClassVar

from msgspec import Struct, field


class Rate(Struct, frozen=True, kw_only=True):
    """What was counted over a span of time.

    Attributes:
        sum: Everything counted in the span.
        tps: That for each second of it.
        average: That for each time of counting: the size of a message, or messages of an answer.
    """

    sum: int = 0
    tps: float = 0.0
    average: float = field(name="avgpt", default=0.0)


class StatsData(Struct, frozen=True, kw_only=True):
    """The answer of VIEW_BROKER_STATS_DATA 315."""

    minute: Rate = field(name="statsMinute")
    hour: Rate = field(name="statsHour")
    day: Rate = field(name="statsDay")


class SlaveStatus(Struct, frozen=True, kw_only=True):
    """How far one slave is."""

    address: str = field(name="addr")
    acknowledged_offset: int = field(name="slaveAckOffset")
    lag_bytes: int = field(name="diff")
    is_in_sync: bool = field(name="inSync")
    bytes_per_second: int = field(name="transferredByteInSecond", default=0)
    transfer_offset: int = field(name="transferFromWhere", default=0)


class ReplicaStatus(Struct, frozen=True, kw_only=True):
    """The answer of GET_BROKER_HA_STATUS 907 on a master."""

    written: ClassVar[Mapping[str, object]] = {
        "haClientRuntimeInfo": {
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "maxOffset": 0,
            "transferredByteInSecond": 0,
        },
        "inSyncSlaveNums": attrgetter("in_sync_count"),
    }
    log_end: int = field(name="masterCommitLogMaxOffset")
    slaves: Sequence[SlaveStatus] = field(name="haConnectionInfo", default=())
    is_master: bool = field(name="master", default=False)

    @property
    def in_sync_count(self) -> int:
        """Slaves that are in sync."""
        return sum(one.is_in_sync for one in self.slaves)
