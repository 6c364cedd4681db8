"""Traces of a store as rows: what producers and consumers noted about their messages.

The trace topic has a message for many of these notes; each note is a row. See
docs/formats/trace.md.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from sprocket.rocketmq.codec import trace
from sprocket.rocketmq.model.internal import TRACE_TOPIC
from sprocket.rocketmq.model.trace import (
    ConsumeBegan,
    ConsumeEnded,
    Produced,
    Recalled,
    TraceRecord,
    TransactionEnded,
)
from sprocket.spark.rocketmq.rows.columns import FIRST_MS, LAST_MS

_EVENTS: dict[type[TraceRecord], str] = {
    Produced: "sent",
    ConsumeBegan: "consume began",
    ConsumeEnded: "consume ended",
    TransactionEnded: "transaction ended",
    Recalled: "recalled",
}
_SCHEMA = pa.schema(
    [
        *(("messageId", pa.string()), ("event", pa.string())),
        ("at", pa.timestamp("us", "UTC")),
        *(("topic", pa.string()), ("clientGroup", pa.string()), ("client", pa.string())),
        *(("isSuccess", pa.bool_()), ("outcome", pa.string()), ("costMs", pa.int64())),
        *(("retries", pa.int32()), ("requestId", pa.string())),
        *(("tags", pa.string()), ("keys", pa.string()), ("bodyBytes", pa.int64())),
    ]
)
_SQL = (
    "messageId string, event string, at timestamp, topic string, clientGroup string, client string,"
    " isSuccess boolean, outcome string, costMs bigint, retries int, requestId string, tags string,"
    " keys string, bodyBytes bigint"
)


def traces(spark: Any, path: str, **options: object) -> Any:
    """Return a row for each note that a producer or consumer has traced.

    Args:
        spark: The SparkSession.
        path: The store's folder.
        options: Those of the format that say how a folder is read, such as `mode`.
    """
    every = options | {"includeInternalTopics": "true", "columns": "topic,body,bornHost"}
    messages = spark.read.format("rocketmq").options(**every).load(path)
    return messages.where(f"topic = '{TRACE_TOPIC}'").mapInArrow(_rows, _SQL)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the notes of trace messages; runs in a worker."""
    for batch in batches:
        bodies, hosts = (batch.column(name).to_pylist() for name in ("body", "bornHost"))
        found = [
            _row(one, host)
            for body, host in zip(bodies, hosts, strict=True)
            for one in trace.decode(body)
        ]
        yield pa.RecordBatch.from_pylist(found, schema=_SCHEMA)


def _microseconds(at_ms: int | None) -> int | None:
    """Return a client's time, None where no table can show it."""
    if at_ms is None or not FIRST_MS <= at_ms <= LAST_MS:
        return None
    return at_ms * 1000


def _row(one: TraceRecord, host: str) -> dict[str, object]:
    """Return a note's row; what its kind does not say is null."""
    row: dict[str, object] = {
        "messageId": one.message_id,
        "event": _EVENTS[type(one)],
        "at": _microseconds(one.at_ms),
        "clientGroup": one.group,
        "client": host,
    }
    match one:
        case Produced():
            row |= {"topic": one.topic, "isSuccess": one.is_success, "outcome": one.kind.name}
            row |= {"costMs": one.cost_ms, "bodyBytes": one.body_bytes}
            row |= {"tags": one.tags, "keys": one.keys}
        case ConsumeBegan():
            row |= {"retries": one.retries, "requestId": one.request_id, "keys": one.keys}
        case ConsumeEnded():
            row |= {"isSuccess": one.is_success, "requestId": one.request_id, "keys": one.keys}
            row |= {"costMs": one.cost_ms, "outcome": one.outcome and one.outcome.name}
        case TransactionEnded():
            row |= {"topic": one.topic, "outcome": one.state, "tags": one.tags, "keys": one.keys}
        case Recalled():
            row |= {"topic": one.topic, "isSuccess": one.is_success}
    return row
