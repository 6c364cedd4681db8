"""Headers of requests about the offsets of groups and what they may read; see `codec.headers`."""

from sprocket.rocketmq.codec.headers.ext import Header, Int32, Int64


class ResetOffset(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """INVOKE_BROKER_TO_RESET_OFFSET 222, answered with the new offsets by queue."""

    topic: str
    group: str = ""
    timestamp: Int64 = 0
    """Milliseconds since 1970; negative: behind the last message."""
    is_force: bool = False
    queue_id: Int32 = -1
    """Negative: all queues."""
    offset: Int64 | None = None
    """For one queue; absent or −1: `timestamp` counts."""


class ConsumerStatusOfGroup(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223: where the members of a group are in a topic."""

    topic: str | None = None
    group: str
    client_addr: str | None = None
    """A client id; absent or empty: all members."""


class CloneOffsets(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """CLONE_GROUP_OFFSET 314."""

    src_group: str | None = None
    dest_group: str | None = None
    topic: str | None = None
    """Absent or empty: all topics that the source has committed in."""
    offline: bool = False


class CorrectionOffsets(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """QUERY_CORRECTION_OFFSET 308: the smallest offset of any group by queue."""

    topic: str
    compare_group: str = ""
    filter_groups: str | None = None
    """Groups, joined by commas, whose offsets are forgotten first."""


class GroupForbidden(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """UPDATE_AND_GET_GROUP_FORBIDDEN 353."""

    group: str
    topic: str
    readable: bool | None = None
    """Absent: nothing is changed."""
