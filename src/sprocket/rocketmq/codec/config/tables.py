"""Tables of topics and groups as JSON: bodies on the wire, and the broker's own files.

The members of `TopicConfig` and `SubscriptionGroupConfig` are the same in both places, so they are
told here once. Source: the Java classes of these names, 5.3.3.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar

from msgspec import Struct, field

from sprocket.rocketmq.codec.config import declared, fastjson, values
from sprocket.rocketmq.model.group import PULL, SubscriptionGroup
from sprocket.rocketmq.model.topic import TopicConfig

S = TypeVar("S", bound=Struct)

SEQUENCE = "sprocketSequence"
"""Our member of a table's file: up to which line it covers the table's journal."""


def covered_by(content: Mapping[str, Any]) -> int | None:
    """Return up to which line a table's file covers the journal; None if the journal is void.

    RocketMQ passes over our member and does not write it: a journal is older than a file of its.
    """
    if not content:
        return 0
    covered = content.get(SEQUENCE)
    return covered if isinstance(covered, int) else None


class DataVersion(Struct, frozen=True, rename="camel"):
    """The version of a table that is kept in several places; it rises with each change.

    Attributes:
        counter: Changes since the table was made.
        timestamp: When it changed last, ms since 1970.
        state_version: The term of the writer, where there are terms.
    """

    counter: int
    timestamp: int
    state_version: int = 0

    @classmethod
    def new(cls, now_ms: int) -> "DataVersion":
        """Return the first version of a table."""
        return cls(counter=0, timestamp=now_ms)

    @classmethod
    def from_json(cls, value: Any, now_ms: int) -> "DataVersion":
        """Read a version; what is missing takes its default. Raises WireError."""
        return declared.read(cls, value, "dataVersion", timestamp=now_ms)

    def next(self, now_ms: int) -> "DataVersion":
        """Return the version after this one."""
        return DataVersion(self.counter + 1, now_ms, self.state_version)


class TopicTable(Struct, frozen=True, kw_only=True):
    """The answer of GET_ALL_TOPIC_CONFIG 21."""

    written: ClassVar[Mapping[str, object]] = {
        "mappingDataVersion": DataVersion.new(0),
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    version: DataVersion = field(name="dataVersion")
    topics: Annotated[Sequence[TopicConfig], declared.by_name(TopicConfig)] = field(
        name="topicConfigTable"
    )


class RequestMode(Struct, frozen=True, kw_only=True):
    """How a group gets the messages of a topic; the body of SET_MESSAGE_REQUEST_MODE 401, too."""

    what: ClassVar = "a request mode"
    group: Annotated[str, declared.REQUIRED] = field(name="consumerGroup")
    mode: str = PULL
    pop_share_queues: int = field(name="popShareQueueNum", default=0)
    topic: Annotated[str, declared.REQUIRED]


class RequestModeTable(Struct, frozen=True):
    """All modes, by topic and group, as the file and the answer of 402 have them."""

    modes: Mapping[str, Mapping[str, RequestMode]] = field(name="messageRequestModeMap")


class OrderedPop(Struct, frozen=True, kw_only=True):
    """What a group has of a queue that it consumes in order, as `consumerOrderInfo.json` has it.

    Attributes:
        attempt_id: By which attempt.
        settled: A bit for each message that is acknowledged.
        invisible_ms: For how long nobody else gets its messages.
        popped_last_at_ms: When, by the clock of the machine.
        differences: The queue offset of the first message, and how far each other one is from it.
        counts: By queue offset how often messages came before, of those that did; None in the first
            pop of a queue.
        visible_at_ms: By queue offset when messages come again for which that was changed.
        popped_at_ms: When, as handles say it.
        settled_behind: The queue offsets of messages behind all these that are acknowledged: a pop
            before had them, and this one got fewer; None without any. RocketMQ passes over it.
    """

    attempt_id: str | None = field(name="a", default=None)
    settled: int = field(name="cm", default=0)
    invisible_ms: int | None = field(name="i", default=None)
    popped_last_at_ms: int = field(name="l", default=0)
    differences: Sequence[int] = field(name="o", default=())
    counts: Mapping[int, int] | None = field(name="oc", default=None)
    visible_at_ms: Mapping[int, int] | None = field(name="ot", default=None)
    popped_at_ms: int = field(name="popTime", default=0)
    settled_behind: Sequence[int] | None = field(name="sprocketSettled", default=None)

    @property
    def offsets(self) -> list[int]:
        """The queue offsets of its messages."""
        first, *others = self.differences
        return [first, *(first + other for other in others)]

    @property
    def is_settled(self) -> bool:
        """Whether all its messages are acknowledged."""
        return self.settled == (1 << len(self.differences)) - 1

    @property
    def open_offsets(self) -> list[int]:
        """The queue offsets of those that are not."""
        return [one for bit, one in enumerate(self.offsets) if not self.settled >> bit & 1]

    @property
    def settled_offsets(self) -> list[int]:
        """The queue offsets of those that are."""
        return [one for bit, one in enumerate(self.offsets) if self.settled >> bit & 1]

    @property
    def next_offset(self) -> int:
        """Where the group goes on: at the first message that is not acknowledged."""
        open_offsets = self.open_offsets
        if open_offsets:
            return open_offsets[0]
        offset = self.offsets[-1] + 1
        while offset in (self.settled_behind or ()):
            offset += 1
        return offset


class FilterBits(Struct, frozen=True):
    """The bits of a message's map that a rule owns; see `codec.bloom`."""

    bits: int = field(name="bitNum", default=0)
    positions: Sequence[int] = field(name="bitPos", default=())


class FilterRule(Struct, frozen=True, kw_only=True, rename="camel"):
    """The condition by which a group chooses messages of a topic.

    Attributes:
        bits: Which bits of a message's map say that it passes.
        born_time: When the group gave it, ms since 1970: older messages were not tried on it.
        client_version: That of the subscription.
        consumer_group: Whose.
        dead_time: When the group went, ms since 1970; 0 while it is there.
        expression: The condition.
        expression_type: SQL92.
        topic: Of which.
    """

    what: ClassVar = "a filter"
    bits: FilterBits = field(name="bloomFilterData", default_factory=FilterBits)
    born_time: int = 0
    client_version: int = 0
    consumer_group: Annotated[str, declared.REQUIRED]
    dead_time: int = 0
    expression: str = ""
    expression_type: str = ""
    topic: Annotated[str, declared.REQUIRED]

    @property
    def is_dead(self) -> bool:
        """Whether its group is gone, as RocketMQ tells."""
        return self.dead_time >= self.born_time


class TopicFilterRules(Struct, frozen=True, kw_only=True):
    """All rules of a topic, by group."""

    rules: Mapping[str, FilterRule] = field(name="groupFilterData", default_factory=dict)
    topic: str = ""


class FilterRuleTable(Struct, frozen=True):
    """All rules by topic, as the file `consumerFilter.json` has them."""

    topics: Mapping[str, TopicFilterRules] = field(name="filterDataByTopic", default_factory=dict)


TopicLine: TypeAlias = tuple[int, int, int, dict[str, dict[str, Any] | None]]
"""A line of the journal of topics: its sequence, counter and timestamp of the table's version, and
by name the members of topics that were changed, None of those that were removed."""

GroupLine: TypeAlias = tuple[
    int, int, int, dict[str, dict[str, Any] | None], dict[str, dict[str, int]]
]
"""A line of the journal of groups: as `TopicLine`, and by group and topic bits of what the group is
forbidden, complete for each group that is named."""

OffsetLine: TypeAlias = tuple[int, str, int, int | None]
"""A line of the journal of consumer offsets: its sequence, `topic@group`, queue, offset; without an
offset all of the group in the topic is forgotten."""

DelayLine: TypeAlias = tuple[int, int, int, int]
"""A line of the journal of delay levels: its sequence, level, queue offset, and the physical offset
where the log ended behind the copies."""

PopLine: TypeAlias = tuple[int, str, int, int, int, int, list[int], int, int, int, int, bool, bool]
"""A line of the journal of pops: its sequence, `topic@group`, queue, where a pop begins,
when it was popped, for how long it is invisible, how far each message is from there, a bit for
each that is settled, one for each that is if the log goes up to a place, that place, the revive
queue of its handles, whether a checkpoint of it is on the way to
the revive topic, and whether the line is not of a pop, but of acknowledgements of one that has
such."""

PopRow: TypeAlias = tuple[int, int, int, list[int], int, int, int, int, bool, bool]
"""A pop, as slaves get it: what a `PopLine` has from where the pop begins on."""

PoppedRows: TypeAlias = tuple[str, int, list[PopRow]]
"""What is in flight of a queue, as slaves get it: `topic@group`, queue, and its pops."""

OrderedRow: TypeAlias = tuple[str, int, OrderedPop]
"""The last ordered pop of a queue, as slaves get it: `topic@group`, queue, and the pop."""

OrderLine: TypeAlias = tuple[int, str, int, OrderedPop | None]
"""A line of the journal of ordered pops: its sequence, `topic@group`, queue, and what the group has
of it; None if that is forgotten."""


@dataclass(frozen=True, slots=True)
class NamedTable(Generic[S]):
    """How a table of named values stands in its file and in lines of its journal.

    Attributes:
        kind: The values' type; each has its name as `name`.
        what: What an error calls one.
        member: The member of the file that has them by name.
    """

    kind: type[S]
    what: str
    member: str

    def one(self, name: str, value: Any) -> S:
        """Read a value. `name` is used if it does not say its own. Raises WireError."""
        return declared.read(self.kind, value, f"{self.what} {name}", name=name)

    def read(self, content: Mapping[str, Any]) -> dict[str, S]:
        """Read the table of a file by name. Raises WireError."""
        found = values.mapping(content.get(self.member), self.member)
        return {str(name): self.one(str(name), value) for name, value in found.items()}

    def apply(self, table: dict[str, S], changed: Mapping[str, dict[str, Any] | None]) -> None:
        """Change a table as a line of its journal says. Raises WireError."""
        for name, members in changed.items():
            if members is None:
                table.pop(name, None)
            else:
                table[name] = self.one(name, members)


TOPICS = NamedTable(TopicConfig, "topic", "topicConfigTable")
GROUPS = NamedTable(SubscriptionGroup, "group", "subscriptionGroupTable")


def entries(table: Mapping[str, Struct]) -> Iterator[str]:
    """Give what a file has of named values, for `fastjson.write_pieces`."""
    for name, one in list(table.items()):
        yield fastjson.entry(name, declared.plain(one))
