"""Points in time and durations, as protobuf has them, in milliseconds."""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sprocket.rocketmq.codec.grpc import descriptors

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp
else:
    # Those of the default pool are other classes, which the messages here do not take.
    Duration = descriptors.well_known("Duration")
    Timestamp = descriptors.well_known("Timestamp")

TIMES_REMEMBERED: Final = 2_048
"""Most clients give them in milliseconds, so that many messages have the same."""
_NANOS: Final = 1_000_000


def ms_of(value: Timestamp | Duration) -> int:
    """Return milliseconds: since 1970, or of a duration; parts of one are dropped."""
    return value.seconds * 1000 + value.nanos // _NANOS


@lru_cache(TIMES_REMEMBERED)
def ms_of_encoded(data: bytes) -> int:
    """Return the same of a point in time as it is sent. Raises DecodeError."""
    return ms_of(Timestamp.FromString(data))


def timestamp(ms: int) -> Timestamp:
    """Return a point in time, given in milliseconds since 1970."""
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * _NANOS)


def set_timestamp(field: Timestamp, ms: int) -> None:
    """Set a field to a point in time; see `timestamp`."""
    field.seconds, field.nanos = ms // 1000, ms % 1000 * _NANOS


def duration(ms: int) -> Duration:
    """Return a duration, not negative."""
    return Duration(seconds=ms // 1000, nanos=ms % 1000 * _NANOS)


def set_duration(field: Duration, ms: int) -> None:
    """Set a field to a duration; see `duration`."""
    field.seconds, field.nanos = ms // 1000, ms % 1000 * _NANOS
