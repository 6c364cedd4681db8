"""Bodies that say how far consumer groups are in their queues: 43, 45, 208, 303 and 317.

Tables whose keys are queues are written with objects as keys, those by number with bare numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.codec.config import DataVersion, fastjson, values
from sprocket.rocketmq.model.route import MessageQueue

_KEYS_A_PIECE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
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
    last_consumed_at_ms: int = 0

    @property
    def lag(self) -> int:
        """Messages that are not consumed."""
        return self.broker_offset - self.consumer_offset

    @property
    def in_flight(self) -> int:
        """Messages that were pulled and are not consumed."""
        return self.pull_offset - self.consumer_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStats:
    """The answer of GET_CONSUME_STATS 208."""

    queues: Mapping[MessageQueue, QueueProgress] = field(default_factory=dict)
    consume_tps: float = 0.0

    @property
    def lag(self) -> int:
        """Messages that are not consumed, of all queues."""
        return sum(one.lag for one in self.queues.values())

    @property
    def in_flight(self) -> int:
        """Messages that were pulled and are not consumed, of all queues."""
        return sum(one.in_flight for one in self.queues.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConsumeStats:
    """The answer of GET_BROKER_CONSUME_STATS 317: each group with its topics' stats."""

    broker_address: str
    groups: Sequence[tuple[str, Sequence[ConsumeStats]]]
    total_lag: int
    total_in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeTimeSpan:
    """The answer of QUERY_CONSUME_TIME_SPAN 303 for one queue; times are ms since 1970.

    Attributes:
        queue: The queue.
        min_at_ms: When its oldest message was stored.
        max_at_ms: When its newest one was.
        consumed_at_ms: When the last message that the group consumed was.
        delay_ms: How long the group's next message has waited; 0 if there is none.
    """

    queue: MessageQueue
    min_at_ms: int
    max_at_ms: int
    consumed_at_ms: int
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTable:
    """The answer of GET_ALL_CONSUMER_OFFSET 43: offsets by `topic@group` and queue."""

    version: DataVersion
    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayOffsets:
    """The answer of GET_ALL_DELAY_OFFSET 45: by level, what was not delivered first."""

    version: DataVersion
    levels: Mapping[int, int]


def encode_consume_stats(stats: ConsumeStats) -> bytes:
    """Write the answer of GET_CONSUME_STATS 208."""
    return b"".join(consume_stats_pieces(stats))


def consume_stats_pieces(stats: ConsumeStats) -> Iterator[bytes]:
    """Write the answer of GET_CONSUME_STATS 208 in pieces."""
    return body_parts.gathered(_stats_pieces(stats))


def decode_consume_stats(data: bytes) -> ConsumeStats:
    """Read the answer of GET_CONSUME_STATS 208. Raises WireError."""
    return _stats(body_parts.read_answer(data, "consume stats"))


def encode_broker_consume_stats(stats: BrokerConsumeStats) -> bytes:
    """Write the answer of GET_BROKER_CONSUME_STATS 317."""
    return b"".join(
        [
            broker_stats_begin(stats.broker_address),
            *(
                piece
                for number, (group, topics) in enumerate(stats.groups)
                for piece in broker_stats_group(group, topics, is_first=number == 0)
            ),
            broker_stats_end(stats.total_lag, stats.total_in_flight),
        ]
    )


def broker_stats_begin(broker_address: str) -> bytes:
    """Write what is before the groups in the answer of GET_BROKER_CONSUME_STATS 317."""
    return b'{"brokerAddr":' + body_parts.encode(broker_address) + b',"consumeStatsList":['


def broker_stats_group(
    group: str, topics: Iterable[ConsumeStats], *, is_first: bool
) -> Iterator[bytes]:
    """Write one group in the answer of GET_BROKER_CONSUME_STATS 317, in pieces."""
    return body_parts.gathered(_group_stats(group, topics, is_first=is_first))


def _group_stats(group: str, topics: Iterable[ConsumeStats], *, is_first: bool) -> Iterator[bytes]:
    yield (b"{" if is_first else b",{") + body_parts.encode(group) + b":["
    for number, one in enumerate(topics):
        if number:
            yield b","
        yield from _stats_pieces(one)
    yield b"]}"


def broker_stats_end(total_lag: int, total_in_flight: int) -> bytes:
    """Write what is behind the groups in the answer of GET_BROKER_CONSUME_STATS 317."""
    return b'],"totalDiff":%d,"totalInflightDiff":%d}' % (total_lag, total_in_flight)


def decode_broker_consume_stats(data: bytes) -> BrokerConsumeStats:
    """Read the answer of GET_BROKER_CONSUME_STATS 317. Raises WireError."""
    body = body_parts.read_answer(data, "a broker's consume stats")
    return BrokerConsumeStats(
        broker_address=values.text(body.get("brokerAddr")),
        groups=[
            (values.text(group), [_stats(one) for one in values.sequence(topics, "a group")])
            for entry in values.sequence(body.get("consumeStatsList"), "consumeStatsList")
            for group, topics in values.mapping(entry, "an entry").items()
        ],
        total_lag=values.member(body, "totalDiff", 0),
        total_in_flight=values.member(body, "totalInflightDiff", 0),
    )


def encode_time_spans(spans: Iterable[ConsumeTimeSpan]) -> bytes:
    """Write the answer of QUERY_CONSUME_TIME_SPAN 303; texts are in the broker's time zone."""
    return body_parts.encode(
        {
            "consumeTimeSpanSet": [
                {
                    "consumeTimeStamp": one.consumed_at_ms,
                    "consumeTimeStampStr": _time_text(one.consumed_at_ms),
                    "delayTime": one.delay_ms,
                    "maxTimeStamp": one.max_at_ms,
                    "maxTimeStampStr": _time_text(one.max_at_ms),
                    "messageQueue": body_parts.message_queue_json(one.queue),
                    "minTimeStamp": one.min_at_ms,
                    "minTimeStampStr": _time_text(one.min_at_ms),
                }
                for one in spans
            ]
        }
    )


def decode_time_spans(data: bytes) -> list[ConsumeTimeSpan]:
    """Read the answer of QUERY_CONSUME_TIME_SPAN 303. Raises WireError."""
    body = body_parts.read_answer(data, "time spans")
    found = values.sequence(body.get("consumeTimeSpanSet"), "consumeTimeSpanSet")
    return [_span(values.mapping(one, "a time span")) for one in found]


def encode_offset_table(table: OffsetTable) -> bytes:
    """Write the answer of GET_ALL_CONSUMER_OFFSET 43."""
    return b"".join(offset_table_pieces(table))


def offset_table_pieces(table: OffsetTable) -> Iterator[bytes]:
    """Write the answer of GET_ALL_CONSUMER_OFFSET 43 in pieces; the table may change meanwhile."""
    return body_parts.gathered(_offset_table(table))


def _offset_table(table: OffsetTable) -> Iterator[bytes]:
    yield b'{"dataVersion":' + fastjson.write(table.version.to_json()) + b',"groupTopicMap":{'
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


def decode_offset_table(data: bytes) -> OffsetTable:
    """Read the answer of GET_ALL_CONSUMER_OFFSET 43. Raises WireError."""
    body = body_parts.read_answer(data, "a table of offsets")
    return OffsetTable(
        version=DataVersion.from_json(body.get("dataVersion"), 0),
        offsets={
            values.text(key): {
                values.integer(queue_id, "a queue"): values.integer(offset, "an offset")
                for queue_id, offset in values.mapping(queues, "offsets").items()
            }
            for key, queues in values.mapping(body.get("offsetTable"), "offsetTable").items()
        },
    )


def encode_delay_offsets(offsets: DelayOffsets) -> bytes:
    """Write the answer of GET_ALL_DELAY_OFFSET 45, the text of RocketMQ's `delayOffset.json`."""
    body = {"dataVersion": offsets.version.to_json(), "offsetTable": dict(offsets.levels)}
    return fastjson.write(body, int_keys_unquoted=True)


def decode_delay_offsets(data: bytes) -> DelayOffsets:
    """Read the answer of GET_ALL_DELAY_OFFSET 45. Raises WireError."""
    body = body_parts.read_answer(data, "delay offsets")
    return DelayOffsets(
        version=DataVersion.from_json(body.get("dataVersion"), 0),
        levels={
            values.integer(level, "a level"): values.integer(offset, "an offset")
            for level, offset in values.mapping(body.get("offsetTable"), "offsetTable").items()
        },
    )


def _stats_pieces(stats: ConsumeStats) -> Iterator[bytes]:
    encode = body_parts.encode
    yield b'{"consumeTps":' + encode(stats.consume_tps) + b',"offsetTable":{'
    mark = b""
    for queue, one in stats.queues.items():
        progress = {
            "brokerOffset": one.broker_offset,
            "consumerOffset": one.consumer_offset,
            "lastTimestamp": one.last_consumed_at_ms,
            "pullOffset": one.pull_offset,
        }
        yield mark + encode(body_parts.message_queue_json(queue)) + b":" + encode(progress)
        mark = b","
    yield b"}}"


def _stats(value: Any) -> ConsumeStats:
    members = values.mapping(value, "consume stats")
    return ConsumeStats(
        queues={
            queue: QueueProgress(
                broker_offset=values.member(one, "brokerOffset", 0),
                consumer_offset=values.member(one, "consumerOffset", 0),
                pull_offset=values.member(one, "pullOffset", 0),
                last_consumed_at_ms=values.member(one, "lastTimestamp", 0),
            )
            for queue, one in body_parts.queue_table(members.get("offsetTable"), "a queue").items()
        },
        consume_tps=values.fraction(members.get("consumeTps"), "consumeTps"),
    )


def _span(members: Mapping[Any, Any]) -> ConsumeTimeSpan:
    return ConsumeTimeSpan(
        queue=body_parts.message_queue(members.get("messageQueue")),
        min_at_ms=values.member(members, "minTimeStamp", 0),
        max_at_ms=values.member(members, "maxTimeStamp", 0),
        consumed_at_ms=values.member(members, "consumeTimeStamp", 0),
        delay_ms=values.member(members, "delayTime", 0),
    )


def _time_text(at_ms: int) -> str:
    """Return a time as RocketMQ writes it into this body, to the millisecond."""
    at = datetime.fromtimestamp(at_ms / 1000)  # noqa: DTZ006 - the broker's own zone is meant
    return f"{at:%Y-%m-%d#%H:%M:%S}:{at_ms % 1000:03d}"
