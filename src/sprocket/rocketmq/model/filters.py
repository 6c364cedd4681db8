"""Which messages of a topic a consumer wants: one value, from its subscription to a queue's reader.

A filter is asked twice. `by_unit` looks at what a queue's unit holds, so that a message that is not
wanted is not read from the log. `by_properties` decides. A broker asks the latter only of a filter
that has a cost: two tags may have one hash, but consumers compare the tags that they get. No filter
(None) lets every message pass.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from sprocket.rocketmq.filter import PropertyTest, SqlFilter
from sprocket.rocketmq.model.hashes import hash32

ALL = "*"
"""The expression that wants every message."""


class Sql(Struct, frozen=True):
    """A condition on the properties of messages, in the place of tags: `Sql("amount > 100")`.

    The broker evaluates it, and may be told not to (`pull.sql_filters`, `enablePropertyFilter`).

    Attributes:
        text: SQL92, as `docs/formats/sql92-filters.md` describes it.
    """

    text: str


class OwnedBits(Struct, frozen=True):
    """The bits of a message's map that say whether it may pass a group's condition.

    Attributes:
        positions: Their numbers.
        map_bytes: The length of a map.
        since_ms: Up to then, ms since 1970, messages were not tried on the condition.

    A message does not pass if it is younger, its map is of this length, and one of the bits is not
    set. Source: RocketMQ `ExpressionMessageFilter.isMatchedByConsumeQueue`.
    """

    positions: tuple[int, ...]
    map_bytes: int
    since_ms: int


class MessageFilter(Protocol):
    """What says which messages are wanted."""

    @property
    def names(self) -> frozenset[str]:
        """The properties that `by_properties` looks at."""

    @property
    def cost(self) -> int:
        """What `by_properties` costs: some 0.2 µs each; 0 if units say enough for a broker."""

    @property
    def bits(self) -> OwnedBits | None:
        """Which bits of an extended unit say that its message does not pass; None if none do."""

    @property
    def tests(self) -> Sequence[PropertyTest]:
        """What single properties have to be for a message to pass; see `SqlFilter`."""

    @property
    def is_tested(self) -> bool:
        """Whether a message passes if all tests say so."""

    def __hash__(self) -> int:
        """Tell filters apart."""

    def by_unit(self, code: int, /) -> bool:
        """Say whether a message may be wanted whose unit has this code."""

    def by_hashes(self, codes: Iterable[int], /) -> bool:
        """Say whether one of some new messages may be wanted, by the hashes of their tags."""

    def by_properties(self, properties: Mapping[str, str], /) -> bool:
        """Say whether a message with these properties is wanted."""


class TagFilter(Struct, frozen=True):
    """Messages that have one of some tags.

    Attributes:
        tags: The tags, sorted.
        codes: Their hashes, as queue units hold them.
    """

    tags: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Tags are a property."""
        return _TAGS

    @property
    def cost(self) -> int:
        """Units hold the hashes."""
        return 0

    @property
    def bits(self) -> OwnedBits | None:
        """There are none for tags."""

    @property
    def tests(self) -> Sequence[PropertyTest]:
        """None: their hashes are in the units."""
        return ()

    @property
    def is_tested(self) -> bool:
        """Without tests it is not."""
        return False

    def by_unit(self, code: int) -> bool:
        """See `MessageFilter`. Hashes are compared by their low 32 bits, as Java's `(int)` does.

        Source: RocketMQ `ExpressionMessageFilter.isMatchedByConsumeQueue`.
        """
        if not -0x8000_0000 <= code < 0x8000_0000:
            code = ((code + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
        return code in self.codes

    def by_hashes(self, codes: Iterable[int]) -> bool:
        """See `MessageFilter`."""
        return not self.codes.isdisjoint(codes)

    def by_properties(self, properties: Mapping[str, str]) -> bool:
        """See `MessageFilter`."""
        return properties.get("TAGS") in self.tags


_TAGS = frozenset({"TAGS"})


class PropertyFilter(Struct, frozen=True, eq=False):
    """Messages whose properties pass an expression of SQL92; their units say nothing of that.

    Attributes:
        names: See `MessageFilter`.
        cost: See `MessageFilter`.
        by_properties: See `MessageFilter`.
        tests: See `MessageFilter`.
        is_tested: See `MessageFilter`.
        bits: See `MessageFilter`.
    """

    names: frozenset[str]
    cost: int
    by_properties: Callable[[Mapping[str, str]], bool]
    tests: tuple[PropertyTest, ...] = ()
    is_tested: bool = False
    bits: OwnedBits | None = None

    @classmethod
    def of(cls, compiled: SqlFilter) -> "PropertyFilter":
        """Return the filter that a compiled expression is."""
        one = compiled
        return cls(one.names, one.cost, one.matches, one.tests, one.is_tested)

    def by_unit(self, _code: int) -> bool:
        """Let every unit pass."""
        return True

    def by_hashes(self, _codes: Iterable[int]) -> bool:
        """Let every message pass."""
        return True


class RetryFilter(Struct, frozen=True, eq=False):
    """Messages that come again, if they pass the condition that is for the topic where they were.

    Attributes:
        by_topic: The conditions; what is of another topic passes.
        names: See `MessageFilter`.
        cost: See `MessageFilter`.
        tests: The condition depends on the message.
        is_tested: See `MessageFilter`.
        bits: Maps are made for the topic where a message lies.
    """

    by_topic: Mapping[str, PropertyFilter]
    names: frozenset[str]
    cost: int
    tests: tuple[PropertyTest, ...] = ()
    is_tested: bool = False
    bits: None = None

    @classmethod
    def of(cls, by_topic: Mapping[str, PropertyFilter]) -> "RetryFilter":
        """Return the filter for some topics, one at least."""
        filters = by_topic.values()
        names = frozenset[str]().union(_RETRY_TOPIC, *[one.names for one in filters])
        return cls(by_topic, names, 1 + max(one.cost for one in filters))

    def by_unit(self, _code: int) -> bool:
        """Let every unit pass."""
        return True

    def by_hashes(self, _codes: Iterable[int]) -> bool:
        """Let every message pass."""
        return True

    def by_properties(self, properties: Mapping[str, str]) -> bool:
        """See `MessageFilter`."""
        wanted = self.by_topic.get(properties.get("RETRY_TOPIC", ""))
        return wanted is None or wanted.by_properties(properties)


_RETRY_TOPIC = frozenset({"RETRY_TOPIC"})


def parse(expression: str) -> TagFilter | None:
    """Read tags with `||` between them; None for `*`, which wants every message.

    Source: RocketMQ `FilterAPI.buildSubscriptionData`.
    """
    if expression == ALL:
        return None
    tags = sorted({tag.strip() for tag in expression.split("||")} - {""})
    return TagFilter(tuple(tags), frozenset(map(hash32, tags)))
