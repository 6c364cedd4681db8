"""Headers of replies to requests that are messages; declared as in `codec.headers`.

A reply is sent with SEND_REPLY_MESSAGE 324 or 325. They have the headers of 10 and 310, but fewer
fields are required.
"""

from msgspec import field

from sprocket.rocketmq.codec.headers.ext import Header, Int32, Int64
from sprocket.rocketmq.codec.headers.headers import SendMessage, SendMessageV2


class SendReply(SendMessage, frozen=True, kw_only=True, gc=False, rename="camel"):
    """SEND_REPLY_MESSAGE 324."""

    topic: str = ""
    sys_flag: Int32 = 0


class SendReplyV2(SendMessageV2, frozen=True, kw_only=True, gc=False):
    """SEND_REPLY_MESSAGE_V2 325."""

    topic: str = field(name="b", default="")
    sys_flag: Int32 = field(name="f", default=0)


class PushReply(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """PUSH_REPLY_MESSAGE_TO_CLIENT 326: from broker to the client that waits; body: the reply's."""

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 = 0
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    """Milliseconds since 1970, by the clock of who replied."""
    flag: Int32
    properties: str = ""
    """name U+0001 value U+0002, repeated; those of the reply and PUSH_REPLY_TIME."""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    born_host: str
    """`ip:port` of who replied."""
    store_host: str
    """`ip:port` of the broker."""
    store_timestamp: Int64
    """Milliseconds since 1970, by the broker's clock."""
