"""Headers of requests from a broker to a consumer, its own or on behalf of an administrator.

Source: `org.apache.rocketmq.remoting.protocol.header`, 5.3.3.
"""

from sprocket.rocketmq.codec.headers.ext import Header, Int32, Int64


class ResetConsumerOffset(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """RESET_CONSUMER_CLIENT_OFFSET 220, one-way; the new offsets are in the body."""

    topic: str
    group: str
    timestamp: Int64
    """Milliseconds since 1970; −1 where the offsets do not stem from a time."""
    is_force: bool = False
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class GetConsumerStatus(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """GET_CONSUMER_STATUS_FROM_CLIENT 221: how far a consumer is with a topic."""

    topic: str | None = None
    group: str
    client_addr: str | None = None


class GetConsumerRunningInfo(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """GET_CONSUMER_RUNNING_INFO 307: what a consumer is doing."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectly(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """CONSUME_MESSAGE_DIRECTLY 309: give the listener one message, the record in the body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
