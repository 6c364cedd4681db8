"""The bit maps of messages: what a store tries messages on when they get their units.

Invariants

1. A topic has all of its rules in `subscriptions`, or none: a map in which a rule is missing would
   say that a message does not pass it.
2. Whoever has a rule looks at the maps only of messages that are younger than it, and a rule is
   younger than every message that was not tried on it, by the clock of the store.

Source: RocketMQ `CommitLogDispatcherCalcBitMap`, which tries any number of rules.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.codec.config import FilterRule
from sprocket.rocketmq.errors import ExpressionIllegal
from sprocket.rocketmq.filter import compile_sql
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.queue import GroupFilter

TRIED_CHARACTERS_MAX = 4096
"""What the conditions of a topic may have together, if each message is to be tried on all of them:
some 0.3 ms in the worst case."""


class MessageBits:
    """Tells a store the rules of topics.

    Args:
        settings: Whether it keeps bit maps, and of which size.
        subscriptions: What it looks at.
        is_certain: The store was closed, so that the file of rules is as young as the maps are.

    Attributes:
        bloom: The size of a map.
        is_certain: As given.
    """

    def __init__(
        self,
        settings: StoreSettings,
        subscriptions: dict[str, Sequence[GroupFilter]],
        *,
        is_certain: bool,
    ) -> None:
        self.bloom = Bloom.of(settings.filter_bits_error_percent, settings.filter_bits_groups)
        self.is_certain = is_certain
        self._is_on = settings.filter_bits and settings.extended_units
        self._rules_max = settings.filter_bits_groups
        self._subscriptions = subscriptions

    def note(self, topic: str, rules: Collection[FilterRule]) -> None:
        """Note that these are all rules of a topic, from now on."""
        is_few = 0 < len(rules) <= self._rules_max
        is_short = is_few and sum(len(one.expression) for one in rules) <= TRIED_CHARACTERS_MAX
        if self._is_on and is_short:
            self._subscriptions[topic] = [
                GroupFilter(tuple(one.bits.positions), _Condition(one.expression)) for one in rules
            ]
        else:
            self._subscriptions.pop(topic, None)

    def of(self, rule: FilterRule) -> OwnedBits | None:
        """Return which bits of a map say that its message does not pass a rule."""
        if not self._is_on:
            return None
        return OwnedBits(tuple(rule.bits.positions), self.bloom.bits // 8, rule.born_time)


class _Condition:
    """A condition that is compiled when the first message is tried on it."""

    __slots__ = ("_matches", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._matches: Callable[[Mapping[str, str]], bool] | None = None

    def __call__(self, properties: Mapping[str, str]) -> bool:
        """Say whether a message with these properties passes; none does if it cannot be read."""
        if self._matches is None:
            try:
                self._matches = compile_sql(self._text).matches
            except ExpressionIllegal:
                self._matches = _none
        return self._matches(properties)


def _none(_: Mapping[str, str]) -> bool:
    return False
