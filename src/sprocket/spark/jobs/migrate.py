"""The job `migrate`: messages in the queues of a stopped RabbitMQ go to topics of RocketMQ.

Theory of operation. The queues are read twice: first without bodies, to count where every message
would go, and to find what cannot go there, so that nothing is sent if something is wrong; then to
be sent. The messages of a queue are sent by one task, in the order in which a consumer would get
them, to one queue of their topic. Each gets a unique key that is made of its id and its place. A
run that was killed is run again from the start: it writes the same keys, by which readers know the
doubles.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from sprocket.base.clock import SystemClock
from sprocket.base.disk import RealDisk, read_file
from sprocket.base.errors import InvalidMessage, SettingsError
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.client.producer import check_topic
from sprocket.rocketmq.codec.record import properties
from sprocket.spark.failures import in_one_line
from sprocket.spark.jobs import migrated_rows, routes
from sprocket.spark.jobs.cluster import NO_CLUSTER, JobCluster
from sprocket.spark.jobs.job import JobOption, JobReport, Verify
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles, pairs
from sprocket.spark.jobs.routes import Route
from sprocket.spark.jobs.tasks import collected
from sprocket.spark.mode import Mode
from sprocket.spark.rabbitmq import require_queues
from sprocket.spark.rocketmq import read_sink
from sprocket.spark.session import activate
from sprocket.spark.source_options import time_ms
from sprocket.spark.watching import watched

DAMAGE_ROWS_MAX = 1000
"""Damaged messages that the report names."""
_GROUPS_MAX = 100_000
"""Pairs of a queue and a topic: all of them are in the report."""
_NAMED_MAX = 10
"""Topics that an error names."""


class MigrateReport(JobReport, frozen=True, kw_only=True):
    """What was sent, or would be.

    Attributes:
        is_sent: False for a dry run.
        messages: How many messages.
        bytes: Their bodies.
        expired: Messages that were left out since their time was over.
        damaged: What could not be read, and was left out.
        headers_changed: Messages with a header that is empty, and left out, or has a byte 2 in it.
        topics_missing: Topics that the cluster does not have; of a dry run with a cluster.
        topics_made: Topics that were made.
        topics_held: A row for each topic of the cluster that had messages before: `topic`,
            `messages`. They may be others, or those of an earlier run.
        routes: A row for each route: `route`, `messages`.
        queues: A row for each queue and topic: `vhost`, `queue`, `topic`, `messages`, `bytes`.
        damage: A row for each damaged message or file, the first 1,000: `vhost`, `queue`, `seqId`,
            `corruption`; what is not known is null.
    """

    is_sent: bool
    messages: int
    bytes: int
    expired: int
    damaged: int
    headers_changed: int
    topics_missing: list[str]
    topics_made: list[str]
    topics_held: list[dict[str, Any]]
    routes: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    damage: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MigratedMessages:
    """Which messages are sent."""

    vhost: Annotated[list[str], JobOption("Only of this virtual host; may be repeated.")] = ()  # type: ignore[assignment]
    queue: Annotated[list[str], JobOption("Only of this queue; may be repeated.", also="-q")] = ()  # type: ignore[assignment]
    where: Annotated[
        str,
        JobOption("Only messages for which this holds, in SQL over the format's columns.", "SQL"),
    ] = ""
    expired_by: Annotated[
        str,
        JobOption(
            "Leave out what has expired by then: `now`, or a time as 2026-01-31T12:00:00Z.", "TIME"
        ),
    ] = ""
    transient: Annotated[
        bool,
        JobOption("Messages that do not outlive a restart, too, as far as the files have them."),
    ] = False
    skip_damaged: Annotated[
        bool, JobOption("Leave out, and report, what cannot be read; else it is an error.")
    ] = False
    verify: Verify = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Where they go."""

    route: Annotated[
        list[str],
        JobOption(
            "Where messages go, such as `queue=orders.* topic=orders tag={2}`; may be repeated.",
            "ROUTE",
        ),
    ] = ()  # type: ignore[assignment]
    routes_file: Annotated[
        str, JobOption("A text file of routes, one on each line, behind those of --route.", "FILE")
    ] = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MigrateSending:
    """How they are sent."""

    create_topics: Annotated[
        int, JobOption("Make topics that are missing, with this many queues on each broker.")
    ] = 0
    rate: Annotated[int, JobOption("Messages a second at most; 0 for no limit.")] = 0
    option: Annotated[
        list[str],
        JobOption(
            "An option of the sink, such as `maxMessageBytes=16m`; may be repeated.", "NAME=VALUE"
        ),
    ] = ()  # type: ignore[assignment]
    dry_run: Annotated[bool, JobOption("Report what would be sent, and send nothing.")] = False


ALL_QUEUES = MigratedMessages()
BY_QUEUE = Routing()
AT_ONCE = MigrateSending()


def migrate(
    spark: Any,
    *,
    source: Annotated[
        str,
        JobOption(
            "The folder of a virtual host, of all of them, or a node's data.", "FOLDER", True
        ),
    ],
    files: JobFiles = LOCAL_FILES,
    cluster: JobCluster = NO_CLUSTER,
    messages: MigratedMessages = ALL_QUEUES,
    routing: Routing = BY_QUEUE,
    sending: MigrateSending = AT_ONCE,
    progress: Step = unwatched,
) -> MigrateReport:
    """Send the messages in the queues of a stopped RabbitMQ, or of ours, to topics.

    Raises:
        SettingsError: An option or a route is wrong, topics are missing, or queues would meet in
            one topic.
        StoreError: The folder has no virtual host.
        ClientError: The cluster does not answer, or will not have a topic.
        QueryFailed: The SQL is wrong, a message cannot be read, or could not be sent.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    files.require_use(source)
    if not cluster.name_server and not sending.dry_run:
        raise SettingsError("name the cluster by --name-server, or ask for a --dry-run")
    found = _Sent.read(cluster, sending)
    known = routes.read_routes([*routing.route, *_lines(routing.routes_file)])
    queues = _Queues(spark, source, files, messages)
    queues.require()
    there = cluster.topics() if cluster.name_server else None
    with in_one_line():
        counts = queues.counts(known, found.message_bytes_max)
    rows = collected(spark, counts.limit(_GROUPS_MAX + 1), progress, "counting")
    report = _report(rows, known)
    missing: list[str] = []
    if there is not None:
        topics = {row["topic"] for row in report.queues}
        missing = sorted(topics - there)
        held = cluster.held(sorted(topics & there))
        report = msgspec.structs.replace(report, topics_held=held)
    damage = queues.damage(progress) if report.damaged else []
    if sending.dry_run:
        return msgspec.structs.replace(report, topics_missing=missing, damage=damage)
    _refuse_too_large(rows, found.message_bytes_max)
    _make(cluster, missing, sending.create_topics)
    seen = Observation()
    size = F.octet_length("body")
    with in_one_line():
        sent = queues.messages(known).observe(
            seen, F.count("*").alias("messages"), F.sum(size).alias("bytes")
        )
    writer = sent.write.format("rocketmq").mode("append").options(**found.options)
    activate(spark)
    with in_one_line(), watched(spark, progress, "sending"):
        writer.save()
    done = seen.get
    return msgspec.structs.replace(
        report,
        is_sent=True,
        messages=done["messages"],
        bytes=done["bytes"] or 0,
        topics_made=missing,
        damage=damage,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Sent:
    """How the sink sends.

    Attributes:
        options: Its options.
        message_bytes_max: Bodies may have this many bytes.
    """

    options: dict[str, str]
    message_bytes_max: int

    @classmethod
    def read(cls, cluster: JobCluster, sending: MigrateSending) -> "_Sent":
        """Read options; SettingsError says which is wrong, before anything is done."""
        options = {
            **cluster.options,
            "emptyBodies": "true",
            **dict(pairs(sending.option, "option")),
        }
        if sending.rate:
            options["maxMessagesPerSecond"] = str(sending.rate)
        read = read_sink({"nameServer": "none asked for", **options})
        return cls(options, read.message_bytes_max)


class _Queues:
    """The messages that are wanted of a folder's queues."""

    def __init__(self, spark: Any, source: str, files: JobFiles, wanted: MigratedMessages) -> None:
        self._spark = spark
        self._source = source
        self._files = files
        self._wanted = wanted
        self._expired_ms = _expired_ms(wanted.expired_by)

    def counts(self, known: Sequence[Route], body_bytes_max: int) -> Any:
        """Return what is to be known before anything is sent, by queue, route and topic."""
        from pyspark.sql import functions as F

        rows = self._rows(has_bodies=False)
        is_kept = ~F.col("is_damaged") & ~F.col("is_expired")
        pairs = migrated_rows.properties_map()
        sizes = migrated_rows.properties_bytes(pairs, F.col("target.tag"), migrated_rows.keys())
        is_long = (sizes > properties.PROPERTIES_BYTES_MAX) | (F.col("bodySize") > body_bytes_max)
        rows = rows.withColumn("target", self._target(known))
        return rows.groupBy("vhost", "queue", "target.route", "target.topic").agg(
            F.count_if(is_kept).alias("messages"),
            F.sum(F.when(is_kept, F.col("bodySize")).otherwise(0)).alias("bytes"),
            F.count_if("is_expired").alias("expired"),
            F.count_if("is_damaged").alias("damaged"),
            F.count_if(is_kept & is_long).alias("too_large"),
            F.count_if(is_kept & migrated_rows.has_changed_headers()).alias("headers_changed"),
        )

    def messages(self, known: Sequence[Route]) -> Any:
        """Return the messages as the sink takes them, each queue together and in its order."""
        from pyspark.sql import functions as F

        rows = self._rows(has_bodies=True).where(~F.col("is_damaged") & ~F.col("is_expired"))
        rows = rows.withColumn("shardingKey", migrated_rows.queue_name())
        together = rows.repartition("shardingKey").sortWithinPartitions(*migrated_rows.order())
        return together.withColumn("target", self._target(known)).select(
            "target.topic",
            F.col("target.tag").alias("tags"),
            migrated_rows.keys().alias("keys"),
            migrated_rows.properties_map().alias("properties"),
            migrated_rows.unique_key().alias("msgId"),
            "shardingKey",
            "body",
        )

    def damage(self, progress: Step) -> list[dict[str, Any]]:
        """Return what cannot be read."""
        rows = self._rows(has_bodies=False).where("is_damaged")
        found = rows.select("vhost", "queue", "seqId", "corruption").limit(DAMAGE_ROWS_MAX)
        return collected(self._spark, found, progress, "looking for damage")

    def require(self) -> None:
        """Check, without Spark, that the folder has what is wanted.

        Raises:
            ForeignStore: The folder has no virtual host.
            SettingsError: A virtual host or a queue that is named is not there.
            CorruptRecord: What names the queues is damaged, and is not to be left out.
        """
        require_queues(self._source, self._options())

    def _options(self) -> dict[str, str]:
        """Return the options of the format `rabbitmq`, but for its columns."""
        wanted = self._wanted
        options = self._files.options(self._source)
        for name, values in (("vhost", wanted.vhost), ("queue", wanted.queue)):
            if values:
                options[name] = ",".join(values)
        if not wanted.transient:
            options["includeGone"] = "false"
        mode = Mode.PERMISSIVE if wanted.skip_damaged else Mode.FAILFAST
        return options | {"mode": mode.value, "verifyCrc": str(wanted.verify).lower()}

    def _rows(self, *, has_bodies: bool) -> Any:
        """Return the rows of the messages that are wanted, and whether each can be sent."""
        from pyspark.sql import functions as F

        wanted = self._wanted
        reader = self._spark.read.format("rabbitmq").options(**self._options())
        if not has_bodies and not wanted.where:
            names = [name for name in migrated_rows.SOURCE_COLUMNS if name != "body"]
            reader = reader.option("columns", ",".join(names))
        rows = reader.load(self._source)
        damage = F.col("corruption") if wanted.skip_damaged else F.lit(None).cast("string")
        rows = rows.withColumn("corruption", damage)
        is_there = (F.col("state") != "acknowledged") & F.col("id").isNotNull()
        rows = rows.where(is_there | F.col("corruption").isNotNull())
        if wanted.where:
            rows = rows.where(wanted.where)
        is_expired: Any = F.expr("false")
        if self._expired_ms is not None:
            by = F.timestamp_millis(F.lit(self._expired_ms))
            is_expired = F.coalesce(F.col("expiresAt") <= by, F.expr("false"))
        is_damaged = F.col("corruption").isNotNull()
        return rows.withColumn("is_damaged", is_damaged).withColumn(
            "is_expired", is_expired & ~is_damaged
        )

    @staticmethod
    def _target(known: Sequence[Route]) -> Any:
        target = routes.target(known)
        return target.withField("tag", migrated_rows.as_stored(target["tag"]))


def _report(rows: Sequence[Mapping[str, Any]], known: Sequence[Route]) -> MigrateReport:
    """Return what was counted as the report of a dry run.

    Raises:
        SettingsError: A topic has no lawful name, there are too many, or queues would meet in one.
    """
    if len(rows) > _GROUPS_MAX:
        raise SettingsError(
            f"the routes lead to more than {_GROUPS_MAX:,} topics; is {{routingKey}} part of them?"
        )
    by_route = [0] * len(known)
    by_queue: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    met: dict[str, tuple[str, str]] = {}
    for row in sorted(rows, key=lambda row: (row["vhost"] or "", row["queue"] or "", row["route"])):
        if not row["messages"]:
            continue
        vhost, queue, topic = row["vhost"], row["queue"], row["topic"]
        route = known[row["route"]]
        try:
            check_topic(topic)
        except InvalidMessage as error:
            raise SettingsError(
                f"queue {queue!r} of virtual host {vhost!r}, by the route {route.text!r}: {error};"
                " give it another one by --route"
            ) from error
        if "queue" in route.topic.names:
            other = met.setdefault(topic, (vhost, queue))
            if other != (vhost, queue):
                raise SettingsError(
                    f"queue {queue!r} of virtual host {vhost!r} and {other[1]!r} of {other[0]!r}"
                    f" would both go to topic {topic!r}; give them topics by --route, or choose by"
                    " --vhost and --queue"
                )
        by_route[row["route"]] += row["messages"]
        counts = by_queue[vhost, queue, topic]
        counts[0] += row["messages"]
        counts[1] += row["bytes"]
    return MigrateReport(
        is_sent=False,
        messages=sum(by_route),
        bytes=sum(counts[1] for counts in by_queue.values()),
        expired=sum(row["expired"] for row in rows),
        damaged=sum(row["damaged"] for row in rows),
        headers_changed=sum(row["headers_changed"] for row in rows),
        topics_missing=[],
        topics_made=[],
        topics_held=[],
        routes=[
            {"route": route.text, "messages": count}
            for route, count in zip(known, by_route, strict=True)
        ],
        queues=[
            {
                "vhost": vhost,
                "queue": queue,
                "topic": topic,
                "messages": counts[0],
                "bytes": counts[1],
            }
            for (vhost, queue, topic), counts in by_queue.items()
        ],
        damage=[],
    )


def _refuse_too_large(rows: Sequence[Mapping[str, Any]], body_bytes_max: int) -> None:
    for row in rows:
        if row["too_large"]:
            raise SettingsError(
                f"{row['too_large']} messages of queue {row['queue']!r} of virtual host"
                f" {row['vhost']!r} have more than {body_bytes_max} bytes (--option"
                f" maxMessageBytes=…), or their headers have more than"
                f" {properties.PROPERTIES_BYTES_MAX}, which RocketMQ does not store; leave them out"
                " by --where"
            )


def _make(cluster: JobCluster, topics: Sequence[str], queues: int) -> None:
    from sprocket.rocketmq.client.blocking import Admin

    if topics and not queues:
        named = ", ".join(topics[:_NAMED_MAX]) + (", …" if len(topics) > _NAMED_MAX else "")
        raise SettingsError(
            f"the cluster does not have {named}: make them, or let --create-topics 4 do it"
        )
    with Admin(cluster.name_server, client=cluster.client) as admin:
        for topic in topics:
            admin.topic.create(topic, queues)


def _lines(path: str) -> list[str]:
    if not path:
        return []
    try:
        return read_file(RealDisk(), path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not text in UTF-8") from error


def _expired_ms(text: str) -> int | None:
    """Return by when a message must not have expired, ms since 1970; None if it may."""
    if not text:
        return None
    if text == "now":
        return SystemClock().now_ms()
    try:
        return time_ms(text)
    except ValueError as error:
        raise SettingsError(f"--expired-by is {text!r}: {error}") from error
