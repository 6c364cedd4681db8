"""The conditions of groups: which heartbeat changes one, and the file that RocketMQ reads."""

import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.timers import FakeTimers

from sprocket.base.clock import LogClock
from sprocket.base.disk import read_file, replace_file, steps
from sprocket.base.errors import DiskFailed
from sprocket.base.place import Place
from sprocket.rocketmq.broker.filters import (
    FilterRules,
    FilterTurns,
    MessageBits,
    SqlFilters,
    filter_rules,
    filter_turns,
    message_bits,
)
from sprocket.rocketmq.codec.config import FilterRule
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.settings import PullSettings, StoreSettings
from sprocket.rocketmq.store.queue import GroupFilter
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FILE = "/s/config/consumerFilter.json"
KEEP_MS = 5000
RECORDED = Path("tests/data/rocketmq-5.3.3/10b-cq-ext-sql/store.tar.xz")


class Harness:
    """The rules of a store."""

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        clock: FakeClock | None = None,
        *,
        is_certain: bool = True,
        **settings: Any,
    ) -> None:
        self.disk, self.clock = disk or SimulatedDisk(), clock or FakeClock()
        if disk is None:
            self.disk.make_folder("/s/config")
        self.timers = FakeTimers(self.clock)
        self.turns = turns = FilterTurns(self.timers)
        self.subscriptions: dict[str, Sequence[GroupFilter]] = {}
        self.rules = FilterRules(
            Place(self.disk, "/s", self.clock),
            LogClock(self.clock),
            SqlFilters(turns),
            turns,
            PullSettings(sql_keep_ms=KEEP_MS),
            MessageBits(StoreSettings(**settings), self.subscriptions, is_certain=is_certain),
        )

    def beat(self, text: str, version: int, topic: str = "T") -> None:
        """Have group g subscribe to one topic."""
        found = Subscription.parse(topic, text, type="SQL92", version=version)
        self.rules.subscribed("g", [found])

    def flush(self) -> None:
        """Write the file."""
        steps.run(self.rules.flush_steps())

    def again(self, **settings: Any) -> "Harness":
        """Return the rules as they are after a kill, a minute later."""
        self.clock.advance(60_000)
        return Harness(self.disk.kill(), self.clock, **settings)

    @property
    def rule(self) -> FilterRule:
        """That of group g for topic T."""
        found = self.rules.get("T", "g")
        assert found is not None
        return found


def recorded() -> bytes:
    """Return the file that a real 5.3.3 wrote."""
    with tarfile.open(RECORDED) as archive:
        name = next(one for one in archive.getnames() if one.endswith("consumerFilter.json"))
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


def test_a_heartbeat_brings_a_rule() -> None:
    """With the time since when messages are tried on it, and the bits that it owns."""
    harness = Harness()
    harness.beat("a > 5", 7)
    rule = harness.rule
    assert (rule.expression, rule.expression_type, rule.client_version) == ("a > 5", "SQL92", 7)
    assert (rule.born_time, rule.dead_time) == (harness.clock.now_ms(), 0)
    assert (rule.bits.bits, len(rule.bits.positions)) == (112, 3)
    harness.rules.subscribed("h", [Subscription.parse("T", "a || b", version=8)])
    assert harness.rules.get("T", "h") is None


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("a > 6", 6, ("a > 5", 7, 0)),  # older
        ("a > 6", 7, ("a > 5", 7, 0)),  # as old
        ("a > 5", 8, ("a > 5", 8, 0)),  # the same condition, so it is as old as it was
        ("a > 6", 8, ("a > 6", 8, 1)),
    ],
)
def test_a_later_subscription_replaces_an_older(
    text: str, version: int, expected: tuple[str, int, int]
) -> None:
    """And is born anew only if it says something else."""
    harness = Harness()
    harness.beat("a > 5", 7)
    born = harness.clock.now_ms()
    harness.clock.advance(1)
    harness.beat(text, version)
    rule = harness.rule
    assert (rule.expression, rule.client_version, rule.born_time - born) == expected


def test_a_condition_that_cannot_be_compiled_is_none() -> None:
    """Nor does the one before it stay: the group does not want that any more."""
    harness = Harness()
    harness.beat("a >", 1)
    assert harness.rules.get("T", "g") is None
    harness.beat("a > 5", 2)
    harness.beat("a >", 3)
    assert harness.rules.get("T", "g") is None


def test_a_group_that_is_gone_has_its_rule_for_a_while() -> None:
    """A heartbeat of the same version brings it back as it was; for how long is a setting."""
    harness = Harness()
    harness.beat("a > 5", 7)
    born = harness.rule.born_time
    harness.clock.advance(5)
    harness.rules.deserted("g")
    assert harness.rule.dead_time == harness.clock.now_ms()
    harness.beat("a > 5", 7)
    assert (harness.rule.dead_time, harness.rule.born_time) == (0, born)
    harness.beat("a > 5", 7, topic="U")
    assert harness.rule.is_dead  # what it does not name it does not want
    harness.clock.advance(KEEP_MS - 1)
    harness.flush()
    assert harness.rule.is_dead
    harness.clock.advance(1)
    harness.flush()
    assert harness.rules.get("T", "g") is None
    assert harness.rules.get("U", "g") is not None
    harness.rules.deserted("g")
    harness.rules.use(PullSettings(sql_keep_ms=0))
    harness.flush()
    assert harness.rules.get("U", "g") is None


def test_rules_outlive_the_broker() -> None:
    """Dead until the group's next heartbeat, some time before now."""
    harness = Harness()
    harness.beat("a > 5", 7)
    harness.flush()
    again = harness.again()
    gone = again.clock.now_ms() - filter_rules.RESTART_MS
    assert (again.rule.expression, again.rule.dead_time) == ("a > 5", gone)
    again.beat("a > 5", 7)
    assert (again.rule.dead_time, again.rule.born_time) == (0, harness.rule.born_time)


def test_the_file_is_as_rocketmqs() -> None:
    """Byte for byte, but for the rule that a heartbeat has brought back."""
    disk, theirs = SimulatedDisk(), recorded()
    disk.make_folder("/s/config")
    replace_file(disk, FILE, theirs)
    harness = Harness(disk)
    rule = harness.rules.get("Sql", "Sql_g0")
    assert rule is not None
    assert list(rule.bits.positions) == [0, 104, 96]
    sub = Subscription.parse("Sql", rule.expression, type="SQL92", version=rule.client_version)
    harness.rules.subscribed("Sql_g0", [sub])
    harness.flush()
    expected = theirs.replace(b"%d" % rule.dead_time, b"0")
    before, after = expected.rsplit(b'"dead":true', 1)
    assert read_file(disk, FILE) == before + b'"dead":false' + after


def test_bits_of_another_size_are_not_read() -> None:
    """As RocketMQ does after its settings have changed: groups bring their conditions again."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    replace_file(disk, FILE, recorded().replace(b"112", b"104", 1))
    assert Harness(disk).rules.get("Sql", "Sql_g0") is None


def test_a_file_that_cannot_be_written_is_tried_again() -> None:
    """Nothing is forgotten."""
    harness = Harness()
    harness.beat("a > 5", 7)
    harness.disk.fail("sync", 1)
    with pytest.raises(DiskFailed):
        harness.flush()
    harness.flush()
    assert harness.again().rule.expression == "a > 5"


def test_long_conditions_are_taken_in_one_after_the_other() -> None:
    """A heartbeat with many does not hold the loop."""
    harness = Harness()
    texts = [f"a = {number} OR{' ' * 9000}b = 1" for number in range(4)]
    wanted = [
        Subscription.parse(f"T{number}", text, type="SQL92") for number, text in enumerate(texts)
    ]
    harness.rules.subscribed("g", wanted)
    counts = []
    for _ in range(5):
        counts.append(sum(harness.rules.get(f"T{n}", "g") is not None for n in range(4)))
        harness.timers.turn()
    assert counts[0] < counts[1] < counts[-1] == 4


def test_messages_are_tried_on_all_rules_of_their_topic() -> None:
    """On dead ones as well, or, if there are too many or too long ones, on none."""
    harness = Harness(filter_bits=True, extended_units=True, filter_bits_groups=2)
    harness.beat("a > 5", 7)
    (tried,) = harness.subscriptions["T"]
    assert tried.positions == tuple(harness.rule.bits.positions)
    assert [tried.passes({"a": number}) for number in ("5", "6")] == [False, True]
    harness.rules.subscribed("h", [Subscription.parse("T", "b = 1", type="SQL92")])
    harness.rules.deserted("g")
    assert len(harness.subscriptions["T"]) == 2
    harness.rules.subscribed("i", [Subscription.parse("T", "b = 1", type="SQL92")])
    assert "T" not in harness.subscriptions
    harness.clock.advance(KEEP_MS)
    harness.flush()
    assert len(harness.subscriptions["T"]) == 2
    harness.rules.subscribed("h", [Subscription.parse("T", "b >", type="SQL92", version=1)])
    assert len(harness.subscriptions["T"]) == 1
    long = f"b = 1 AND{' ' * message_bits.TRIED_CHARACTERS_MAX}c = 1"
    harness.rules.subscribed("i", [Subscription.parse("T", long, type="SQL92", version=1)])
    assert "T" not in harness.subscriptions


def test_no_maps_are_kept_where_units_have_no_room() -> None:
    """Trying would be for nothing."""
    harness = Harness(filter_bits=True)
    harness.beat("a > 5", 7)
    assert not harness.subscriptions
    assert harness.rules.bits(harness.rule) is None


@pytest.mark.parametrize("is_certain", [True, False])
def test_after_a_kill_rules_begin_anew(is_certain: bool) -> None:
    """The group may have had another condition when the last messages were tried on it."""
    harness = Harness()
    harness.beat("a > 5", 7)
    harness.flush()
    again = harness.again(is_certain=is_certain, filter_bits=True, extended_units=True)
    expected = harness.rule.born_time if is_certain else again.clock.now_ms()
    assert (again.rule.born_time, again.rule.is_dead) == (expected, True)
    again.beat("a > 5", 7)
    bits = again.rules.bits(again.rule)
    assert bits is not None
    assert (bits.since_ms, bits.map_bytes) == (expected, 14)
    assert len(again.subscriptions["T"]) == 1


def test_a_rule_is_younger_than_all_messages_before_it() -> None:
    """By the clock that gives these their times, which the wall clock may have fallen behind."""
    harness = Harness()
    newest = harness.clock.now_ms() + 50_000
    turns = harness.turns
    rules = FilterRules(
        Place(harness.disk, "/s", harness.clock),
        LogClock(harness.clock, newest),
        SqlFilters(turns),
        turns,
        PullSettings(),
        MessageBits(StoreSettings(), {}, is_certain=True),
    )
    rules.subscribed("g", [Subscription.parse("T", "a > 5", type="SQL92", version=7)])
    rules.deserted("g")
    rule = rules.get("T", "g")
    assert rule is not None
    assert rule.born_time >= newest
    assert rule.is_dead


@pytest.mark.parametrize("leaves", [True, False])
def test_a_condition_that_waited_may_have_come_too_late(leaves: bool) -> None:
    """Its group has gone, or given up the topic, before its turn to be compiled came."""
    harness = Harness()
    harness.turns.charge(filter_turns.COST_PER_TURN)
    harness.beat("a > 5", 7)
    if leaves:
        harness.rules.deserted("g")
    else:
        harness.rules.subscribed("g", [])
    harness.timers.turn()
    assert harness.rules.get("T", "g") is None


def test_rules_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are there stay, and may change."""
    monkeypatch.setattr(filter_rules, "RULES_MAX", 1)
    harness = Harness()
    harness.beat("a > 5", 7)
    harness.beat("a > 5", 7, topic="U")
    assert harness.rules.get("U", "g") is None
    harness.beat("a > 6", 8)
    assert harness.rule.expression == "a > 6"
