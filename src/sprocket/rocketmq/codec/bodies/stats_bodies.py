"""Bodies with figures: rates by the minute, hour and day, and how replicas keep up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.codec.config import values


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What was counted over a span of time.

    Attributes:
        sum: Everything counted in the span.
        tps: That for each second of it.
        average: That for each time of counting: the size of a message, or messages of an answer.
    """

    sum: int = 0
    tps: float = 0.0
    average: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsData:
    """The answer of VIEW_BROKER_STATS_DATA 315."""

    minute: Rate
    hour: Rate
    day: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveStatus:
    """How far one slave is."""

    address: str
    acknowledged_offset: int
    lag_bytes: int
    is_in_sync: bool
    bytes_per_second: int = 0
    transfer_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """The answer of GET_BROKER_HA_STATUS 907 on a master."""

    log_end: int
    slaves: Sequence[SlaveStatus] = ()
    is_master: bool = True

    @property
    def in_sync_count(self) -> int:
        """Slaves that are in sync."""
        return sum(one.is_in_sync for one in self.slaves)


def encode_stats(stats: StatsData) -> bytes:
    """Write the answer of VIEW_BROKER_STATS_DATA 315."""
    return body_parts.encode(
        {
            "statsDay": _rate_json(stats.day),
            "statsHour": _rate_json(stats.hour),
            "statsMinute": _rate_json(stats.minute),
        }
    )


def decode_stats(data: bytes) -> StatsData:
    """Read the answer of VIEW_BROKER_STATS_DATA 315. Raises WireError."""
    body = body_parts.read_answer(data, "statistics")
    return StatsData(
        minute=_rate(body.get("statsMinute")),
        hour=_rate(body.get("statsHour")),
        day=_rate(body.get("statsDay")),
    )


def encode_replica_status(status: ReplicaStatus) -> bytes:
    """Write the answer of GET_BROKER_HA_STATUS 907."""
    return body_parts.encode(
        {
            "haClientRuntimeInfo": {
                "lastReadTimestamp": 0,
                "lastWriteTimestamp": 0,
                "masterFlushOffset": 0,
                "maxOffset": 0,
                "transferredByteInSecond": 0,
            },
            "haConnectionInfo": [
                {
                    "addr": one.address,
                    "diff": one.lag_bytes,
                    "inSync": one.is_in_sync,
                    "slaveAckOffset": one.acknowledged_offset,
                    "transferFromWhere": one.transfer_offset,
                    "transferredByteInSecond": one.bytes_per_second,
                }
                for one in status.slaves
            ],
            "inSyncSlaveNums": status.in_sync_count,
            "master": status.is_master,
            "masterCommitLogMaxOffset": status.log_end,
        }
    )


def decode_replica_status(data: bytes) -> ReplicaStatus:
    """Read the answer of GET_BROKER_HA_STATUS 907. Raises WireError."""
    body = body_parts.read_answer(data, "the state of replicas")
    slaves = values.sequence(body.get("haConnectionInfo"), "haConnectionInfo")
    return ReplicaStatus(
        log_end=values.member(body, "masterCommitLogMaxOffset", 0),
        slaves=[_slave(values.mapping(one, "a slave")) for one in slaves],
        is_master=values.boolean(body.get("master"), default=False),
    )


def _rate_json(rate: Rate) -> dict[str, int | float]:
    return {"avgpt": rate.average, "sum": rate.sum, "tps": rate.tps}


def _rate(value: Any) -> Rate:
    members = values.mapping(value, "a rate")
    return Rate(
        sum=values.member(members, "sum", 0),
        tps=values.fraction(members.get("tps"), "tps"),
        average=values.fraction(members.get("avgpt"), "avgpt"),
    )


def _slave(members: Mapping[Any, Any]) -> SlaveStatus:
    return SlaveStatus(
        address=values.text(members.get("addr")),
        acknowledged_offset=values.member(members, "slaveAckOffset", 0),
        lag_bytes=values.member(members, "diff", 0),
        is_in_sync=values.boolean(members.get("inSync"), default=False),
        bytes_per_second=values.member(members, "transferredByteInSecond", 0),
        transfer_offset=values.member(members, "transferFromWhere", 0),
    )
