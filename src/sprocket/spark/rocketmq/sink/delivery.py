"""Sends encoded rows in batches, many at once, and says which row a broker would not take.

A batch holds messages of one target. Those for any queue go out as soon as there is room; those
for one queue go out one batch after the other, so that rows keep their order there.
"""

import dataclasses
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sprocket.base.errors import BrokerRefused, ClientError
from sprocket.base.units import KIB
from sprocket.rocketmq.client import Message, PackedBatch, SendResult
from sprocket.rocketmq.client.blocking import Producer
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.columns import Ints
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.blocking import ThreadFuture
from sprocket.spark.rocketmq.sink.pace import Pace
from sprocket.spark.rocketmq.sink.rows import Encoded, Target
from sprocket.spark.rocketmq.sink.texts import stored

REQUEST_BYTES = 512 * KIB
"""Bytes of a batch: an eighth of what brokers take by default; longer ones send nothing faster."""
REQUEST_ROWS_MAX = 1024
"""Messages of a batch, as its answer has an id for each."""

Outcome: TypeAlias = "ThreadFuture[SendResult] | ThreadFuture[list[SendResult]]"


@dataclasses.dataclass(frozen=True, slots=True)
class SentRows:
    """Rows that were sent together.

    Args:
        packed: What was sent; None for one message by itself.
        queue: To which queue; None for any.
        ends: Where in the packed body each message ends.
        rows: Their numbers in the partition.
        outcome: What comes of it.
    """

    packed: PackedBatch | None
    queue: MessageQueue | None
    ends: Ints
    rows: Ints
    outcome: Outcome


class Delivery:
    """Sends the rows of one task.

    Args:
        producer: Open; its limits say how much may be under way.
        partition: The task's, for errors.
        bytes_max: What brokers take at once.
        pace: The rate limit, if there is one.
    """

    def __init__(
        self, producer: Producer, partition: int, *, bytes_max: int, pace: Pace | None
    ) -> None:
        self._producer = producer
        self._partition = partition
        self._pace = pace
        self._bytes_max = min(REQUEST_BYTES, bytes_max)
        self._rows_max = REQUEST_ROWS_MAX
        if pace is not None:
            self._rows_max = min(REQUEST_ROWS_MAX, pace.count_max)
        self._sent: deque[SentRows] = deque()

    def send(self, encoded: Encoded) -> None:
        """Send some rows; returns when they are under way.

        Raises:
            ClientError: Some of these, or of earlier ones, could not be stored.
        """
        for target, rows in _by_target(encoded):
            for part in _parts(encoded, target, rows):
                if encoded.is_alone[part[0]]:
                    self._send_each(encoded, target, part)
                else:
                    self._send_packed(encoded, target, part)

    def finish(self) -> None:
        """Wait until all is stored.

        Raises:
            ClientError: Some of it could not be.
        """
        while self._sent:
            self._settle(self._sent.popleft())

    def _send_packed(self, encoded: Encoded, target: Target, rows: Ints) -> None:
        frames = encoded.frames
        if len(rows) < len(frames):
            frames = frames.take(pa.array(rows))
        starts, data = stored(frames)
        view = memoryview(data)
        first = 0
        while first < len(rows):
            end = int(np.searchsorted(starts, starts[first] + self._bytes_max, "right")) - 1
            end = max(min(end, first + self._rows_max, len(rows)), first + 1)
            key = encoded.unique_keys[int(rows[first])].as_py()
            body = bytes(view[starts[first] : starts[end]])
            packed = PackedBatch(target.topic, body, key.decode("utf-8", "replace"))
            self._let_pass(end - first)
            outcome = self._producer.send_packed(packed, queue=target.queue)
            ends = starts[first + 1 : end + 1] - starts[first]
            numbers = rows[first:end] + encoded.first_row
            self._add(SentRows(packed, target.queue, ends, numbers, outcome))
            first = end

    def _send_each(self, encoded: Encoded, target: Target, rows: Ints) -> None:
        for row in rows.tolist():
            message = _message(encoded, target, row)
            self._let_pass(1)
            outcome = self._producer.send_soon(message, queue=target.queue)
            number = np.array([row + encoded.first_row])
            self._add(SentRows(None, target.queue, number, number, outcome))

    def _let_pass(self, count: int) -> None:
        if self._pace is not None:
            self._pace.take(count)

    def _add(self, request: SentRows) -> None:
        """Keep what was sent, after a look at what was sent before."""
        self._sent.append(request)
        while self._sent and self._sent[0].outcome.done():
            self._settle(self._sent.popleft())

    def _settle(self, request: SentRows) -> None:
        try:
            request.outcome.result()
        except ClientError as error:
            rows, cause = request.rows, error
            if isinstance(error, BrokerRefused) and error.code == ResponseCode.MESSAGE_ILLEGAL:
                rows, cause = self._refused(request, error)
            first, last = int(rows[0]), int(rows[-1])
            which = f"row {first}" if first == last else f"rows {first} to {last}"
            text = f"partition {self._partition}, {which}: {cause}"
            raise ClientError(text) from cause

    def _refused(self, request: SentRows, error: ClientError) -> tuple[Ints, ClientError]:
        """Return the row that the broker refuses, by sending halves of its batch again.

        If each half is taken, it is the batch that is too long: then return all of its rows.
        """
        first, end = 0, len(request.rows)
        packed, refused = request.packed, error
        while packed is not None and end - first > 1:
            middle = (first + end) // 2
            again = self._error_of(request, packed, first, middle)
            if again is None:
                first = middle
                again = self._error_of(request, packed, first, end)
                if again is None:
                    hint = "give maxMessageBytes, as the brokers' limit is lower"
                    return request.rows, ClientError(f"{error}; {hint}")
            else:
                end = middle
            refused = again
        return request.rows[first:end], refused

    def _error_of(
        self, request: SentRows, packed: PackedBatch, first: int, end: int
    ) -> ClientError | None:
        """Return why some messages of a batch are refused, None if they are taken."""
        start = int(request.ends[first - 1]) if first else 0
        body = packed.body[start : int(request.ends[end - 1])]
        part = PackedBatch(packed.topic, body, packed.first_key)
        try:
            self._producer.send_packed(part, queue=request.queue).result()
        except ClientError as error:
            return error
        return None


def _by_target(encoded: Encoded) -> Iterator[tuple[Target, Ints]]:
    """Give the rows of each target, in their order."""
    if len(encoded.targets) == 1:
        yield encoded.targets[0], np.arange(len(encoded.target))
        return
    order = np.argsort(encoded.target, kind="stable")
    places = np.searchsorted(encoded.target[order], np.arange(len(encoded.targets) + 1))
    for number, target in enumerate(encoded.targets):
        rows = order[places[number] : places[number + 1]]
        if len(rows):
            yield target, rows


def _parts(encoded: Encoded, target: Target, rows: Ints) -> list[Ints]:
    """Part rows into those that go together and those that go by themselves.

    For one queue their order stays; for any queue there is none, and batches become longer.
    """
    alone = encoded.is_alone[rows]
    if target.queue is None:
        parts = [rows[~alone], rows[alone]]
    else:
        parts = np.split(rows, np.flatnonzero(np.diff(alone)) + 1)
    return [part for part in parts if len(part)]


def _message(encoded: Encoded, target: Target, row: int) -> Message:
    """Return a row as the client takes a single message."""
    pairs = properties.decode(encoded.properties[row].as_py())
    level = 0
    with suppress(KeyError):
        level = int(pairs.pop(properties.DELAY))
    return Message(
        target.topic,
        encoded.bodies[row].as_py(),
        tag=pairs.pop(properties.TAGS, ""),
        keys=[word for word in pairs.pop(properties.KEYS, "").split(" ") if word],
        properties=pairs,
        flag=int(encoded.flags[row]),
        delay_level=level,
    )


def pieces(rows: Any, *, rows_max: int, bytes_max: int) -> Iterator[Any]:
    """Cut a RecordBatch into smaller ones of at most this many rows and about this many bytes."""
    each = max(rows.nbytes // max(rows.num_rows, 1), 1)
    step = max(1, min(rows_max, bytes_max // each))
    for first in range(0, rows.num_rows, step):
        yield rows.slice(first, step)
