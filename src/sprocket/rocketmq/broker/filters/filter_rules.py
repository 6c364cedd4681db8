"""The conditions by which groups choose messages, in `config/consumerFilter.json`.

Heartbeats bring them. A rule remembers since when a group has it: messages that are older were not
tried on it. It stays for a day after the group has gone, so that a restart of its members changes
nothing.

If the store keeps bit maps (`message_bits`), it tries each message on the rules of its topic when
it gets its unit, also on dead ones, as their groups may come back. The rules are read after the
store was opened: what recovery puts again has no map, and is read by all.

Invariants

1. A rule is replaced only by one of a later subscription; one whose condition cannot be compiled
   replaces the older with nothing.
2. A rule that was read from the file is dead until its group's next heartbeat.
3. A condition that waits to be compiled is taken in only if its group still wants it then.

Source: RocketMQ `ConsumerFilterManager`.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from msgspec import structs

from sprocket.base import log
from sprocket.base.clock import LogClock
from sprocket.base.disk import Steps
from sprocket.base.place import Place
from sprocket.rocketmq.broker.filters.filter_turns import FilterTurns
from sprocket.rocketmq.broker.filters.message_bits import MessageBits
from sprocket.rocketmq.broker.filters.sql_filters import SqlFilters
from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.codec.config import (
    FilterBits,
    FilterRule,
    JsonObject,
    declared,
    fastjson,
    tables,
)
from sprocket.rocketmq.errors import ExpressionIllegal
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.model.group import SQL92, Subscription
from sprocket.rocketmq.settings import PullSettings
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout

_log = log.get_limited_logger(__name__)

RESTART_MS = 30_000
"""A group whose rule was read from the file is taken to have gone so long ago, as in RocketMQ."""
RULES_MAX = 10_000
"""Rules of all topics; each has up to 16 KiB of text, in memory and in the file."""


class FilterRules:
    """The rules by topic and group.

    Args:
        place: Where the file is.
        log_clock: The clock of the store's messages.
        filters: Compiles conditions.
        turns: When it may.
        settings: For how long a rule is kept.
        bits: Is told of all rules.

    Attributes:
        changes: Rises when a rule comes, goes or is replaced.

    Threads: event loop only.
    Durability: a rule is in the file some seconds after it came; one that is lost comes again with
        the next heartbeat.
    """

    def __init__(
        self,
        place: Place,
        log_clock: LogClock,
        filters: SqlFilters,
        turns: FilterTurns,
        settings: PullSettings,
        bits: MessageBits,
    ) -> None:
        self._clock = log_clock
        self._filters = filters
        self._turns = turns
        self._keep_ms = settings.sql_keep_ms
        self._bits = bits
        self._bloom = bits.bloom
        self._rules: dict[str, dict[str, FilterRule]] = {}
        self._topics_of: dict[str, set[str]] = {}
        self._wanted: dict[str, set[str]] = {}
        self._count = 0
        self._has_changed = self._is_being_written = False
        self.changes = 0
        self._file = ConfigFile(place.disk, StoreLayout(place.folder).consumer_filters)
        self._file.load(fastjson.Members, self._interpret)

    def use(self, settings: PullSettings) -> None:
        """Change how long a rule is kept."""
        self._keep_ms = settings.sql_keep_ms

    def get(self, topic: str, group: str) -> FilterRule | None:
        """Return the rule of a group, None if it has none for the topic."""
        return self._rules.get(topic, {}).get(group)

    def of_group(self, group: str) -> list[FilterRule]:
        """Return all rules of a group."""
        return [self._rules[topic][group] for topic in self._topics_of.get(group, ())]

    def bits(self, rule: FilterRule) -> OwnedBits | None:
        """Return which bits of a message's map say that it does not pass a rule."""
        return self._bits.of(rule)

    def text(self, topic: str, group: str) -> str:
        """Return what the file has of a group's rule; `null` if it has none for the topic."""
        rule = self.get(topic, group)
        return "null" if rule is None else fastjson.write(_members(rule)).decode()

    def subscribed(self, group: str, subscriptions: Iterable[Subscription]) -> None:
        """Note what a heartbeat says of a group: all that its members want."""
        subscriptions = list(subscriptions)
        self._wanted[group] = {one.topic for one in subscriptions}
        for subscription in subscriptions:
            if subscription.type == SQL92:
                self._turns.run(
                    partial(self._register, group, subscription), partial(_not_registered, group)
                )
        for topic in self._topics_of.get(group, set()) - self._wanted[group]:
            self._bury(topic, group)

    def deserted(self, group: str) -> None:
        """Note that the last member of a group has gone."""
        self._wanted.pop(group, None)
        for topic in self._topics_of.get(group, ()):
            self._bury(topic, group)

    def flush_steps(self) -> Steps:
        """Forget rules that have been dead for long, and write the file if anything has changed.

        Raises:
            DiskFull, DiskFailed: The old file is there; the next call tries again.
        """
        oldest = self._clock.now_ms() - self._keep_ms
        for topic, rules in list(self._rules.items()):
            for group, rule in list(rules.items()):
                if rule.is_dead and rule.dead_time <= oldest:
                    self._remove(topic, group)
        if not self._has_changed or self._is_being_written:
            return
        self._has_changed, self._is_being_written = False, True
        try:
            yield from self._file.replace_steps({"filterDataByTopic": self._entries()})
        except BaseException:
            self._has_changed = True
            raise
        finally:
            self._is_being_written = False

    def _register(self, group: str, subscription: Subscription) -> None:
        """Take in a condition. Raises TurnSpent."""
        topic, text, version = subscription.topic, subscription.expression, subscription.version
        if topic not in self._wanted.get(group, ()):
            return
        known = self.get(topic, group)
        if known is not None and version <= known.client_version:
            if version == known.client_version and known.is_dead:
                self._put(structs.replace(known, dead_time=0))
            return
        bits = FilterBits(self._bloom.bits, list(self._bloom.positions(group, topic)))
        if known is not None and (known.expression, known.bits) == (text, bits):
            self._put(structs.replace(known, client_version=version, dead_time=0))
            return
        try:
            self._filters.compile(text)
        except ExpressionIllegal as illegal:
            _log.warning(
                "a condition cannot be compiled", group=group, topic=topic, why=str(illegal)
            )
            if known is not None:
                self._remove(topic, group)
            return
        if known is None and self._count >= RULES_MAX:
            _log.warning("too many conditions; one is not taken in", group=group, topic=topic)
            return
        self._put(
            FilterRule(
                bits=bits,
                born_time=self._clock.now_ms(),
                client_version=version,
                consumer_group=group,
                expression=text,
                expression_type=subscription.type,
                topic=topic,
            )
        )

    def _bury(self, topic: str, group: str) -> None:
        rule = self._rules[topic][group]
        if not rule.is_dead:
            self._put(structs.replace(rule, dead_time=self._clock.now_ms()))

    def _put(self, rule: FilterRule) -> None:
        rules = self._rules.setdefault(rule.topic, {})
        known = rules.get(rule.consumer_group)
        self._count += known is None
        rules[rule.consumer_group] = rule
        self._topics_of.setdefault(rule.consumer_group, set()).add(rule.topic)
        if known is None or known.expression != rule.expression:
            self._bits.note(rule.topic, rules.values())
        self._changed()

    def _remove(self, topic: str, group: str) -> None:
        del self._rules[topic][group]
        self._topics_of[group].discard(topic)
        self._count -= 1
        self._bits.note(topic, self._rules[topic].values())
        if not self._rules[topic]:
            del self._rules[topic]
        if not self._topics_of[group]:
            del self._topics_of[group]
        self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self._has_changed = True

    def _entries(self) -> Iterator[str]:
        for topic, rules in list(self._rules.items()):
            groups = {group: _members(rule) for group, rule in rules.items()}
            yield fastjson.entry(topic, {"groupFilterData": groups, "topic": topic})

    def _interpret(self, content: JsonObject) -> None:
        """Take in what the file says; nothing if its bits are of another size, as in RocketMQ."""
        found = declared.read(tables.FilterRuleTable, content, "filters")
        rules = [rule for topic in found.topics.values() for rule in topic.rules.values()]
        now_ms = self._clock.now_ms()
        for rule in rules:
            size = Bloom(len(rule.bits.positions), rule.bits.bits)
            if size != self._bloom:
                _log.warning("conditions of groups with bits of another size are not read")
                return
        for rule in rules:
            # Else the group may have had another condition at the end.
            born_time = rule.born_time if self._bits.is_certain else now_ms
            dead_time = max(rule.dead_time or now_ms - RESTART_MS, born_time)
            self._put(structs.replace(rule, born_time=born_time, dead_time=dead_time))
        self._has_changed = not self._bits.is_certain


def _members(rule: FilterRule) -> JsonObject:
    """Return what the file has of a rule, in the order of RocketMQ's."""
    return dict(sorted({**declared.plain(rule), "dead": rule.is_dead}.items()))


def _not_registered(group: str, error: Exception) -> None:
    _log.warning("a condition was not taken in", group=group, why=str(error))
