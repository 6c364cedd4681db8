"""The job `replay`: messages of a store or an archive go to topics again, as SQL says.

Messages of one queue are sent by one task, in their order, to one queue. Each keeps its unique key,
so a message that is sent twice, for example by a repeated task, can be recognized by it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX
from sprocket.spark.archive import archive_files, is_archive, read_archive
from sprocket.spark.failures import in_one_line
from sprocket.spark.files import local_path, open_files
from sprocket.spark.jobs.cluster import NO_CLUSTER, JobCluster
from sprocket.spark.jobs.damage import left_out
from sprocket.spark.jobs.job import (
    JobOption,
    JobReport,
    SkipDamaged,
    Verify,
    damage_rows,
    reading,
)
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles, pairs
from sprocket.spark.jobs.tasks import collected
from sprocket.spark.rocketmq import read_sink
from sprocket.spark.rocketmq.folder import LeftOut, Stored
from sprocket.spark.session import activate
from sprocket.spark.watching import watched

SENT = ("topic", "body", "tags", "keys", "properties", "msgId", "flag", "sysFlag")
"""Columns that are sent, and may be changed."""


class ReplayReport(JobReport, frozen=True, kw_only=True):
    """What was sent, or would be.

    Attributes:
        messages: How many messages.
        bytes: Their bodies.
        is_sent: False for a dry run.
        damaged: Places of the store that were left out, as they are damaged or lost.
        topics: Of a dry run, a row for each topic: `topic`, `messages`, `bytes`.
        topics_missing: Of these, the topics that the cluster does not have, if one is named.
        damage: A row for each of the first 1,000 damaged places: `file`, `position` in it, `start`
            (its physical offset), `bytes`, `why`.
    """

    messages: int
    bytes: int
    is_sent: bool
    damaged: int
    topics: list[dict[str, Any]]
    topics_missing: list[str]
    damage: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedMessages:
    """Which messages are sent again."""

    topic: Annotated[list[str], JobOption("Only of this topic; may be repeated.", also="-t")] = ()  # type: ignore[assignment]
    dead_letters: Annotated[
        str,
        JobOption("The dead letters of this group, each to the topic it was sent to.", "GROUP"),
    ] = ""
    where: Annotated[str, JobOption("Only messages for which this holds, in SQL.", "SQL")] = ""
    skip_damaged: SkipDamaged = False
    verify: Verify = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySending:
    """What becomes of them, and how they are sent."""

    change: Annotated[
        list[str],
        JobOption("Change a column, such as `body=upper(body)`; may be repeated.", "COLUMN=SQL"),
    ] = ()  # type: ignore[assignment]
    to: Annotated[str, JobOption("Send to this topic, not to the messages' own.", "TOPIC")] = ""
    rate: Annotated[int, JobOption("Messages a second at most; 0 for no limit.")] = 0
    option: Annotated[
        list[str],
        JobOption(
            "An option of the sink, such as `maxMessageBytes=1m`; may be repeated.", "NAME=VALUE"
        ),
    ] = ()  # type: ignore[assignment]
    dry_run: Annotated[bool, JobOption("Count what would be sent, and send nothing.")] = False


ALL_MESSAGES = ReplayedMessages()
AS_THEY_ARE = ReplaySending()


def replay(
    spark: Any,
    *,
    source: Annotated[str, JobOption("A store's folder, or an archive.", "FOLDER", True)],
    files: JobFiles = LOCAL_FILES,
    cluster: JobCluster = NO_CLUSTER,
    messages: ReplayedMessages = ALL_MESSAGES,
    sending: ReplaySending = AS_THEY_ARE,
    progress: Step = unwatched,
) -> ReplayReport:
    """Send messages of a store or an archive to topics again.

    Raises:
        SettingsError: A topic, a column or an option is unknown, or no cluster is named.
        StoreError: The folder is neither store nor archive, or its log lacks something.
        ClientError: The cluster does not answer.
        QueryFailed: The SQL is wrong, or a message could not be sent; earlier ones were.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    files.require_use(source)
    if not cluster.name_server and not sending.dry_run:
        raise SettingsError("name the cluster by --name-server, or ask for a --dry-run")
    if messages.dead_letters and messages.topic:
        raise SettingsError("--dead-letters names a topic already; leave --topic away")
    changes = _changes(sending.change)
    options = _options(cluster, sending)
    _require_source(source, files, messages)
    there = cluster.topics() if cluster.name_server else None
    if there is not None and sending.to and sending.to not in there and not sending.dry_run:
        raise SettingsError(f"the cluster has no topic {sending.to!r}{hint(sending.to, there)}")
    damage = LeftOut()
    if messages.skip_damaged and not _is_archive(source, files):
        damage = left_out(spark, source, files, verify=messages.verify, progress=progress)
    with in_one_line():
        chosen = _by_queue(_chosen(spark, source, files, messages))
        rows = _changed(chosen, messages, changes, sending.to)
        sent = rows.select(*SENT, "shardingKey")
    size = F.coalesce(F.octet_length("body"), F.lit(0))
    if sending.dry_run:
        counts = sent.groupBy("topic").agg(
            F.count("*").alias("messages"), F.sum(size).alias("bytes")
        )
        topics = collected(spark, counts.orderBy("topic"), progress, "counting")
        return ReplayReport(
            messages=sum(row["messages"] for row in topics),
            bytes=sum(row["bytes"] for row in topics),
            is_sent=False,
            damaged=damage.count,
            topics=topics,
            topics_missing=[
                row["topic"] for row in topics if there is not None and row["topic"] not in there
            ],
            damage=damage_rows(damage.named),
        )
    seen = Observation()
    sent = sent.observe(seen, F.count("*").alias("messages"), F.sum(size).alias("bytes"))
    writer = sent.write.format("rocketmq").mode("append").options(**options)
    activate(spark)
    with in_one_line(), watched(spark, progress, "sending"):
        writer.save()
    found = seen.get
    return ReplayReport(
        messages=found["messages"],
        bytes=found["bytes"] or 0,
        is_sent=True,
        damaged=damage.count,
        topics=[],
        topics_missing=[],
        damage=damage_rows(damage.named),
    )


def _options(cluster: JobCluster, sending: ReplaySending) -> dict[str, str]:
    """Return the options of the sink.

    Raises:
        SettingsError: One is wrong.
    """
    options = {**cluster.options, **dict(pairs(sending.option, "option"))}
    if sending.rate:
        options["maxMessagesPerSecond"] = str(sending.rate)
    read_sink({"nameServer": "none asked for", **options})
    return options


def _require_source(source: str, files: JobFiles, messages: ReplayedMessages) -> None:
    """Check, without Spark, that the folder has what is wanted.

    Raises:
        SettingsError: A topic is not there.
        StoreError: The folder is neither store nor archive, or its log lacks something.
    """
    topics = _topics(messages)
    if _is_archive(source, files):
        archive_files(source, topics, files.settings(source))
        return
    about_damage = reading(skip_damaged=messages.skip_damaged, verify=messages.verify)
    given = files.options(source) | about_damage
    Stored.plan(source, columns=["size"], topics=topics, more=given)


def _topics(messages: ReplayedMessages) -> list[str]:
    """Return the topics that are read; none for all."""
    dead = messages.dead_letters
    return [DEAD_LETTER_PREFIX + dead] if dead else list(messages.topic)


def _chosen(spark: Any, source: str, files: JobFiles, messages: ReplayedMessages) -> Any:
    """Return the rows of the messages that are sent, as they were stored."""
    rows = _read(spark, source, files, _topics(messages), messages)
    return rows.where(messages.where) if messages.where else rows


def _is_archive(source: str, files: JobFiles) -> bool:
    return is_archive(open_files(source, files.settings(source)), local_path(source) or source)


def _read(
    spark: Any,
    source: str,
    files: JobFiles,
    topics: Sequence[str],
    messages: ReplayedMessages,
) -> Any:
    if _is_archive(source, files):
        return read_archive(spark, source, topics, files.settings(source))
    reader = spark.read.format("rocketmq").options(**files.options(source))
    reader = reader.options(**reading(skip_damaged=messages.skip_damaged, verify=messages.verify))
    if topics:
        reader = reader.option("subscribe", ",".join(topics))
    return reader.load(source)


def _changed(
    rows: Any, messages: ReplayedMessages, changes: Sequence[tuple[str, str]], to: str
) -> Any:
    """Return the rows as they are sent."""
    from pyspark.sql import functions as F

    if messages.dead_letters and not to:
        rows = rows.withColumn("topic", _origin())
    for column, text in changes:
        rows = rows.withColumn(column, F.expr(text))
    return rows.withColumn("topic", F.lit(to)) if to else rows


def _by_queue(rows: Any) -> Any:
    """Return the rows of a queue together, in their order, with a key that keeps them so."""
    from pyspark.sql import functions as F

    key = F.concat_ws("/", "topic", "queueId")
    together = rows.withColumn("shardingKey", key).repartition("shardingKey")
    return together.sortWithinPartitions("shardingKey", "queueOffset")


def _origin() -> Any:
    """Return the topic that a dead letter was sent to."""
    from pyspark.sql import functions as F

    name = F.element_at("properties", properties.RETRY_TOPIC)
    nameless = F.raise_error(
        F.concat(
            F.lit("a dead letter does not say its topic, give one by --to; its id is "), "msgId"
        )
    )
    return F.when(name.isNull(), nameless).otherwise(name)


def _changes(texts: Sequence[str]) -> list[tuple[str, str]]:
    changes = pairs(texts, "change")
    for column, _ in changes:
        if column not in SENT:
            meant = hint(column, SENT) or f"; there are {', '.join(SENT)}"
            raise SettingsError(f"column {column!r} cannot be changed{meant}")
    return changes
