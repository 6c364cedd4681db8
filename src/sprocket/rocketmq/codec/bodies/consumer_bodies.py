"""Bodies of what a broker asks of a consumer: new offsets, its own offsets, what it is doing.

RocketMQ writes maps by message queue with objects as keys, which is not valid JSON; see
`codec.fastjson`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sprocket.base.units import MIB
from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.codec.config import fastjson, values
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import MessageQueue

DirectResult = Literal[
    "CR_SUCCESS",
    "CR_LATER",
    "CR_ROLLBACK",
    "CR_COMMIT",
    "CR_THROW_EXCEPTION",
    "CR_RETURN_NULL",
]
"""What became of a message that a listener was given directly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectOutcome:
    """The answer of CONSUME_MESSAGE_DIRECTLY 309."""

    result: str
    """One of `DirectResult`, or what a newer client says."""
    orderly: bool = False
    spent_ms: int = 0
    remark: str = ""
    """What the listener raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """What a consumer holds of one queue; wall times in ms since 1970, 0 for never."""

    commit_offset: int
    cached_min_offset: int = 0
    cached_max_offset: int = 0
    cached_count: int = 0
    cached_bytes: int = 0
    is_locked: bool = False
    is_dropped: bool = False
    pulled_at_ms: int = 0
    consumed_at_ms: int = 0
    locked_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """How a consumer did with one topic lately; times in ms, rates in messages a second."""

    pull_ms: float = 0.0
    pull_rate: float = 0.0
    consume_ms: float = 0.0
    consume_rate: float = 0.0
    failure_rate: float = 0.0
    failures: int = 0
    """In the last hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningInfo:
    """The answer of GET_CONSUMER_RUNNING_INFO 307."""

    properties: Mapping[str, str]
    subscriptions: Iterable[Subscription] = ()
    queues: Mapping[MessageQueue, QueueInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    stacks: str | None = None
    """What every thread is at, if that was asked for."""


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write the body of RESET_CONSUMER_CLIENT_OFFSET 220, as Java's clients read it."""
    return fastjson.write({"offsetTable": _by_queue(offsets)})


def decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Read the body of RESET_CONSUMER_CLIENT_OFFSET 220 in either form.

    Raises:
        WireError: A part of it cannot be read.
    """
    table = body_parts.read_answer(data, "a reset").get("offsetTable")
    if isinstance(table, list):
        entries = [values.mapping(one, "an offset") for one in table]
        return {body_parts.message_queue(one): values.member(one, "offset", 0) for one in entries}
    return _read_by_queue(table, "offsetTable")


def decode_offset_file(data: bytes) -> dict[MessageQueue, int]:
    """Read a Java client's file of offsets, which may be of any size. Raises WireError."""
    body = body_parts.read_answer(data, "a file of offsets")
    return _read_by_queue(body.get("offsetTable"), "offsetTable")


def encode_status(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Write the answer of GET_CONSUMER_STATUS_FROM_CLIENT 221."""
    return fastjson.write({"consumerTable": {}, "messageQueueTable": _by_queue(offsets)})


def decode_status(data: bytes) -> dict[MessageQueue, int]:
    """Read the answer of GET_CONSUMER_STATUS_FROM_CLIENT 221. Raises WireError."""
    body = body_parts.read_object(data, "a consumer's status")
    return _read_by_queue(body.get("messageQueueTable"), "messageQueueTable")


def encode_direct(result: DirectResult, *, orderly: bool, spent_ms: int, remark: str = "") -> bytes:
    """Write the answer of CONSUME_MESSAGE_DIRECTLY 309; `remark` says what the listener raised."""
    return body_parts.encode(
        {
            "autoCommit": True,
            "consumeResult": result,
            "order": orderly,
            "spentTimeMills": spent_ms,
            **({"remark": remark} if remark else {}),
        }
    )


def decode_direct(data: bytes) -> DirectOutcome:
    """Read the answer of CONSUME_MESSAGE_DIRECTLY 309. Raises WireError."""
    body = body_parts.read_answer(data, "an outcome")
    return DirectOutcome(
        result=values.text(body.get("consumeResult")),
        orderly=values.boolean(body.get("order"), default=False),
        spent_ms=values.member(body, "spentTimeMills", 0),
        remark=values.text(body.get("remark")),
    )


def encode_running_info(info: RunningInfo) -> bytes:
    """Write the answer of GET_CONSUMER_RUNNING_INFO 307."""
    return fastjson.write(
        {
            "jstack": info.stacks,
            "mqPopTable": {},
            "mqTable": _by_queue({queue: _queue_json(one) for queue, one in info.queues.items()}),
            "properties": dict(info.properties),
            "statusTable": {topic: _topic_json(one) for topic, one in info.topics.items()},
            "subscriptionSet": [body_parts.subscription_json(one) for one in info.subscriptions],
            "userConsumerInfo": {},
        }
    )


def decode_running_info(data: bytes) -> RunningInfo:
    """Read the answer of GET_CONSUMER_RUNNING_INFO 307. Raises WireError."""
    body = body_parts.read_answer(data, "a consumer's state")
    properties = values.mapping(body.get("properties"), "properties")
    stacks = body.get("jstack")
    return RunningInfo(
        properties={values.text(name): values.text(one) for name, one in properties.items()},
        subscriptions=[
            body_parts.subscription(values.mapping(one, "a subscription"))
            for one in values.sequence(body.get("subscriptionSet"), "subscriptionSet")
        ],
        queues={
            queue: _queue_info(one)
            for queue, one in body_parts.queue_table(body.get("mqTable"), "mqTable").items()
        },
        topics={
            values.text(topic): _topic_info(values.mapping(one, "a topic's state"))
            for topic, one in values.mapping(body.get("statusTable"), "statusTable").items()
        },
        stacks=None if stacks is None else values.text(stacks),
    )


def _queue_info(members: Mapping[Any, Any]) -> QueueInfo:
    return QueueInfo(
        commit_offset=values.member(members, "commitOffset", 0),
        cached_min_offset=values.member(members, "cachedMsgMinOffset", 0),
        cached_max_offset=values.member(members, "cachedMsgMaxOffset", 0),
        cached_count=values.member(members, "cachedMsgCount", 0),
        cached_bytes=values.member(members, "cachedMsgSizeInMiB", 0) * MIB,
        is_locked=values.boolean(members.get("locked"), default=False),
        is_dropped=values.boolean(members.get("droped"), default=False),
        pulled_at_ms=values.member(members, "lastPullTimestamp", 0),
        consumed_at_ms=values.member(members, "lastConsumeTimestamp", 0),
        locked_at_ms=values.member(members, "lastLockTimestamp", 0),
    )


def _topic_info(members: Mapping[Any, Any]) -> TopicInfo:
    return TopicInfo(
        pull_ms=values.fraction(members.get("pullRT"), "pullRT"),
        pull_rate=values.fraction(members.get("pullTPS"), "pullTPS"),
        consume_ms=values.fraction(members.get("consumeRT"), "consumeRT"),
        consume_rate=values.fraction(members.get("consumeOKTPS"), "consumeOKTPS"),
        failure_rate=values.fraction(members.get("consumeFailedTPS"), "consumeFailedTPS"),
        failures=values.member(members, "consumeFailedMsgs", 0),
    )


def _queue_json(info: QueueInfo) -> dict[str, Any]:
    return {
        "cachedMsgCount": info.cached_count,
        "cachedMsgMaxOffset": info.cached_max_offset,
        "cachedMsgMinOffset": info.cached_min_offset,
        "cachedMsgSizeInMiB": info.cached_bytes // MIB,
        "commitOffset": info.commit_offset,
        "droped": info.is_dropped,
        "lastConsumeTimestamp": info.consumed_at_ms,
        "lastLockTimestamp": info.locked_at_ms,
        "lastPullTimestamp": info.pulled_at_ms,
        "locked": info.is_locked,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def _topic_json(info: TopicInfo) -> dict[str, Any]:
    return {
        "consumeFailedMsgs": info.failures,
        "consumeFailedTPS": info.failure_rate,
        "consumeOKTPS": info.consume_rate,
        "consumeRT": info.consume_ms,
        "pullRT": info.pull_ms,
        "pullTPS": info.pull_rate,
    }


def _by_queue(table: Mapping[MessageQueue, Any]) -> dict[fastjson.ObjectKey, Any]:
    return {
        fastjson.ObjectKey(body_parts.message_queue_json(queue)): value
        for queue, value in table.items()
    }


def _read_by_queue(table: Any, name: str) -> dict[MessageQueue, int]:
    return {
        body_parts.message_queue(key): values.integer(value, "an offset")
        for key, value in values.mapping(table, name).items()
    }
