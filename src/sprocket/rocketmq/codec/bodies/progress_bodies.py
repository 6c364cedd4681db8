"""Bodies that say how far consumer groups are in their queues: 43, 45, 208, 303 and 317.

Tables whose keys are queues are written with objects as keys, those by number with bare numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import Struct, field

from sprocket.rocketmq.codec.config import AS_GIVEN, As, DataVersion, declared, fastjson
from sprocket.rocketmq.model.route import MessageQueue

_KEYS_A_PIECE = 1000


class QueueProgress(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group is in one queue.

    Attributes:
        broker_offset: Where the queue's next message goes.
        consumer_offset: Where the group goes on.
        pull_offset: Where its last pull ended; 0 if there was none.
        last_consumed_at_ms: Store time of the last message before `consumer_offset`; 0 for none.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int = 0
    last_consumed_at_ms: int = field(name="lastTimestamp", default=0)

    @property
    def lag(self) -> int:
        """Messages that are not consumed."""
        return self.broker_offset - self.consumer_offset

    @property
    def in_flight(self) -> int:
        """Messages that were pulled and are not consumed."""
        return self.pull_offset - self.consumer_offset


class ConsumeStats(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of GET_CONSUME_STATS 208."""

    queues: Mapping[MessageQueue, QueueProgress] = field(name="offsetTable", default_factory=dict)
    consume_tps: float = 0.0

    @property
    def lag(self) -> int:
        """Messages that are not consumed, of all queues."""
        return sum(one.lag for one in self.queues.values())

    @property
    def in_flight(self) -> int:
        """Messages that were pulled and are not consumed, of all queues."""
        return sum(one.in_flight for one in self.queues.values())


def _entries(groups: Any) -> list[dict[str, Any]]:
    return [{group: topics} for group, topics in groups]


def _groups(entries: Any) -> list[tuple[str, Any]]:
    return [found for entry in entries for found in entry.items()]


class BrokerConsumeStats(Struct, frozen=True, kw_only=True):
    """The answer of GET_BROKER_CONSUME_STATS 317: each group with its topics' stats."""

    broker_address: str = field(name="brokerAddr")
    groups: Annotated[
        Sequence[tuple[str, Sequence[ConsumeStats]]],
        As(Sequence[Mapping[str, Sequence[ConsumeStats]]], _entries, _groups),
    ] = field(name="consumeStatsList")
    total_lag: int = field(name="totalDiff")
    total_in_flight: int = field(name="totalInflightDiff")


def _time_text(at_ms: int) -> str:
    """Return a time as RocketMQ writes it into this body, to the millisecond."""
    at = datetime.fromtimestamp(at_ms / 1000)  # noqa: DTZ006 - the broker's own zone is meant
    return f"{at:%Y-%m-%d#%H:%M:%S}:{at_ms % 1000:03d}"


class ConsumeTimeSpan(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of QUERY_CONSUME_TIME_SPAN 303 for one queue; times are ms since 1970.

    Attributes:
        queue: The queue.
        min_at_ms: When its oldest message was stored.
        max_at_ms: When its newest one was.
        consumed_at_ms: When the last message that the group consumed was.
        delay_ms: How long the group's next message has waited; 0 if there is none.
    """

    written: ClassVar[Mapping[str, object]] = {
        "consumeTimeStampStr": lambda one: _time_text(one.consumed_at_ms),
        "maxTimeStampStr": lambda one: _time_text(one.max_at_ms),
        "minTimeStampStr": lambda one: _time_text(one.min_at_ms),
    }
    queue: MessageQueue = field(name="messageQueue")
    min_at_ms: int = field(name="minTimeStamp")
    max_at_ms: int = field(name="maxTimeStamp")
    consumed_at_ms: int = field(name="consumeTimeStamp")
    delay_ms: int = field(name="delayTime")


class ConsumeTimeSpans(Struct, frozen=True):
    """The answer of QUERY_CONSUME_TIME_SPAN 303; texts are in the broker's time zone."""

    spans: Sequence[ConsumeTimeSpan] = field(name="consumeTimeSpanSet")


class OffsetTable(Struct, frozen=True, kw_only=True):
    """The answer of GET_ALL_CONSUMER_OFFSET 43: offsets by `topic@group` and queue."""

    version: DataVersion = field(name="dataVersion")
    offsets: Mapping[str, Mapping[int, int]] = field(name="offsetTable")


class DelayOffsets(Struct, frozen=True, kw_only=True):
    """The answer of GET_ALL_DELAY_OFFSET 45: by level, what was not delivered first."""

    version: DataVersion = field(name="dataVersion")
    levels: Annotated[Mapping[int, int], AS_GIVEN] = field(name="offsetTable")


def broker_stats_begin(broker_address: str) -> bytes:
    """Write what is before the groups in the answer of GET_BROKER_CONSUME_STATS 317."""
    return b'{"brokerAddr":' + declared.encode(broker_address) + b',"consumeStatsList":['


def broker_stats_group(
    group: str, topics: Iterable[ConsumeStats], *, is_first: bool
) -> Iterator[bytes]:
    """Write one group in the answer of GET_BROKER_CONSUME_STATS 317, in pieces."""
    mark = (b"{" if is_first else b",{") + declared.encode(group) + b":["
    for one in topics:
        for piece in declared.encode_pieces(one):
            yield mark + piece
            mark = b""
        mark = b","
    yield b"]}" if mark == b"," else mark + b"]}"


def broker_stats_end(total_lag: int, total_in_flight: int) -> bytes:
    """Write what is behind the groups in the answer of GET_BROKER_CONSUME_STATS 317."""
    return b'],"totalDiff":%d,"totalInflightDiff":%d}' % (total_lag, total_in_flight)


def offset_table_pieces(table: OffsetTable) -> Iterator[bytes]:
    """Write the answer of GET_ALL_CONSUMER_OFFSET 43 in pieces; the table may change meanwhile."""
    return declared.gathered(_offset_table(table))


def _offset_table(table: OffsetTable) -> Iterator[bytes]:
    yield b'{"dataVersion":' + declared.encode(table.version) + b',"groupTopicMap":{'
    keys = list(table.offsets)
    groups: dict[str, list[str]] = {}
    for number, key in enumerate(keys):
        topic, _, group = key.partition("@")
        groups.setdefault(group, []).append(topic)
        if number % _KEYS_A_PIECE == _KEYS_A_PIECE - 1:
            yield b""
    mark = b""
    for group, topics in groups.items():
        yield mark + fastjson.write({group: topics})[1:-1]
        mark = b","
    yield b'},"offsetTable":{'
    mark = b""
    for key in keys:
        queues = table.offsets.get(key)
        if queues is not None:
            yield mark + fastjson.int_map(key, queues)
            mark = b","
    yield b"}}"
