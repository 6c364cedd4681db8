"""Options of the format `rocketmq`: declared once, read here, listed in docs/guides/spark.md.

Spark hands options over as text, their names in lower case. An option that is not declared is an
error that names the nearest one.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Mapping
from enum import Flag, auto
from functools import partial
from typing import Any, TypeAlias

from sprocket.base import compression
from sprocket.base.compression import Method
from sprocket.base.errors import InvalidMessage, MethodMissing, SettingsError
from sprocket.base.units import MIB
from sprocket.rocketmq.model import filters
from sprocket.rocketmq.model.route import Replica
from sprocket.spark.filters import ROCKETMQ, FilteredColumns, Limits
from sprocket.spark.mode import Mode
from sprocket.spark.source_options import (
    FILE_SYSTEM,
    Option,
    Pattern,
    boolean,
    by_name,
    byte_size,
    count,
    count_or_none,
    declare,
    declared,
    duration_ms,
    folder,
    mode,
    names,
    one_of,
    pattern,
    read_values,
    time_ms,
)

EARLIEST, LATEST = -2, -1
"""Stand for a queue offset in `startingOffsets` and `endingOffsets`."""

QueueNumbers: TypeAlias = dict[str, dict[str, dict[int, int]]]
"""A number by topic, broker and queue: an offset, or a time in ms since 1970."""

OffsetsWanted: TypeAlias = int | QueueNumbers
"""EARLIEST, LATEST, or a queue offset by topic, broker and queue."""

Assigned: TypeAlias = dict[str, dict[str, tuple[int, ...]]]
"""Queues by topic and broker."""


class Where(Flag):
    """Which ways of reading an option belongs to."""

    DIRECTORY_BATCH = auto()
    DIRECTORY_STREAM = auto()
    LIVE_BATCH = auto()
    LIVE_STREAM = auto()
    DIRECTORY = DIRECTORY_BATCH | DIRECTORY_STREAM
    LIVE = LIVE_BATCH | LIVE_STREAM
    BATCH = DIRECTORY_BATCH | LIVE_BATCH
    STREAM = DIRECTORY_STREAM | LIVE_STREAM
    BOTH = DIRECTORY | LIVE
    SINK = auto()
    WIRE = LIVE | SINK


_CALLED = {
    Where.DIRECTORY_BATCH: "spark.read of a store directory",
    Where.DIRECTORY_STREAM: "spark.readStream of a store directory",
    Where.DIRECTORY: "a store directory",
    Where.LIVE_BATCH: "spark.read of live topics",
    Where.LIVE_STREAM: "spark.readStream of live topics",
    Where.LIVE: "live topics",
    Where.SINK: "writing to topics",
}


def _place(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise ValueError("must be a whole number from 0")
    return int(text)


def _paths(text: str) -> tuple[str, ...]:
    expected = "must be a JSON list of directories"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(expected) from error
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(expected)
    return tuple(folder(one) for one in found)


def _tags(text: str) -> tuple[str, ...]:
    """Return the tags of an expression, none for all messages."""
    # The client is not loaded where nobody needs it.
    from sprocket.rocketmq.client.consumer import check_tags

    try:
        wanted = filters.parse(check_tags(text).strip() or filters.ALL)
    except InvalidMessage as error:
        raise ValueError(f"must be tags with || between them: {error}") from error
    return () if wanted is None else wanted.tags


def _condition(text: str) -> str:
    """Return a condition that can be compiled."""
    from sprocket.rocketmq.client.consumer import checked
    from sprocket.rocketmq.model.filters import Sql

    try:
        return checked(Sql(text)).text
    except InvalidMessage as error:
        raise ValueError(f"must be a condition in SQL92: {error}") from error


def _group(text: str) -> str:
    from sprocket.rocketmq.client.producer import check_group

    try:
        return check_group(text)
    except InvalidMessage as error:
        raise ValueError(str(error)) from error


def _replica(text: str) -> Replica:
    return "prefer" if one_of("master", "prefer")(text) == "prefer" else "master"


def _compression(text: str) -> Method | None:
    chosen = one_of("none", *(method.value.lower() for method in Method))(text)
    if chosen == "none":
        return None
    method = Method(chosen.upper())
    try:
        compression.require(method)
    except MethodMissing as error:
        raise ValueError(str(error)) from error
    return method


def _queue_numbers(text: str, expected: str, least: int) -> QueueNumbers:
    try:
        found = json.loads(text)
        queues = {
            topic: {
                broker: {int(queue): number for queue, number in numbers.items()}
                for broker, numbers in brokers.items()
            }
            for topic, brokers in found.items()
        }
    except (ValueError, AttributeError) as error:
        raise ValueError(expected) from error
    for brokers in queues.values():
        for numbers in brokers.values():
            if any(queue < 0 for queue in numbers):
                raise ValueError(expected)
            if any(type(number) is not int or number < least for number in numbers.values()):
                note = ", offsets from 0, or -2 earliest, -1 latest" if least < 0 else ""
                raise ValueError(expected + note)
    return queues


def _offsets(text: str) -> OffsetsWanted:
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    expected = 'must be earliest, latest or JSON such as {"topic":{"broker":{"0":23}}}'
    return _queue_numbers(text, expected, EARLIEST)


def _times(text: str) -> QueueNumbers:
    expected = 'must be ms since 1970 as JSON such as {"topic":{"broker":{"0":1700000000000}}}'
    return _queue_numbers(text, expected, 0)


def _assign(text: str) -> Assigned:
    expected = 'must be JSON such as {"topic":{"broker":[0,1]}}'
    try:
        found = json.loads(text)
        queues = {
            topic: {broker: tuple(numbers) for broker, numbers in brokers.items()}
            for topic, brokers in found.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(expected) from error
    numbers = [one for brokers in queues.values() for some in brokers.values() for one in some]
    if not numbers or any(type(one) is not int or one < 0 for one in numbers):
        raise ValueError(expected)
    return queues


def _option(
    where: Where,
    name: str,
    read: Callable[[str], Any],
    default: Any,
    note: str,
    *,
    is_secret: bool = False,
) -> Any:
    """Declare an option of `Options`; `default` is its value when it is not given."""
    return declare(Option(name, read, note, where), default, is_secret=is_secret)


_both = partial(_option, Where.BOTH)
_of_directories = partial(_option, Where.DIRECTORY)
_live = partial(_option, Where.LIVE)
_wire = partial(_option, Where.WIRE)
_of_sinks = partial(_option, Where.SINK)
_streams = partial(_option, Where.STREAM)
_of_batches = partial(_option, Where.BATCH)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options, read. Those of the other source have their defaults."""

    path: str = _of_directories(
        "path",
        folder,
        "",
        "the store directory; what `load` is given: on the local disk, or `s3://`, `hdfs://` and"
        " the like",
    )
    paths: tuple[str, ...] = _option(
        Where.DIRECTORY_BATCH,
        "paths",
        _paths,
        (),
        "several of them, as a JSON list; what `load` is given a list of",
    )
    file_system: tuple[tuple[str, str], ...] = _of_directories(
        FILE_SYSTEM,
        str,
        (),
        "settings of the file system that `path` is on, such as `fs.endpoint_override`,"
        " `fs.access_key` and `fs.secret_key`",
        is_secret=True,
    )
    name_server: str = _wire(
        "nameServer", str, "", "`host:port` of the NameServer, several with `;` between"
    )
    tls: bool = _wire(
        "tls", boolean, False, "encrypt every connection; so does each of the files below"
    )
    tls_trust_path: str = _wire(
        "tlsTrustPath",
        str,
        "",
        "PEM file of the authorities that servers must be signed by, on every machine that runs a "
        "task, as the other files; without it servers are not checked",
    )
    tls_cert_path: str = _wire(
        "tlsCertPath", str, "", "PEM file of our own certificate, where one is asked for"
    )
    tls_key_path: str = _wire("tlsKeyPath", str, "", "PEM file of its key")
    tls_key_password: str = _wire(
        "tlsKeyPassword", str, "", "of the key; Spark hides it in its UI", is_secret=True
    )
    access_key: str = _wire(
        "accessKey", str, "", "sign every request as this user, for brokers that want it"
    )
    secret_key: str = _wire(
        "secretKey", str, "", "its password; Spark hides it in its UI", is_secret=True
    )
    credentials_path: str = _wire(
        "credentialsPath",
        str,
        "",
        "instead: a file with lines `accessKey: …` and `secretKey: …`, on every machine that runs"
        " a task, or the variables SPROCKET_ACCESS_KEY and SPROCKET_SECRET_KEY there",
    )
    topics: tuple[str, ...] = _both(
        "subscribe", names, (), "topics, commas between; a directory gives all without it"
    )
    topic_pattern: Pattern | None = _both(  # noqa: RUF009 - a field, and no value that all share
        "subscribePattern", pattern, None, "instead: a regular expression of their whole names"
    )
    assigned: Assigned | None = _both(  # noqa: RUF009 - as above
        "assign", _assign, None, 'instead: queues, such as `{"topic":{"broker":[0,1]}}`'
    )
    columns: tuple[str, ...] = _both(
        "columns", names, (), "names of the columns wanted, commas between"
    )
    filters: Limits | None = _of_batches(  # noqa: RUF009 - as above
        FilteredColumns.OPTION,
        ROCKETMQ.read,
        None,
        "what a query's filters say of `topic`, `queueId` and `storeTimestamp`; set by `pruned` and"
        " `sql`",
    )
    view: str = _both(
        "view",
        one_of("full", "meta", "raw"),
        "full",
        "`meta` leaves out body and properties, `raw` gives the stored bytes",
    )
    include_properties: bool = _both(
        "includeProperties", boolean, True, "false leaves out the column `properties`"
    )
    properties_format: str = _both(
        "propertiesFormat",
        one_of("map", "json"),
        "map",
        "`json` makes `properties` text, as the old connector had it",
    )
    tags: tuple[str, ...] = _both(
        "subExpression", _tags, (), "only messages with one of these tags, `||` between; `*` is all"
    )
    condition: str = _both(
        "filter",
        _condition,
        "",
        "instead of tags: only messages whose properties pass this condition, in the SQL92 of"
        " brokers, which then send no others",
    )
    decompress: bool = _both("decompress", boolean, True, "unpack bodies that the producer packed")
    verify_crc: bool | None = _both(
        "verifyCrc",
        boolean,
        None,
        "compare records with their checksums, 0.2 to 0.4 µs each; by default where bodies or"
        " properties are read, with `true` everywhere, with `false` nowhere",
    )
    mode: Mode = _both(  # noqa: RUF009 - as above
        "mode",
        mode,
        Mode.FAILFAST,
        "damage fails the query; `PERMISSIVE` gives a row with `corruption`, "
        "`DROPMALFORMED` leaves it out",
    )
    fail_on_data_loss: bool = _both(
        "failOnDataLoss", boolean, True, "fail if what should be read was cleaned away meanwhile"
    )
    include_internal_topics: bool = _of_directories(
        "includeInternalTopics", boolean, False, "also system, retry and half-message topics"
    )
    compacted: bool = _option(
        Where.DIRECTORY_BATCH,
        "compacted",
        boolean,
        False,
        "of compaction topics only: the last message of each key in a queue, without those that"
        " were deleted",
    )
    split_mode: str = _of_directories(
        "splitMode",
        one_of("resync", "chain"),
        "resync",
        "how to find places to cut at; `chain` walks every record, 0.2 to 0.7 s a GiB",
    )
    partition_bytes_max: int = _of_directories(
        "maxPartitionBytes", byte_size, 0, "bytes of the log per task; by default 64 to 256 MiB"
    )
    starting_offsets: OffsetsWanted = _both(  # noqa: RUF009 - as above
        "startingOffsets",
        _offsets,
        EARLIEST,
        'where a new query starts: `earliest`, `latest` or `{"topic":{"broker":{"0":23}}}`',
    )
    ending_offsets: OffsetsWanted = _of_batches(  # noqa: RUF009 - as above
        "endingOffsets", _offsets, LATEST, "where a batch ends, before that offset; like this"
    )
    starting_at_ms: int | None = _both(
        "startingTimestamp",
        time_ms,
        None,
        "first store time wanted, in ms since 1970 or as `2026-01-31T12:00:00Z`; wins over the"
        " options of offsets",
    )
    ending_at_ms: int | None = _of_batches(
        "endingTimestamp", time_ms, None, "first store time that a batch does not want; like this"
    )
    starting_times: QueueNumbers | None = _both(  # noqa: RUF009 - as above
        "startingOffsetsByTimestamp",
        _times,
        None,
        'first store time wanted by queue, `{"topic":{"broker":{"0":1700000000000}}}`; wins over'
        " `startingOffsets`",
    )
    ending_times: QueueNumbers | None = _of_batches(  # noqa: RUF009 - as above
        "endingOffsetsByTimestamp", _times, None, "first store time not wanted by queue; like this"
    )
    time_strategy: str = _live(
        "startingOffsetsByTimestampStrategy",
        one_of("latest", "error"),
        "latest",
        "where a queue has nothing from its starting time on: start at its end, or fail",
    )
    partitions_min: int = _both(
        "minPartitions",
        count,
        0,
        "tasks wanted at least; how many there are depends on where messages end. By default a long"
        " queue is a task and short ones share some, or there is one for `maxPartitionBytes`",
    )
    starting_place: int | None = _option(
        Where.DIRECTORY_STREAM,
        "startingPhysicalOffset",
        _place,
        None,
        "where a new query starts in the log, bytes from its beginning: a value of the column "
        "`physicalOffset`",
    )
    bytes_per_trigger_max: int = _option(
        Where.DIRECTORY_STREAM,
        "maxBytesPerTrigger",
        byte_size,
        0,
        "bytes of the log per micro-batch at most, but one message at least; no limit without it",
    )
    offsets_per_trigger_max: int = _streams(
        "maxOffsetsPerTrigger",
        count,
        0,
        "messages per micro-batch at most, in a directory those of all topics; no limit without it",
    )
    offsets_per_trigger_min: int = _streams(
        "minOffsetsPerTrigger",
        count,
        0,
        "messages that a micro-batch waits for, `maxTriggerDelay` at most",
    )
    trigger_delay_ms_max: int = _streams(
        "maxTriggerDelay",
        duration_ms,
        15 * 60_000,
        "how long after the last micro-batch the next begins with less, such as `500ms` or `15m`",
    )
    consumer_group: str = _live(
        "consumerGroup",
        _group,
        "",
        "the name under which brokers see the pulls; the group is not joined, and its offsets do "
        "not decide where a query starts",
    )
    commit_offsets: bool = _option(
        Where.LIVE_STREAM,
        "commitOffsets",
        boolean,
        False,
        "commit the query's progress as offsets of `consumerGroup`, for tools that show its lag",
    )
    replica: Replica = _live(  # noqa: RUF009 - as above
        "replica",
        _replica,
        "master",
        "`prefer` reads from a slave of each broker that has one, and asks its master only for "
        "what the slave does not have",
    )
    retries_max: int = _live(
        "fetchOffset.numRetries",
        count_or_none,
        120,
        "tries after a network error, when planning and reading",
    )
    retry_wait_ms: int = _live(
        "fetchOffset.retryIntervalMs",
        count,
        500,
        "wait between two tries; with 120 tries a minute in all",
    )
    pull_timeout_ms: int = _wire("pullTimeoutMs", count, 10_000, "how long one request may take")
    pull_count_max: int = _live(
        "pullBatchSize", count, 1024, "messages asked for at once; a broker may give fewer"
    )
    target_topic: str = _of_sinks("topic", str, "", "the topic of all rows, whatever a column says")
    key_column: str = _of_sinks(
        "keyColumn",
        str,
        "",
        "column whose value makes the unique key of a row, the same whenever it is written",
    )
    producer_group: str = _of_sinks(
        "producerGroup",
        _group,
        "sprocket-spark",
        "the name under which brokers see the sends",
    )
    app_id: str = _of_sinks(
        "txnAppId",
        str,
        "",
        "name of what is written: repeats of it have the same unique keys; by default the query of "
        "a stream, and each write of a DataFrame is its own",
    )
    app_version: str = _of_sinks(
        "txnVersion",
        str,
        "",
        "with `txnAppId`, the number of a batch, as `foreachBatch` gives it; streams know theirs",
    )
    messages_per_second_max: int = _of_sinks(
        "maxMessagesPerSecond",
        count,
        0,
        "for the whole write, divided by the tasks that run at a time; no limit without it",
    )
    tasks_at_once: int = _of_sinks(
        "concurrentTasks", count, 0, "how many these are, where Spark's settings do not say"
    )
    send_timeout_ms: int = _of_sinks(
        "sendTimeoutMs",
        count,
        60_000,
        "how long a message is tried; a broker may be started again meanwhile",
    )
    message_bytes_max: int = _of_sinks(
        "maxMessageBytes", byte_size, 4 * MIB, "refuse a longer body; brokers have a limit, too"
    )
    takes_empty_bodies: bool = _of_sinks(
        "emptyBodies",
        boolean,
        False,
        "send empty bodies, too: RocketMQ's clients do not, and in Java get null for one",
    )
    compression: Method | None = _of_sinks(  # noqa: RUF009 - as above
        "compression",
        _compression,
        None,
        "how bodies of 4 KiB or more are packed: `none`, `zlib`, `lz4` or `zstd`; packed ones are"
        " sent one by one, others in batches",
    )
    drops_empty_properties: bool = _of_sinks(
        "dropEmptyProperties",
        boolean,
        False,
        "leave out properties whose value is null or empty, which RocketMQ cannot carry; by default"
        " a row with one fails the write",
    )

    @property
    def first_offsets(self) -> OffsetsWanted:
        """Where queues begin, unless times say so."""
        by_time = self.starting_at_ms is not None or self.starting_times is not None
        return EARLIEST if by_time else self.starting_offsets

    @property
    def last_offsets(self) -> OffsetsWanted:
        """Where queues end, unless times say so."""
        by_time = self.ending_at_ms is not None or self.ending_times is not None
        return LATEST if by_time else self.ending_offsets

    @property
    def first_times(self) -> QueueNumbers | None:
        """The first store times wanted by queue, unless there is one for all."""
        return self.starting_times if self.starting_at_ms is None else None

    @property
    def last_times(self) -> QueueNumbers | None:
        """The first store times not wanted by queue, unless there is one for all."""
        return self.ending_times if self.ending_at_ms is None else None

    @property
    def queue_tables(self) -> "Mapping[str, QueueNumbers]":
        """The options that say something of single queues, by name."""
        tables = {
            "startingOffsets": self.first_offsets,
            "endingOffsets": self.last_offsets,
            "startingOffsetsByTimestamp": self.first_times,
            "endingOffsetsByTimestamp": self.last_times,
        }
        return {name: table for name, table in tables.items() if isinstance(table, dict)}

    def names_topic(self, topic: str) -> bool:
        """Tell whether a topic is among those named; all are if none is."""
        if self.topics:
            return topic in self.topics
        if self.assigned is not None:
            return topic in self.assigned
        return self.topic_pattern is None or bool(self.topic_pattern.fullmatch(topic))


OPTIONS = by_name(Options)
ALIASES = {"topic": "subscribe", "pulltimeout": "pulltimeoutms", "group": "consumergroup"}
SINK_ALIASES = {"pulltimeout": "pulltimeoutms", "group": "producergroup"}
"""Names that the old connector had, in lower case; a sink's `topic` is its own."""

_OF_SPARK = frozenset({"checkpointlocation"})
"""What Spark gives a sink beside its own options."""


def read_directory(given: Mapping[str, str], *, is_stream: bool = False) -> Options:
    """Read the options of `spark.read.format("rocketmq").load(path)`, or of `spark.readStream`.

    Raises:
        SettingsError: One is unknown, unreadable, or does not belong there.
    """
    options = _read(given, Where.DIRECTORY_STREAM if is_stream else Where.DIRECTORY_BATCH)
    if bool(options.path) == bool(options.paths):
        raise SettingsError(
            "say which store to read: .load('<store directory>'); of a table that was created with"
            " columns of its own: WITH (path = '<store directory>')"
        )
    brokers = {broker for one in (options.assigned or {}).values() for broker in one}
    for table in options.queue_tables.values():
        brokers |= {broker for one in table.values() for broker in one}
    if len(brokers) > 1:
        names = " and ".join(sorted(brokers))
        raise SettingsError(f"a store directory is of one broker; the options name {names}")
    return options


def read_live_batch(given: Mapping[str, str]) -> Options:
    """Read the options of `spark.read.format("rocketmq")` over topics.

    Raises:
        SettingsError: One is unknown, unreadable, missing, or does not belong there.
    """
    return _of_a_cluster(_read(given, Where.LIVE_BATCH))


def read_live(given: Mapping[str, str]) -> Options:
    """Read the options of `spark.readStream.format("rocketmq")` over topics.

    Raises:
        SettingsError: One is unknown, unreadable, missing, or does not belong there.
    """
    return _of_a_cluster(_read(given, Where.LIVE_STREAM))


def read_any(given: Mapping[str, str]) -> Options:
    """Read the options as far as batch and stream share them: all that a schema depends on."""
    return _read(given, Where.LIVE if is_live(given) else Where.DIRECTORY)


def is_live(given: Mapping[str, str]) -> bool:
    """Tell whether the options name a cluster, and no folder."""
    return "nameserver" in {name.lower() for name in given}


def read_sink(given: Mapping[str, str]) -> Options:
    """Read the options of `df.write` and `df.writeStream` with `.format("rocketmq")`.

    Raises:
        SettingsError: One is unknown, unreadable, missing, or belongs to a source.
    """
    options = _read(given, Where.SINK)
    if not options.name_server:
        raise SettingsError("say where the cluster is: .option('nameServer', 'host:port')")
    return options


def _of_a_cluster(options: Options) -> Options:
    if not options.name_server:
        raise SettingsError("say where the cluster is: .option('nameServer', 'host:port')")
    if not (options.topics or options.topic_pattern or options.assigned):
        raise SettingsError("say what to read: .option('subscribe', 'topic')")
    return options


def _check_batch(options: Options, called: str) -> None:
    """Raise if a batch is asked to begin at the end, or to end at the beginning."""
    for name, wanted, refused, word in (
        ("startingOffsets", options.starting_offsets, LATEST, "latest"),
        ("endingOffsets", options.ending_offsets, EARLIEST, "earliest"),
    ):
        if wanted == refused or (isinstance(wanted, dict) and refused in _numbers(wanted)):
            raise SettingsError(f"option {name!r} must not be {word} ({refused}) in {called}")


def _check_topics(options: Options, given: Collection[str]) -> None:
    """Raise if topics or messages are chosen in several ways, or queues that are not read."""
    ways = {"topics": "subscribe", "topic_pattern": "subscribePattern", "assigned": "assign"}
    named = [name for field, name in ways.items() if field in given]
    if len(named) > 1:
        raise SettingsError(f"options {' and '.join(named)} exclude each other; give one")
    if options.tags and options.condition:
        raise SettingsError("options subExpression and filter exclude each other; give one")
    for name, table in options.queue_tables.items():
        for topic, brokers in table.items():
            for broker, queues in brokers.items():
                assigned = (options.assigned or {}).get(topic, {}).get(broker)
                for queue in queues:
                    is_read = options.names_topic(topic) if assigned is None else queue in assigned
                    if not is_read or (assigned is None and options.assigned):
                        raise SettingsError(
                            f"{name} names queue {queue} of topic {topic!r} on {broker!r}, which is"
                            " not read"
                        )


def _numbers(table: QueueNumbers) -> set[int]:
    """Return the numbers of a table."""
    return {
        number
        for brokers in table.values()
        for numbers in brokers.values()
        for number in numbers.values()
    }


def _read(given: Mapping[str, str], where: Where) -> Options:
    def check(option: Option) -> None:
        if not where & option.where:
            raise SettingsError(f"option {option.name!r} does not go with {_CALLED[where]}")

    if where is Where.SINK:
        given = {name: text for name, text in given.items() if name.lower() not in _OF_SPARK}
    aliases = SINK_ALIASES if where is Where.SINK else ALIASES
    values = read_values(Options, given, aliases=aliases, check=check)
    options = Options(**values)
    _check_topics(options, values)
    _check_trigger(options, values)
    _check_compacted(options, values)
    if not where & Where.STREAM:
        _check_batch(options, _CALLED[where])
    return options


_NOT_COMPACTED = frozenset(
    {
        *("starting_offsets", "ending_offsets", "starting_times", "ending_times"),
        *("starting_at_ms", "ending_at_ms", "partitions_min", "partition_bytes_max", "split_mode"),
    }
)
"""Options of parts of a log or a queue; a key's last message is that of all of it."""


def _check_compacted(options: Options, given: Collection[str]) -> None:
    """Raise if only a part is asked for where the last messages of all are."""
    if options.compacted and (parts := sorted(_NOT_COMPACTED.intersection(given))):
        name = declared(Options)[parts[0]].name
        raise SettingsError(f"options compacted and {name} exclude each other; leave {name} away")


def _check_trigger(options: Options, given: Collection[str]) -> None:
    """Raise if what says how much a micro-batch reads contradicts itself."""
    low, high = options.offsets_per_trigger_min, options.offsets_per_trigger_max
    if high and low > high:
        raise SettingsError(
            f"minOffsetsPerTrigger is {low}, which maxOffsetsPerTrigger, {high}, does not allow"
        )
    if options.commit_offsets and not options.consumer_group:
        raise SettingsError("commitOffsets needs a name to note progress under: consumerGroup")
    if options.starting_place is not None and "starting_offsets" in given:
        raise SettingsError("options startingOffsets and startingPhysicalOffset exclude each other")
    if "trigger_delay_ms_max" in given and not low:
        raise SettingsError("maxTriggerDelay goes with minOffsetsPerTrigger, which is not given")
