"""A pull's checks come before its read, and its wait stays inside the limits."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.timers import FakeTimers

from sprocket.base.clock import LogClock
from sprocket.base.place import Place
from sprocket.rocketmq.broker.delivery import PullForbidden, PullOutcome, PullService, pull
from sprocket.rocketmq.broker.delivery.pull import Forbidden
from sprocket.rocketmq.broker.filters import (
    FilterRules,
    FilterTurns,
    MessageBits,
    SqlFilters,
    TurnSpent,
    filter_turns,
)
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets, Groups, Link
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model import filters
from sprocket.rocketmq.model.filters import OwnedBits, TagFilter
from sprocket.rocketmq.model.group import BROADCASTING, Heartbeat, Membership, Subscription
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.pull import PullQuery
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import (
    BrokerSettings,
    GroupSettings,
    PullSettings,
    StoreSettings,
    TopicSettings,
)
from sprocket.rocketmq.store.queue import GroupFilter
from sprocket.rocketmq.store.read import GetResult, GetStatus, OffsetRange
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk


class FakeStore:
    """A store that notes how it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.status = GetStatus.FOUND
        self.filter_cost = 0
        self.made_anew: set[str] = set()

    def is_made_anew(self, topic: str) -> bool:
        """Whether it is one of those that the test wants."""
        return topic in self.made_anew

    def get_messages(self, *_: Any, **asked: Any) -> GetResult:
        """Answer with the status that the test wants."""
        self.asked = asked
        return GetResult(
            self.status,
            QueueOffset(9),
            QueueOffset(0),
            QueueOffset(9),
            [],
            filter_cost=self.filter_cost,
        )

    def queue_range(self, *_: Any) -> OffsetRange:
        """Tell the same of every queue."""
        return OffsetRange(QueueOffset(0), QueueOffset(9))


class Harness:
    """A puller with tables on a simulated disk."""

    def __init__(self, **store: Any) -> None:
        self.disk, clock = SimulatedDisk(), FakeClock()
        disk = self.disk
        disk.make_folder("/s/config")
        self.store = FakeStore()
        self.link = cast("Link", object())
        self.topics = Topics(Place(disk, "/s", clock), BrokerSettings(), TopicSettings())
        self.groups = Groups(Place(disk, "/s", clock), GroupSettings())
        self.timers = FakeTimers(clock)
        self.turns = FilterTurns(self.timers)
        sql_filters = SqlFilters(self.turns)
        self.subscriptions: dict[str, Sequence[GroupFilter]] = {}
        bits = MessageBits(StoreSettings(**store), self.subscriptions, is_certain=True)
        self.rules = rules = FilterRules(
            Place(disk, "/s", clock),
            LogClock(clock),
            sql_filters,
            self.turns,
            PullSettings(),
            bits,
        )
        self.members = ClientManager(clock, 120, lambda _link, _group: None, lambda _: True, rules)
        self.offsets = ConsumerOffsets(Place(disk, "/s", clock))
        self.topics.put(TopicConfig(name="T", read_queues=2))
        self.puller = PullService(
            cast("Store", self.store),
            self.topics,
            self.groups,
            self.members,
            self.offsets,
            PullSettings(messages_max=16, bytes_max=1000, hold_ms_max=500),
            sql_filters,
            rules,
            self.turns,
        )

    def beat(self, model: str, topic: str = "T", kind: str = "TAG", expression: str = "*") -> None:
        """Have group g come in with a subscription to a topic."""
        subscription = Subscription.parse(topic, expression, type=kind, version=5)
        consumer = Membership(group="g", subscriptions=[subscription], message_model=model)
        data = Heartbeat(client_id="c", consumers=[consumer])
        self.members.heartbeat(self.link, data, "JAVA", 479, [consumer])

    def change_group(self, **changes: Any) -> None:
        """Give group g other settings."""
        self.groups.put([replace(self.groups.find("g"), **changes)])


def query(**changes: Any) -> PullQuery:
    """Return a pull with its own subscription."""
    fields: dict[str, Any] = {
        "consumer_group": "g",
        "topic": "T",
        "queue_id": 0,
        "queue_offset": 3,
        "max_msg_nums": 32,
        "sys_flag": 4,
        "subscription": "a || b",
    }
    return PullQuery(**fields | changes)


def test_a_read_is_asked_for_within_the_limits() -> None:
    """The client's number counts up to ours, and at least one."""
    harness = Harness()
    pulled = harness.puller.pull(query())
    assert (pulled.outcome, pulled.result.next_offset) == (PullOutcome.FOUND, 9)
    assert harness.store.asked["max_count"] == 16
    assert harness.store.asked["max_bytes"] == 1000
    wanted = filters.parse("a || b")
    assert harness.store.asked["wanted"] == pulled.permit.wanted == wanted
    harness.puller.pull(query(max_msg_nums=-5, subscription="*"))
    assert (harness.store.asked["max_count"], harness.store.asked["wanted"]) == (1, None)


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_or_absent_tag_expression_wants_everything(text: str | None) -> None:
    """As the real broker reads it; it was refused."""
    harness = Harness()
    assert harness.puller.pull(query(subscription=text)).outcome is PullOutcome.FOUND
    assert harness.store.asked["wanted"] is None


@pytest.mark.parametrize("text", [" ", "\t", " || ", "|| ||"])
def test_a_tag_expression_without_a_tag_wants_nothing(text: str) -> None:
    """`DefaultMQPullConsumer.pull(queue, " ", …)` sends a blank; it was refused."""
    harness = Harness()
    assert harness.puller.pull(query(subscription=text)).outcome is PullOutcome.FOUND
    assert harness.store.asked["wanted"] == TagFilter()


@pytest.mark.parametrize(
    ("text", "kind"), [("||", "TAG"), ("||||", "TAG"), ("", "SQL92"), (None, "SQL92")]
)
def test_bars_alone_and_an_empty_expression_of_another_type_cannot_be_read(
    text: str | None, kind: str
) -> None:
    """These, and no other texts."""
    with pytest.raises(Refused) as refused:
        Harness().puller.pull(query(subscription=text, expression_type=kind))
    assert refused.value.why is Refusal.UNREADABLE_SUBSCRIPTION


def test_an_expression_chooses_by_properties() -> None:
    """Whether a pull or a heartbeat brought it; it is compiled once."""
    harness = Harness()
    harness.puller.pull(query(expression_type="SQL92", subscription="a > 3"))
    wanted = harness.store.asked["wanted"]
    assert (wanted.names, wanted.cost) == ({"a"}, 3)
    harness.beat("CLUSTERING", kind="SQL92", expression="a > 3")
    harness.puller.pull(query(sys_flag=0))
    assert harness.store.asked["wanted"] is wanted


@pytest.mark.parametrize(
    ("changes", "why", "remark"),
    [
        ({"subscription": "a >"}, Refusal.UNREADABLE_SUBSCRIPTION, "found the end, at character 4"),
        ({"expression_type": "KLINGON"}, Refusal.OTHER, "filter message by KLINGON"),
    ],
)
def test_what_cannot_be_compiled_is_refused(
    changes: dict[str, Any], why: Refusal, remark: str
) -> None:
    """Each time: nothing of it is taken for a filter that wants everything."""
    harness = Harness()
    asked = {"expression_type": "SQL92", "subscription": "a > 3"} | changes
    for _ in range(2):
        with pytest.raises(Refused, match=remark) as refused:
            harness.puller.pull(query(**asked))
        assert refused.value.why is why
    assert not harness.store.asked


def test_expressions_may_be_forbidden() -> None:
    """Also those that were allowed a moment ago; tags are not expressions."""
    harness = Harness()
    asked = query(expression_type="SQL92", subscription="a > 3")
    harness.puller.pull(asked)
    harness.puller.use(PullSettings(sql_filters=False))
    with pytest.raises(Refused, match="does not support consumer to filter message by SQL92"):
        harness.puller.pull(asked)
    harness.puller.pull(query())


@pytest.mark.parametrize(
    ("text", "version", "why"),
    [("a >", 0, Refusal.NO_FILTER), ("a > 3", 6, Refusal.OLD_SUBSCRIPTION)],
)
def test_a_group_s_condition_must_be_known(text: str, version: int, why: Refusal) -> None:
    """In the version that the pull asks for; one that cannot be compiled is not."""
    harness = Harness()
    harness.beat("CLUSTERING", kind="SQL92", expression=text)
    with pytest.raises(Refused) as refused:
        harness.puller.pull(query(sys_flag=0, sub_version=version))
    assert refused.value.why is why


def test_a_condition_that_is_behind_is_refused() -> None:
    """While the subscription is the latest: the condition waits for its turn to be compiled."""
    harness = Harness()
    harness.beat("CLUSTERING", kind="SQL92", expression="a > 3")
    harness.turns.charge(filter_turns.COST_PER_TURN)
    longer = Subscription.parse("T", "a > 4", type="SQL92", version=6)
    consumer = Membership(group="g", subscriptions=[longer])
    data = Heartbeat(client_id="c", consumers=[consumer])
    harness.members.heartbeat(harness.link, data, "JAVA", 479, [consumer])
    with pytest.raises(Refused) as refused:
        harness.puller.pull(query(sys_flag=0, sub_version=6))
    assert refused.value.why is Refusal.OLD_FILTER
    harness.timers.turn()
    harness.puller.pull(query(sys_flag=0, sub_version=6))


def test_a_group_s_pull_looks_at_the_bits_of_its_condition() -> None:
    """Not one that brings its own condition."""
    harness = Harness(filter_bits=True, extended_units=True)
    harness.beat("CLUSTERING", kind="SQL92", expression="a > 3")
    rule = harness.rules.get("T", "g")
    assert rule is not None

    def bits(**changes: Any) -> OwnedBits | None:
        harness.puller.pull(query(**changes))
        wanted = harness.store.asked["wanted"]
        assert wanted.by_properties({"a": "5"})
        return cast("OwnedBits | None", wanted.bits)

    expected = OwnedBits(tuple(rule.bits.positions), 14, rule.born_time)
    assert bits(sys_flag=0, sub_version=5) == expected
    assert bits(subscription="a > 3", expression_type="SQL92") is None


def test_failed_messages_are_chosen_by_the_condition_of_their_topic() -> None:
    """If that is wanted; what is of a topic without a condition passes."""
    harness = Harness()
    harness.topics.put(TopicConfig(name="%RETRY%g", read_queues=1))
    wanted = [
        Subscription.parse("T", "a > 3", type="SQL92", version=5),
        Subscription.parse("%RETRY%g", "*", version=5),
    ]
    consumer = Membership(group="g", subscriptions=wanted)
    data = Heartbeat(client_id="c", consumers=[consumer])
    harness.members.heartbeat(harness.link, data, "JAVA", 479, [consumer])

    def asked() -> Any:
        harness.puller.pull(query(topic="%RETRY%g", sys_flag=0, sub_version=5))
        return harness.store.asked["wanted"]

    assert asked() is None
    harness.puller.use(PullSettings(sql_retries=True))
    found = asked()
    assert found.names == {"a", "RETRY_TOPIC"}
    assert found.cost > 1
    for properties, expected in (
        ({"RETRY_TOPIC": "T", "a": "4"}, True),
        ({"RETRY_TOPIC": "T", "a": "3"}, False),
        ({"RETRY_TOPIC": "U", "a": "3"}, True),
        ({}, True),
    ):
        assert found.by_properties(properties) is expected


def test_filters_have_a_share_of_a_turn() -> None:
    """What a read costs is charged; then pulls by properties wait, others do not."""
    harness = Harness()
    asked = query(expression_type="SQL92", subscription="a > 3")
    harness.store.filter_cost = filter_turns.COST_PER_TURN
    harness.puller.pull(asked)
    with pytest.raises(TurnSpent):
        harness.puller.pull(asked)
    harness.puller.pull(query())
    harness.timers.turn()
    harness.puller.pull(asked)


def test_many_pulls_that_look_at_one_message_take_turns() -> None:
    """Each of them costs more than its evaluation."""
    harness = Harness()
    harness.store.filter_cost = 7
    asked = query(expression_type="SQL92", subscription="a > 3")
    count = filter_turns.COST_PER_TURN // (pull.PULL_COST + 7)
    for _ in range(count + 1):
        harness.puller.pull(asked)
    with pytest.raises(TurnSpent):
        harness.puller.pull(asked)


def test_a_read_is_a_readers() -> None:
    """Who reads is the group, in one queue."""
    harness = Harness()
    harness.puller.pull(query())
    assert harness.store.asked["reader"] == ("g", "T", 0)


def test_each_status_has_its_outcome() -> None:
    """An empty queue moves only who asked for something in it."""
    harness = Harness()
    for status, at, outcome in (
        (GetStatus.NO_MATCHED_MESSAGE, 3, PullOutcome.TRY_AGAIN),
        (GetStatus.MESSAGE_WAS_REMOVING, 3, PullOutcome.TRY_AGAIN),
        (GetStatus.OFFSET_FOUND_NULL, 3, PullOutcome.NOTHING_NEW),
        (GetStatus.OFFSET_OVERFLOW_ONE, 3, PullOutcome.NOTHING_NEW),
        (GetStatus.OFFSET_OVERFLOW_BADLY, 3, PullOutcome.MOVED),
        (GetStatus.OFFSET_TOO_SMALL, 3, PullOutcome.MOVED),
        (GetStatus.NO_MESSAGE_IN_QUEUE, 3, PullOutcome.MOVED),
        (GetStatus.NO_MESSAGE_IN_QUEUE, 0, PullOutcome.NOTHING_NEW),
        (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, PullOutcome.NOTHING_NEW),
    ):
        harness.store.status = status
        pulled = harness.puller.pull(query(queue_offset=at))
        assert (status, pulled.outcome) == (status, outcome)


def test_the_wait_is_what_was_asked_for_within_the_limit() -> None:
    """And nothing without the bit."""
    puller = Harness().puller
    assert puller.hold_ms(query(suspend_timeout_millis=400)) == 0
    assert puller.hold_ms(query(sys_flag=6, suspend_timeout_millis=400)) == 400
    assert puller.hold_ms(query(sys_flag=6, suspend_timeout_millis=600)) == 500
    assert puller.hold_ms(query(sys_flag=6, suspend_timeout_millis=-1)) == 0


def test_groups_and_topics_can_forbid() -> None:
    """Each refusal says who; a subscription in the request passes over two of them."""
    harness = Harness()
    harness.beat(BROADCASTING)

    def kind(**changes: Any) -> Forbidden:
        with pytest.raises(PullForbidden) as refused:
            harness.puller.pull(query(**changes))
        assert refused.value.why is Refusal.NO_PERMISSION
        return refused.value.kind

    harness.groups.forbid("g", "T", is_readable=False)
    assert kind(sys_flag=0) is Forbidden.GROUP_FOR_TOPIC
    harness.change_group(consume_broadcast_enable=False)
    assert kind(sys_flag=0) is Forbidden.BROADCAST
    assert harness.puller.pull(query()).outcome is PullOutcome.FOUND
    harness.topics.put(TopicConfig(name="T", read_queues=2, perm=2))
    assert kind() is Forbidden.TOPIC
    harness.change_group(consume_enable=False)
    assert kind() is Forbidden.GROUP
    harness.topics.use(TopicSettings(permission=2))
    assert kind() is Forbidden.BROKER
    assert kind(consumer_group="new") is Forbidden.BROKER
    assert harness.groups.get("new") is None


Change = Callable[[Harness], object]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda harness: harness.topics.put(TopicConfig(name="T", read_queues=2, perm=2)),
            Refusal.NO_PERMISSION,
        ),
        (
            lambda harness: harness.topics.put(TopicConfig(name="T", read_queues=1)),
            Refusal.INVALID_ARGUMENT,
        ),
        (lambda harness: harness.topics.remove("T"), Refusal.NO_TOPIC),
        (lambda harness: harness.topics.use(TopicSettings(permission=2)), Refusal.NO_PERMISSION),
        (lambda harness: harness.change_group(consume_enable=False), Refusal.NO_PERMISSION),
        (lambda harness: harness.groups.forbid("g", "T", is_readable=False), Refusal.NO_PERMISSION),
        (lambda harness: harness.members.drop(harness.link), Refusal.NO_SUBSCRIPTION),
        (lambda harness: harness.beat("CLUSTERING", topic="other"), Refusal.NO_SUBSCRIPTION),
    ],
)
def test_what_may_be_pulled_is_not_remembered_beyond_a_change(change: Change, why: Refusal) -> None:
    """Whichever table it is in: the pull after it is refused, and passes once it is undone."""
    harness = Harness()
    harness.beat("CLUSTERING")
    wanted = query(queue_id=1, sys_flag=0, sub_version=5)
    assert (
        harness.puller.pull(wanted).outcome
        is harness.puller.pull(wanted).outcome
        is PullOutcome.FOUND
    )
    change(harness)
    with pytest.raises(Refused) as refused:
        harness.puller.pull(wanted)
    assert refused.value.why is why


@pytest.mark.parametrize(
    "changes",
    [
        {"subscription": "c"},
        {"queue_id": 2},
        {"expression_type": "SQL92"},
        {"sys_flag": 0},
        {"topic": "none"},
    ],
)
def test_what_one_pull_may_says_nothing_of_another(changes: dict[str, Any]) -> None:
    """Each part of a request that a check looks at counts."""
    harness = Harness()
    harness.puller.pull(query())  # it makes group g
    known = harness.puller.pull(query()).permit
    assert harness.puller.pull(query()).permit is known
    try:
        other = harness.puller.pull(query(**changes)).permit
    except Refused:
        return
    assert other.wanted == filters.parse("c")


def test_permits_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for more and more has older ones forgotten."""
    monkeypatch.setattr(pull, "PERMITS_MAX", 3)
    harness = Harness()
    harness.puller.pull(query())
    first = harness.puller.pull(query()).permit
    for number in range(2):
        harness.puller.pull(query(subscription=str(number)))
    assert harness.puller.pull(query()).permit is not first


def test_what_is_long_is_not_remembered() -> None:
    """Some thousand subscriptions of a megabyte each would fill the memory."""
    harness = Harness()
    harness.puller.pull(query())
    for characters, is_known in ((pull.PERMIT_CHARACTERS_MAX, True), (1 << 20, False)):
        wanted = query(subscription=characters * "t")
        first = harness.puller.pull(wanted).permit
        assert (harness.puller.pull(wanted).permit is first) is is_known


def test_only_the_first_pass_commits() -> None:
    """A pull that waited said where it was when it began."""
    harness = Harness()
    harness.puller.pull(query(sys_flag=5, commit_offset=2), is_first=False)
    assert harness.offsets.get("g", "T", 0) is None
    harness.puller.pull(query(sys_flag=5, commit_offset=2))
    assert harness.offsets.get("g", "T", 0) == 2


def test_an_old_subscription_is_refused() -> None:
    """The client made a newer one than its heartbeats brought."""
    harness = Harness()
    harness.beat("CLUSTERING")
    with pytest.raises(Refused) as refused:
        harness.puller.pull(query(sys_flag=0, sub_version=6))
    assert refused.value.why is Refusal.OLD_SUBSCRIPTION


def test_a_reset_is_told_once() -> None:
    """Instead of what was asked for; also to a pull that waited."""
    for is_first in (True, False):
        harness = Harness()
        harness.offsets.reset("g", "T", 0, 2)
        pulled = harness.puller.pull(query(sys_flag=5, commit_offset=9), is_first=is_first)
        assert (pulled.outcome, pulled.result.next_offset) == (PullOutcome.MOVED, 2)
        assert (pulled.result.status, harness.store.asked) == (GetStatus.OFFSET_RESET, {})
        assert harness.offsets.get("g", "T", 0) == 2
        assert harness.puller.pull(query()).outcome is PullOutcome.FOUND


def test_a_pull_is_answered_though_its_commit_finds_no_space() -> None:
    """The commit counts in memory, as RocketMQ's do."""
    harness = Harness()
    harness.groups.find("g")
    harness.disk.is_full = True
    pulled = harness.puller.pull(query(sys_flag=4 | 1, commit_offset=3))
    assert (pulled.outcome, pulled.result.next_offset) == (PullOutcome.FOUND, 9)
    assert harness.offsets.get("g", "T", 0) == 3


@pytest.mark.parametrize("is_anew", [False, True])
def test_who_is_behind_the_end_of_a_topic_made_anew_begins_again(is_anew: bool) -> None:
    """And commits nothing of what it had of the old one; else it is sent to the end."""
    harness = Harness()
    harness.store.status = GetStatus.OFFSET_OVERFLOW_BADLY
    harness.store.made_anew = {"T"} if is_anew else set()
    pulled = harness.puller.pull(query(queue_offset=12, sys_flag=5, commit_offset=12))
    assert (pulled.outcome, pulled.result.next_offset) == (PullOutcome.MOVED, 0 if is_anew else 9)
    assert harness.offsets.get("g", "T", 0) == (None if is_anew else 12)
