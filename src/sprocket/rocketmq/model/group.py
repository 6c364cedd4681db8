"""Consumer groups and what they subscribe to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from msgspec import Struct, field

from sprocket.rocketmq.model import filters
from sprocket.rocketmq.model.filters import ALL, TagFilter

TAG, SQL92 = "TAG", "SQL92"

BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"

CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
CONSUME_POP = "CONSUME_POP"

PULL = "PULL"
POP = "POP"
"""How a group gets its messages, if it does not pop them."""


class SubscriptionGroup(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a broker knows of one consumer group; the defaults are those of a new one.

    Its members are named as RocketMQ's JSON does.

    Attributes:
        name: The group.
        consume_enable: Whether it may pull.
        consume_from_min_enable: Whether it may start at the oldest message.
        consume_broadcast_enable: Whether its members may each consume everything.
        consume_message_orderly: Whether POP must keep the order.
        retry_queues: Queues of its retry topic.
        retry_times_max: Deliveries before a message goes to the dead letters.
        retry_policy: 5.x's `groupRetryPolicy`, as JSON values.
        broker_id: Which broker to read from while all is well.
        slow_broker_id: Which broker to read from when far behind.
        notify_ids_changed_enable: Whether members are told when others come and go.
        sys_flag: Bits for units.
        consume_timeout_minutes: After which clients give a message back.
        subscriptions: Fixed subscriptions, as JSON values; None for none.
        attributes: 5.x settings by name.
    """

    name: str = field(name="groupName")
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queues: int = field(name="retryQueueNums", default=1)
    retry_times_max: int = field(name="retryMaxTimes", default=16)
    retry_policy: Mapping[str, object] = field(
        name="groupRetryPolicy", default_factory=lambda: {"type": "CUSTOMIZED"}
    )
    broker_id: int = 0
    slow_broker_id: int = field(name="whichBrokerWhenConsumeSlowly", default=1)
    notify_ids_changed_enable: bool = field(name="notifyConsumerIdsChangedEnable", default=True)
    sys_flag: int = field(name="groupSysFlag", default=0)
    consume_timeout_minutes: int = field(name="consumeTimeoutMinute", default=15)
    subscriptions: tuple[Mapping[str, object], ...] | None = field(
        name="subscriptionDataSet", default=None
    )
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which messages of a topic a group wants. Made by `parse`, which makes the filter.

    Attributes:
        topic: The topic.
        expression: As written: `*`, or tags with `||` between them, or SQL.
        type: TAG or SQL92.
        version: When the client made it, ms since 1970; a newer one replaces an older.
        filter: What the expression says; None for every message.
    """

    topic: str
    expression: str = ALL
    type: str = TAG
    version: int = 0
    filter: TagFilter | None = None

    @staticmethod
    def parse(
        topic: str,
        expression: str | None,
        *,
        type: str | None = None,  # noqa: A002 - the field's name
        version: int = 0,
    ) -> "Subscription":
        """Read an expression; empty and `*` mean every message.

        Expressions of another type than TAG are kept unread.
        """
        return _parse(topic, expression or ALL, type or TAG, version)


class Membership(Struct, frozen=True, kw_only=True, rename="camel"):
    """One consumer group that a client is in, and what it does there."""

    group: str = field(name="groupName")
    subscriptions: Sequence[Subscription] = field(name="subscriptionDataSet", default=())
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    unit_mode: bool = False


class Heartbeat(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a client says of itself: who it is, its groups and subscriptions.

    `fingerprint` is 0 for clients of the old kind; `without_sub` says that the subscriptions were
    left out because they have not changed.
    """

    client_id: str = field(name="clientID")
    producers: Sequence[str] = field(name="producerDataSet", default=())
    consumers: Sequence[Membership] = field(name="consumerDataSet", default=())
    fingerprint: int = field(name="heartbeatFingerprint", default=0)
    without_sub: bool = False


@lru_cache(maxsize=1024)
def _parse(topic: str, text: str, kind: str, version: int) -> Subscription:
    """Read an expression; every pull may carry the same one."""
    wanted = filters.parse(text) if kind == TAG else None
    return Subscription(topic, text, kind, version, wanted)
