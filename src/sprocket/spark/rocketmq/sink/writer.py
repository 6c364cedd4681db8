"""The writers that Spark calls: of a batch, and of a stream.

Spark makes them in short planner processes and pickles them into workers; a stream's `commit` runs
on one that was created again. What is written is there before a task returns, so there is nothing
left to commit, and nothing that `abort` could take back: a write is at least once, and its doubles
have the same unique keys (`unique_keys`).
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from sprocket.base import compression, log
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.compression import Method
from sprocket.base.errors import NotConnected, RequestTimeout, SettingsError
from sprocket.base.units import MIB
from sprocket.rocketmq.client import MessageQueue, ProducerSettings
from sprocket.rocketmq.client.blocking import Admin, Producer
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.spark.rocketmq.live.cluster import client_settings, wait
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.sink import timers
from sprocket.spark.rocketmq.sink.delivery import REQUEST_BYTES, Delivery, pieces
from sprocket.spark.rocketmq.sink.pace import Pace, tasks_at_once
from sprocket.spark.rocketmq.sink.rows import Encoder, check_columns
from sprocket.spark.rocketmq.sink.unique_keys import Writing

_log = log.get_logger(__name__)

UNDER_WAY_BYTES_MAX = 16 * MIB
"""Sent and not yet answered, for each task: a tenth of a second's work of a broker at full speed,
and far less than it can store before a try counts as lost."""
TRY_TIMEOUT_MS = 15_000
"""A request without an answer is sent again after this long; a lost connection is known at once."""
UNKNOWN_TOPIC_MS = 5_000
"""How long to ask again for a topic that nobody knows, as a broker that is started registers."""
_ASK_AGAIN_S = 0.5
_PACKING: dict[Method, tuple[Literal["zlib", "lz4", "zstd"], int]] = {
    Method.ZLIB: ("zlib", 5),
    Method.LZ4: ("lz4", 1),
    Method.ZSTD: ("zstd", 1),
}
"""Name and level of each method: that of Java's clients for zlib; for the others the quickest, as
higher ones take up to four times as long for a tenth less."""
_PIECE_ROWS_MAX, _PIECE_BYTES_MAX = 16_384, 16 * MIB
"""What is encoded at a time."""

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Under which Spark tells a task of a stream what it belongs to. The id of a query is in its
checkpoint, so it is the same after a restart."""


class _Written(WriterCommitMessage):  # type: ignore[misc]
    """How many rows a task has written."""

    def __init__(self, count: int) -> None:
        self.count = count


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a DataFrame once."""

    def __init__(self, schema: Any, options: Options, *, overwrite: bool) -> None:
        _refuse_overwrite(is_asked=overwrite)
        check_columns(_kinds(schema), options)
        self._fields = schema.fieldNames()
        self._options = options
        # Made by the planner, so that all tasks and their repeats have it.
        self._name = options.app_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of one partition; runs in a worker."""
        task = _task()
        writing = Writing(self._name, self._options.app_version, task.partitionId())
        return _write(iterator, self._fields, self._options, writing, task)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Note how much was written."""
        _log.info("rows written", count=_count(messages), write=self._name)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say that what tasks have sent stays."""
        _tell_abort(messages, self._name)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the batches of a stream."""

    def __init__(self, schema: Any, options: Options, *, overwrite: bool) -> None:
        _refuse_overwrite(is_asked=overwrite)
        check_columns(_kinds(schema), options)
        self._fields = schema.fieldNames()
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of one partition of a batch; runs in a worker.

        Raises:
            SettingsError: Spark does not say which query it is, nor does `txnAppId`.
        """
        task = _task()
        name = self._options.app_id or task.getLocalProperty(_QUERY_ID)
        batch = task.getLocalProperty(_BATCH_ID)
        if not name or batch is None:
            raise SettingsError(
                "Spark does not tell which query and batch this is, so repeated rows could not be "
                "known: run it as a stream by writeStream, and give the option txnAppId"
            )
        writing = Writing(name, batch, task.partitionId())
        return _write(iterator, self._fields, self._options, writing, task)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Note how much was written; a batch that is committed again changes nothing."""
        _log.info("batch written", count=_count(messages), batch=batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Say that what tasks have sent stays; the next try has the same unique keys."""
        _tell_abort(messages, f"batch {batchId}")


def _write(
    iterator: Iterator[Any],
    fields: Sequence[str],
    options: Options,
    writing: Writing,
    task: Any,
) -> WriterCommitMessage:
    """Send rows; return when all are stored."""
    pace = None
    if options.messages_per_second_max:
        tasks = options.tasks_at_once or tasks_at_once(task.getLocalProperty)
        pace = Pace(options.messages_per_second_max / tasks, SystemClock(), wait)
    settings = _producer_settings(options)
    producer = Producer(
        options.name_server,
        group=options.producer_group,
        settings=settings,
        client=client_settings(options),
    )
    producer.start()
    is_sent = False
    count = 0
    try:
        topics = TopicQueues(producer.queues, options.send_timeout_ms, SystemClock(), wait)
        encoder = Encoder(
            fields,
            options,
            writing,
            _checked(topics, fields, options),
            level_max=settings.delay_level_max,
            alone_bytes_min=settings.compress_bytes_min if options.compression else None,
            batch_bytes_max=min(REQUEST_BYTES, options.message_bytes_max),
        )
        delivery = Delivery(
            producer, writing.partition, bytes_max=options.message_bytes_max, pace=pace
        )
        for rows in iterator:
            for piece in pieces(rows, rows_max=_PIECE_ROWS_MAX, bytes_max=_PIECE_BYTES_MAX):
                delivery.send(encoder.encode(piece, count))
                count += piece.num_rows
        delivery.finish()
        is_sent = True
    finally:
        producer.close(flush=is_sent)
    return _Written(count)


def _checked(
    topics: "TopicQueues", fields: Sequence[str], options: Options
) -> Callable[[str], Sequence[MessageQueue]]:
    """Return what gives the queues of a topic, if its brokers can do what the columns ask for."""
    if timers.COLUMN.lower() not in {name.lower() for name in fields}:
        return topics.of

    def config(broker: str) -> Mapping[str, str]:
        with Admin(options.name_server, client=client_settings(options)) as admin:
            return admin.broker.config(broker)

    asked = timers.BrokerTimers(config)

    def queues(topic: str) -> Sequence[MessageQueue]:
        found = topics.of(topic)
        asked.require(found)
        return found

    return queues


def _producer_settings(options: Options) -> ProducerSettings:
    usual = ProducerSettings()
    settings = replace(
        usual,
        timeout_ms=options.send_timeout_ms,
        try_timeout_ms=min(TRY_TIMEOUT_MS, options.send_timeout_ms),
        unanswered_bytes_max=UNDER_WAY_BYTES_MAX,
        body_bytes_max=max(options.message_bytes_max, usual.body_bytes_max),
    )
    method = options.compression
    if method is None:
        return replace(settings, compress_bytes_min=settings.body_bytes_max + 1)
    compression.require(method)  # each machine has its own libraries
    name, level = _PACKING[method]
    return replace(settings, compress_method=name, compress_level=level)


class TopicQueues:
    """The queues of topics, as they were when a task first asked.

    So a key keeps its queue through a task, also if queues are added meanwhile.

    Args:
        ask: Returns the queues of a topic that take messages, from the NameServer.
        patience_ms: How long to ask while nobody answers.
        clock: Whose time counts.
        wait: Blocks for this many seconds.
    """

    def __init__(
        self,
        ask: Callable[[str], Sequence[MessageQueue]],
        patience_ms: int,
        clock: Clock,
        wait: Callable[[float], None],
    ) -> None:
        self._ask = ask
        self._patience_ms = patience_ms
        self._clock = clock
        self._wait = wait
        self._known: dict[str, Sequence[MessageQueue]] = {}

    def of(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues of a topic that take messages.

        Raises:
            NoSuchTopic: Nobody knows it, nor does a broker that starts register it soon.
            ClientError: Nobody answered for as long as a message is tried.
        """
        if topic in self._known:
            return self._known[topic]
        begun = self._clock.monotonic()
        while True:
            try:
                found = self._known[topic] = self._ask(topic)
            except (NoRoute, NotConnected, RequestTimeout) as error:
                is_unknown = isinstance(error, NoSuchTopic)
                patience_ms = UNKNOWN_TOPIC_MS if is_unknown else self._patience_ms
                if (self._clock.monotonic() - begun) * 1000 >= patience_ms:
                    raise
                self._wait(_ASK_AGAIN_S)
            else:
                return found


def _task() -> Any:
    """Return what Spark says of the task that runs."""
    from pyspark import TaskContext

    return TaskContext.get()


def _kinds(schema: Any) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _refuse_overwrite(*, is_asked: bool) -> None:
    if is_asked:
        raise SettingsError(
            "messages are only added: write with .mode('append'), a stream not with "
            "outputMode('complete')"
        )


def _count(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(message.count for message in messages if message is not None)


def _tell_abort(messages: Sequence[WriterCommitMessage | None], name: str) -> None:
    _log.warning(
        "the write failed; what was sent stays, and will have the same unique keys again",
        count=_count(messages),
        write=name,
    )
