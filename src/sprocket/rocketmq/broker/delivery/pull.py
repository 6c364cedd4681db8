"""Handling of a pull request: the checks in RocketMQ's order, the read, the numbers in the answer.

Source: RocketMQ `PullMessageProcessor`.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from msgspec import Struct, structs

from sprocket.rocketmq.broker.filters import FilterRules, FilterTurns, SqlFilters
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets, Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.config import DataVersion, FilterRule
from sprocket.rocketmq.errors import ExpressionIllegal, Refusal, Refused
from sprocket.rocketmq.model.filters import MessageFilter, PropertyFilter, RetryFilter
from sprocket.rocketmq.model.group import (
    BROADCASTING,
    CLUSTERING,
    SQL92,
    TAG,
    Subscription,
    SubscriptionGroup,
)
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.pull import COMMIT, SUBSCRIPTION, SUSPEND, PullQuery
from sprocket.rocketmq.model.topic import READ, TopicConfig
from sprocket.rocketmq.settings import PullSettings
from sprocket.rocketmq.store.read import GetResult, GetStatus
from sprocket.rocketmq.store.store import Store


class Forbidden(IntEnum):
    """Who forbids a pull, told beside NO_PERMISSION."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCAST = 4
    GROUP_FOR_TOPIC = 5


class PullForbidden(Refused):
    """A pull that somebody's settings forbid."""

    def __init__(self, kind: Forbidden, remark: str) -> None:
        super().__init__(Refusal.NO_PERMISSION, remark)
        self.kind = kind


class PullPermit(Struct, frozen=True, gc=False):
    """A pull passes the checks: its topic and group, and what of the topic the group wants.

    Attributes:
        topic: What it reads.
        group: Who reads.
        wanted: Which messages of it; None for every message.
    """

    topic: TopicConfig
    group: SubscriptionGroup
    wanted: MessageFilter | None


class PullOutcome(Enum):
    """What a consumer is to do that has pulled."""

    FOUND = "consume"
    NOTHING_NEW = "wait for the next message"
    TRY_AGAIN = "go on from the next offset at once"
    MOVED = "go on elsewhere"


class Pulled(Struct, frozen=True, gc=False):
    """The outcome of a pull.

    Attributes:
        outcome: What came of it.
        result: Records and offsets, as the store gave them.
        permit: What the pull was allowed by.
    """

    outcome: PullOutcome
    result: GetResult
    permit: PullPermit


PERMITS_MAX = 4096
"""Permits that are remembered, some 500 bytes each; one for each group and queue that is read."""

PERMIT_CHARACTERS_MAX = 1024
"""Longest subscription that is remembered: one may have megabytes, and a client as many as it
likes."""

PULL_COST = 50
"""What else a pull takes that looks at properties, in the units of `MessageFilter.cost`: 10 µs. A
message that arrives may have thousands look at it."""

RETRY_RULES_MAX = 64
"""Conditions by which failed messages are chosen; a group with more gets all of these."""

_Asked = tuple[str, str, int, int, str | None, str | None, int]
"""What a permit depends on in a request."""


_OUTCOMES: Mapping[GetStatus, PullOutcome] = {
    GetStatus.FOUND: PullOutcome.FOUND,
    GetStatus.NO_MATCHED_MESSAGE: PullOutcome.TRY_AGAIN,
    GetStatus.MESSAGE_WAS_REMOVING: PullOutcome.TRY_AGAIN,
    GetStatus.OFFSET_FOUND_NULL: PullOutcome.NOTHING_NEW,
    GetStatus.OFFSET_OVERFLOW_ONE: PullOutcome.NOTHING_NEW,
    GetStatus.OFFSET_OVERFLOW_BADLY: PullOutcome.MOVED,
    GetStatus.OFFSET_TOO_SMALL: PullOutcome.MOVED,
}
"""Those of an empty queue move only who asked for something in it."""


@dataclass(slots=True, eq=False)
class PullService:
    """Answers pulls out of the store.

    A pull that passed the checks passes them again until a topic, a group or a client changes: so
    its permit is remembered until then: 0.2 µs instead of 1.0.
    """

    _store: Store
    _topics: Topics
    _groups: Groups
    _members: ClientManager
    _offsets: ConsumerOffsets
    _settings: PullSettings
    _filters: SqlFilters
    _rules: FilterRules
    _turns: FilterTurns
    _permits: dict[_Asked, PullPermit] = field(default_factory=dict, init=False)
    _permitted_by: tuple[DataVersion, DataVersion, int, int] | None = field(
        default=None, init=False
    )

    def use(self, settings: PullSettings) -> None:
        """Change limits of pulls, and whether they may filter by SQL92."""
        self._settings = settings
        self._permits.clear()

    def pull(self, query: PullQuery, *, is_first: bool = True) -> Pulled:
        """Check a pull and read what it asks for.

        Args:
            query: What is asked for.
            is_first: False when a pull that waited is run again; then nothing is committed.

        Raises:
            Refused: A check failed.
            StoreError: The store could not be read.
            TurnSpent: It filters by properties, and has to be tried again by `FilterTurns.later`.
        """
        permit = self._permit(query)
        wanted = permit.wanted
        if wanted is not None and wanted.cost:
            self._turns.check()
        group, topic, queue_id = query.consumer_group, query.topic, query.queue_id
        target = self._offsets.take_reset(group, topic, queue_id)
        if target is not None:  # what the group commits here is out of date
            low, high = self._store.queue_range(topic, queue_id)
            result = GetResult(GetStatus.OFFSET_RESET, QueueOffset(target), low, high, [])
            return Pulled(PullOutcome.MOVED, result, permit)
        settings = self._settings
        result = self._store.get_messages(
            topic,
            queue_id,
            query.queue_offset,
            max_count=max(1, min(query.max_msg_nums, settings.messages_max)),
            wanted=wanted,
            max_bytes=settings.bytes_max,
            reader=(group, topic, queue_id),
        )
        if result.filter_cost:
            self._turns.charge(PULL_COST + result.filter_cost)
        is_old = query.queue_offset > result.max_offset and self._store.is_made_anew(topic)
        if is_old:  # it has not heard that the topic is another one: nothing of that is consumed
            result.next_offset = result.min_offset
        elif is_first and query.sys_flag & COMMIT:
            self._offsets.commit_aside(group, topic, queue_id, query.commit_offset)
        outcome = _OUTCOMES.get(result.status)
        if outcome is None:
            outcome = PullOutcome.MOVED if query.queue_offset else PullOutcome.NOTHING_NEW
        return Pulled(outcome, result, permit)

    def check_filter(self, subscription: Subscription) -> None:
        """Say whether consumers may choose messages as a subscription does.

        Raises:
            Refused: OTHER, they may not; UNREADABLE_SUBSCRIPTION, the expression is none.
            TurnSpent: It has to be tried again by `FilterTurns.later`.
        """
        self.filter_of(subscription)

    def filter_of(self, subscription: Subscription) -> MessageFilter | None:
        """Return which messages a subscription wants, None for every one; as `check_filter`."""
        return subscription.filter if subscription.type == TAG else self._by_sql(subscription)

    def hold_ms(self, query: PullQuery) -> int:
        """Return how long this pull may wait for a message; 0 when it does not want to."""
        if not query.sys_flag & SUSPEND:
            return 0
        return max(0, min(query.suspend_timeout_millis, self._settings.hold_ms_max))

    def _permit(self, query: PullQuery) -> PullPermit:
        """Return what allows a pull; as `_check`."""
        permitted_by = (
            self._topics.table.version,
            self._groups.table.version,
            self._members.changes,
            self._rules.changes,
        )
        if permitted_by != self._permitted_by or len(self._permits) >= PERMITS_MAX:
            self._permitted_by = permitted_by
            self._permits.clear()
        asked = (
            query.consumer_group,
            query.topic,
            query.queue_id,
            query.sys_flag & SUBSCRIPTION,
            query.subscription,
            query.expression_type,
            query.sub_version,
        )
        permit = self._permits.get(asked)
        if permit is None:
            permit = self._check(query)
            if len(query.subscription or "") <= PERMIT_CHARACTERS_MAX:
                self._permits[asked] = permit
        return permit

    def _check(self, query: PullQuery) -> PullPermit:
        """Say whose pull it is, of what, if it passes all checks."""
        if not self._topics.is_readable:
            raise PullForbidden(Forbidden.BROKER, "the broker is closed to pulls at the moment")
        group = self._groups.find(query.consumer_group)
        if not group.consume_enable:
            raise PullForbidden(
                Forbidden.GROUP, f"group [{group.name}] may not consume at the moment"
            )
        topic = self._topics.existing(query.topic, "topic[{}] not exist, apply first please!")
        if not topic.perm & READ:
            raise PullForbidden(Forbidden.TOPIC, f"topic [{topic.name}] may not be read")
        if not 0 <= query.queue_id < topic.read_queues:
            raise Refused(
                Refusal.INVALID_ARGUMENT,
                f"queueId[{query.queue_id}] is illegal, topic {topic.name} has "
                f"{topic.read_queues} read queues",
            )
        wanted = self._wanted(query, group)
        if wanted is None and self._settings.sql_retries and topic.name.startswith(RETRY_PREFIX):
            wanted = self._of_retries(topic.name.removeprefix(RETRY_PREFIX))
        return PullPermit(topic, group, wanted)

    def _wanted(self, query: PullQuery, group: SubscriptionGroup) -> MessageFilter | None:
        """Return which messages a pull wants, if its subscription is known."""
        if query.sys_flag & SUBSCRIPTION:
            return self.filter_of(self._carried(query))
        subscription = self._registered(query, group)
        if subscription.type == TAG:
            return subscription.filter
        rule = self._require_rule(query)
        wanted = self._by_sql(subscription)
        if rule.expression != subscription.expression:
            return wanted  # a later one waits to be taken in
        bits = self._rules.bits(rule)
        return wanted if bits is None else structs.replace(wanted, bits=bits)

    def _of_retries(self, group: str) -> MessageFilter | None:
        """Return which of a group's failed messages it wants: those that pass where they were.

        Source: RocketMQ `ExpressionForRetryMessageFilter`.
        """
        rules = self._rules.of_group(group)
        found: dict[str, PropertyFilter] = {}
        for rule in rules if len(rules) <= RETRY_RULES_MAX else ():
            with suppress(ExpressionIllegal):  # a file of rules may hold anything
                found[rule.topic] = self._filters.compile(rule.expression)
        return RetryFilter.of(found) if found else None

    def _carried(self, query: PullQuery) -> Subscription:
        """Return the subscription that the request itself carries.

        A text of nothing but `||` has no parts for RocketMQ; blank parts are parts, and hold no
        tag.
        """
        text = query.subscription or ""
        kind = query.expression_type or TAG
        is_unreadable = bool(text) and not text.replace("||", "") if kind == TAG else not text
        if is_unreadable:
            raise Refused(Refusal.UNREADABLE_SUBSCRIPTION, "the subscription cannot be parsed")
        subscription = Subscription.parse(query.topic, text, type=kind, version=query.sub_version)
        self._members.register_for_pull(query.consumer_group, subscription, CLUSTERING)
        return subscription

    def _by_sql(self, subscription: Subscription) -> PropertyFilter:
        """Return the filter of a subscription of another type than TAG."""
        if subscription.type != SQL92 or not self._settings.sql_filters:
            raise Refused(
                Refusal.OTHER,
                f"The broker does not support consumer to filter message by {subscription.type}",
            )
        try:
            return self._filters.compile(subscription.expression)
        except ExpressionIllegal as illegal:
            raise Refused(
                Refusal.UNREADABLE_SUBSCRIPTION, f"the subscription cannot be parsed: {illegal}"
            ) from illegal

    def _registered(self, query: PullQuery, group: SubscriptionGroup) -> Subscription:
        """Return the subscription that the group's heartbeats brought."""
        name = query.consumer_group
        members = self._members.consumers(name)
        if not members.clients:  # what pulls brought along is not enough
            raise Refused(Refusal.NO_SUBSCRIPTION, f"the consumer's group [{name}] is not online")
        if members.message_model == BROADCASTING and not group.consume_broadcast_enable:
            raise PullForbidden(Forbidden.BROADCAST, f"group [{name}] may not consume by broadcast")
        if self._groups.is_forbidden(name, query.topic):
            raise PullForbidden(
                Forbidden.GROUP_FOR_TOPIC, f"group [{name}] may not read topic [{query.topic}]"
            )
        subscription = members.subscriptions.get(query.topic)
        if subscription is None:
            raise Refused(
                Refusal.NO_SUBSCRIPTION,
                f"group [{name}] has no subscription to topic [{query.topic}]",
            )
        if subscription.version < query.sub_version:
            raise Refused(
                Refusal.OLD_SUBSCRIPTION, f"the subscription of group [{name}] is not the latest"
            )
        return subscription

    def _require_rule(self, query: PullQuery) -> FilterRule:
        """Return the group's condition, in the version that is asked for or a later one.

        It has none if that cannot be compiled. What is evaluated is that of the subscription.
        """
        name, topic = query.consumer_group, query.topic
        rule = self._rules.get(topic, name)
        if rule is None:
            raise Refused(
                Refusal.NO_FILTER,
                f"group [{name}] has no condition for topic [{topic}], or one that cannot be read",
            )
        if rule.client_version < query.sub_version:
            raise Refused(
                Refusal.OLD_FILTER,
                f"the condition of group [{name}] for topic [{topic}] is not the latest",
            )
        return rule
