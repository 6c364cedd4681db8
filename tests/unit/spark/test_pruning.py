"""Queries that read only what they use give what they gave before, and read less."""

import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.recorded_rabbitmq import RecordedVhosts
from tests.unit.spark.rocketmq.folder.test_damage import BODY_AT, COUNT, change, closed, logs
from tests.unit.spark.rocketmq.folder.test_reader import numbered
from tests.unit.spark.samples import unpack
from tests.waits import LONG_SECONDS

from sprocket.spark import QueryFailed, in_one_line, pruned, sql
from sprocket.spark.rocketmq.rows.columns import FULL

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
_IN_DOCS = re.compile(
    r"(?:sprocket sql|\.sql\(f?|sql\() ?\"(select .*? from orders\b[^\"]*)\"", re.I
)
MORE = [
    "SELECT count(*) FROM orders WHERE topic = 'Load1'",
    "SELECT COUNT(*), max(Size) FROM orders WHERE TOPIC IN ('Load0', 'Load2', 'x')",
    "SELECT topic, queueId, count(*) FROM orders GROUP BY ROLLUP (topic, queueId)",
    "SELECT count(*) FROM orders WHERE topic = 'Load0' OR queueId = 1",
    "SELECT count(*) FROM orders WHERE NOT topic = 'Load0' AND queueId IN (0, 2)",
    "SELECT count(*) FROM orders WHERE topic <=> NULL OR topic = 'Load1'",
    "SELECT count(*) FROM orders WHERE storeTimestamp <=> NULL",
    "SELECT count(*) FROM orders WHERE storeTimestamp > (SELECT min(bornTimestamp) FROM orders)",
    "SELECT count(*) FROM orders WHERE storeTimestamp <= now()",
    "SELECT get_json_object(CAST(body AS STRING), '$.n') n, count(*) FROM orders GROUP BY 1",
    "SELECT keys FROM orders ORDER BY physicalOffset DESC LIMIT 7",
    "SELECT * FROM orders WHERE queueOffset < 3",
    "SELECT DISTINCT tags FROM orders",
    "SELECT n, count(*) FROM orders LATERAL VIEW explode(map_keys(properties)) AS n GROUP BY 1",
    "SELECT topic, sum(size) OVER (PARTITION BY topic, queueId ORDER BY queueOffset) FROM orders",
    "SELECT msgId FROM orders WHERE keys IN (SELECT keys FROM orders WHERE topic = 'Load1')",
    """SELECT count(*) FROM orders a WHERE EXISTS
    (SELECT 1 FROM orders b WHERE a.queueOffset = b.queueOffset + 1 AND b.topic = 'Load2')""",
    """WITH one AS (SELECT * FROM orders WHERE topic = 'Load0') SELECT a.queueId, b.n FROM one a
    JOIN (SELECT queueId, count(*) AS n FROM one GROUP BY queueId) b ON a.queueId = b.queueId""",
    """SELECT topic, size FROM orders WHERE topic = 'Load1' UNION ALL
    SELECT tags, bodyCRC FROM orders WHERE topic = 'Load2'""",
    "SELECT count(*) FROM late",
    "SELECT topic FROM (SELECT topic, rand() r FROM orders) WHERE r >= 0",
    "SELECT max(struct(size, msgId)).msgId FROM orders GROUP BY topic",
    "SELECT queueId, count(*), sum(queueId), avg(queueId), count(tags) FROM orders GROUP BY 1",
    "SELECT count(*), count(DISTINCT topic), max(topic) FROM orders WHERE queueId > 0",
    "SELECT transactionState, sum(reconsumeTimes), count(*) FROM orders GROUP BY 1",
    "SELECT topic, count(*) FILTER (WHERE queueId = 1) FROM orders GROUP BY 1 HAVING sum(1) > 9",
    "SELECT count(*) FROM (SELECT DISTINCT topic, queueId FROM orders)",
    "SELECT n, count(*) FROM (SELECT topic, count(*) n FROM orders GROUP BY topic) GROUP BY n",
    "SELECT count(*) FROM orders WHERE rand(1) >= 0 AND topic = 'Load1'",
    "SELECT count(*) FROM orders TABLESAMPLE (100 PERCENT)",
]


def of_docs() -> list[str]:
    """Return the statements about `orders` that the docs show."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    return sorted({match[1] for text in texts for match in _IN_DOCS.finditer(text)})


@pytest.fixture
def orders(spark: Any, tmp_path: Path) -> Iterator[str]:
    """A real store as the table `orders` of the catalog, a view over it; gives the folder."""
    store = unpack("02-kill9-load", tmp_path)
    spark.sql(f"CREATE TABLE orders USING rocketmq OPTIONS (path '{store}')")
    spark.sql("CREATE TEMPORARY VIEW late AS SELECT * FROM orders WHERE queueOffset > 9")
    yield store
    spark.sql("DROP VIEW late")
    spark.sql("DROP TABLE orders")


def scans(frame: Any) -> list[tuple[list[str], dict[str, Any]]]:
    """Return what a query reads in each place: the columns, and what filters the source is told."""
    plans = [frame._jdf.queryExecution().optimizedPlan()]
    found = []
    while plans:
        plan = plans.pop(0)
        for some in (plan.children(), plan.subqueries()):
            plans += [some.apply(number) for number in range(some.size())]
        if plan.nodeName() == "DataSourceV2ScanRelation":
            names = re.findall(r"(\w+)#", plan.output().toString())
            options = dict(plan.relation().options())
            found.append((names, json.loads(options.get("filters", "{}"))))
    return found


def rows(frame: Any) -> Counter[str]:
    """Return the rows of a result, in any order."""
    return Counter(repr(row) for row in frame.collect())


@pytest.mark.parametrize(
    "step",
    [pytest.param(8, id="every eighth"), pytest.param(1, id="all", marks=pytest.mark.nightly)],
)
def test_statements_give_what_they_gave(spark: Any, orders: str, step: int) -> None:
    """Those of the docs and some more: the same rows of fewer columns, but where all are asked."""
    assert len(of_docs()) >= 5
    for text in (*of_docs(), *MORE)[::step]:
        plain, asked = spark.sql(text), sql(text, spark=spark)
        assert asked.schema == plain.schema, text
        assert rows(asked) == rows(plain), text
        widths = {len(names) for names, _ in scans(asked)}
        assert max(widths) < len(FULL) or "*" in re.sub(r"\(.*?\)", "", text), text


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        (lambda messages: messages.groupBy().count(), ["rowCount"]),
        (lambda messages: messages.groupBy("topic").count(), ["topic", "rowCount"]),
        (
            lambda messages: messages.where("topic = 'a'").selectExpr("max(queueId)", "count(*)"),
            ["topic", "queueId", "rowCount"],
        ),
        (lambda messages: messages.groupBy("topic", "size").count(), ["topic", "size"]),
        (lambda messages: messages.selectExpr("collect_list(topic)"), ["topic"]),
        (lambda messages: messages.limit(25).groupBy("topic").count(), ["topic"]),
        (
            lambda messages: messages.groupBy().count().union(messages.groupBy().count()),
            ["queueId"],
        ),
        (lambda messages: messages.where("keys = 'k'").select("body"), ["body", "keys"]),
        (lambda messages: messages.orderBy("size").limit(2).select("tags"), ["tags", "size"]),
        (lambda messages: messages.selectExpr("upper(tags) AS t").distinct(), ["tags"]),
        (lambda messages: messages, list(FULL)),
        (lambda messages: messages.union(messages).select("msgId"), ["msgId"]),
        (lambda messages: messages.sample(0.5, 1).groupBy("flag").count(), ["flag"]),
    ],
)
def test_frames_read_what_they_use(
    spark: Any, tmp_path: Path, query: Any, columns: Sequence[str]
) -> None:
    """And give the rows that they gave, with options of their own."""
    store = numbered(tmp_path, [("a", 0, 20), ("b", 1, 20)])
    messages = spark.read.format("rocketmq").option("maxPartitionBytes", "1k").load(store)
    found = messages.transform(pruned(query))
    assert {tuple(names) for names, _ in scans(found)} == {tuple(columns)}
    assert rows(found) == rows(query(messages))
    assert found.rdd.getNumPartitions() == query(messages).rdd.getNumPartitions()


FIRST, SECOND = "1970-01-01 00:16:40.005", "1970-01-01 00:16:40.0105"
TIMES = f"'{FIRST}' AND '{SECOND}'"
FILTERS = [
    ("topic = 'a'", {"topic": ["a"]}),
    ("'a' = topic AND topic <> 'b'", {"topic": ["a"]}),
    ("topic IN ('a', 'b', 'c')", {"topic": ["a", "b", "c"]}),
    ("topic = 'a' OR topic = 'b'", {"topic": ["a", "b"]}),
    ("topic = 'a' OR size = 3", {}),
    ("(topic = 'a' AND queueId = 1) OR (topic = 'b' AND queueId = 2)",
     {"topic": ["a", "b"], "queueId": [1, 2]}),
    ("topic <=> 'a'", {"topic": ["a"]}),
    ("topic <=> NULL", {}),
    ("topic LIKE 'a%'", {}),
    ("upper(topic) = 'A'", {}),
    ("queueId = 1L", {"queueId": [1]}),
    ("queueId > 0", {}),
    ("storeTimestamp <=> NULL", {}),
    (f"storeTimestamp >= '{FIRST}'", {"storeTimestamp": [1_000_005, None]}),
    (f"storeTimestamp > '{SECOND}'", {"storeTimestamp": [1_000_010, None]}),
    (f"storeTimestamp < '{SECOND}'", {"storeTimestamp": [None, 1_000_010]}),
    (f"storeTimestamp BETWEEN {TIMES}", {"storeTimestamp": [1_000_005, 1_000_010]}),
    (f"storeTimestamp = '{FIRST}'", {"storeTimestamp": [1_000_005, 1_000_005]}),
    (f"storeTimestamp IN ('{FIRST}', '{SECOND}')", {"storeTimestamp": [1_000_005, 1_000_010]}),
    (f"storeTimestamp < '{FIRST}' OR storeTimestamp < '{SECOND}'",
     {"storeTimestamp": [None, 1_000_010]}),
    (f"storeTimestamp < '{FIRST}' OR storeTimestamp > '{SECOND}'", {}),
    ("storeTimestamp <= now() AND topic = 'a'", {}),
]  # fmt: skip


def test_the_source_is_told_of_filters(spark: Any, tmp_path: Path) -> None:
    """As far as it understands them, and never of more than they say; Spark filters again."""
    store = numbered(tmp_path, [("a", 0, 7), ("b", 1, 7), ("a", 2, 7), ("b", 2, 7)])
    messages = spark.read.format("rocketmq").load(store)
    places = messages.selectExpr("physicalOffset", *(text for text, _ in FILTERS)).collect()
    for java_8 in ("false", "true"):
        spark.conf.set("spark.sql.datetime.java8API.enabled", java_8)
        for number, (text, told) in enumerate(FILTERS, 1):
            found = messages.transform(pruned(lambda one, text=text: one.where(text)))
            assert [filters for _, filters in scans(found)] == [told], text
            if java_8 == "true":
                offsets = {row.physicalOffset for row in found.collect()}
                assert offsets == {place[0] for place in places if place[number]}, text
    spark.conf.unset("spark.sql.datetime.java8API.enabled")


def test_a_frame_is_filtered_again_and_again(spark: Any, tmp_path: Path) -> None:
    """What one use of a frame leaves out is there for the others, in one query and in several."""
    store = numbered(tmp_path, [("a", 0, 20), ("b", 0, 20)])
    messages = spark.read.format("rocketmq").load(store)
    both = pruned(lambda one: one.where("topic = 'a'").union(one.where("topic = 'b'")))(messages)
    assert both.count() == 40
    some = pruned(lambda one: one.where("topic IN ('a', 'b')"))(messages)
    one, two = some.where("topic = 'a'"), some.where("queueOffset >= 5")
    assert (one.count(), two.count(), some.count(), messages.count()) == (20, 30, 40, 40)
    assert pruned(lambda: one.union(two))().count() == 50
    again = pruned(lambda: one.groupBy().count())()
    assert (scans(again), again.collect()) == ([(["topic", "rowCount"], {"topic": ["a"]})], [(20,)])


def test_a_column_with_an_odd_name(spark: Any, tmp_path: Path) -> None:
    """One that looks like what Spark writes in a plan is not another column."""
    messages = spark.read.format("rocketmq").load(numbered(tmp_path, [("a", 0, 20)]))

    def query(one: Any) -> Any:
        named = one.selectExpr("size AS `topic#0`", "tags AS `x#1, y#2L`").orderBy("`topic#0`")
        return named.where("`x#1, y#2L` = 'odd'").limit(3)

    found = pruned(query)(messages)
    assert rows(found) == rows(query(messages)) != Counter()
    assert scans(found)[0][0] == ["tags", "size"]


def test_what_is_cached_is_left_alone(spark: Any, tmp_path: Path) -> None:
    """Nothing tells which columns the cached part has of the table."""
    store = numbered(tmp_path, [("a", 0, 20), ("b", 0, 20)])
    messages = spark.read.format("rocketmq").load(store)
    part = messages.where("topic = 'a' AND tags = 'even'").select("queueOffset").cache()
    try:
        found = pruned(lambda one: one.select("queueOffset").union(part))(messages)
        assert found.count() == 50
        assert found.filter("queueOffset = 2").count() == 3
    finally:
        part.unpersist()


def test_streams_and_other_sources_stay_as_they_are(spark: Any, tmp_path: Path) -> None:
    """And so do commands."""
    store = numbered(tmp_path, [("a", 0, 3)])
    stream = spark.readStream.format("rocketmq").load(store).groupBy("topic").count()
    numbers = spark.range(5).selectExpr("count(*)")
    for frame in (stream, numbers):
        assert pruned(lambda frame=frame: frame)() is frame
    sql("CREATE TEMPORARY VIEW nothing AS SELECT 1 AS n", spark=spark)
    try:
        assert [row.n for row in sql("SELECT n FROM nothing").collect()] == [1]
    finally:
        spark.sql("DROP VIEW nothing")


def test_queues_of_rabbitmq(spark: Any, tmp_path: Path) -> None:
    """Its tables likewise: columns, virtual hosts and queues."""
    messages = spark.read.format("rabbitmq").load(
        RecordedVhosts("05-properties-ttl").unpack(tmp_path)
    )

    def query(one: Any) -> Any:
        return (
            one.where("queue = 'orders' AND vhost IN ('sprocket/β vhost', 'x')")
            .groupBy("state")
            .count()
        )

    found = pruned(query)(messages)
    told = {"queue": ["orders"], "vhost": ["sprocket/β vhost", "x"]}
    assert scans(found) == [(["vhost", "queue", "state"], told)]
    assert rows(found) == rows(query(messages)) != Counter()
    assert pruned(lambda one: one.groupBy().count())(messages).collect() == [(messages.count(),)]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "dropMalformed"])
def test_rows_of_damaged_stores(spark: Any, tmp_path: Path, mode: str) -> None:
    """Which rows there are, and what is said of them, is found out by all columns as before."""
    store = closed(tmp_path / "hurt")
    change(logs(store)[0], BODY_AT)
    messages = spark.read.format("rocketmq").option("mode", mode).load(str(store))
    queries: list[Callable[[Any], Any]] = [
        lambda one: one.groupBy().count(),
        lambda one: one.groupBy("topic").count(),
        lambda one: one.where("topic = 'orders'").groupBy("queueId").count(),
    ]
    for query in queries:
        assert rows(pruned(query)(messages)) == rows(query(messages))
    if mode == "PERMISSIVE":
        found = pruned(lambda one: one.where("corruption IS NOT NULL").groupBy().count())(messages)
        assert found.collect() == [(1,)]


def test_damage_in_what_is_not_read(spark: Any, tmp_path: Path) -> None:
    """It is not met, as with `columns`, unless all checksums are to be compared."""
    store = closed(tmp_path / "hurt")
    change(logs(store)[0], BODY_AT)
    reader = spark.read.format("rocketmq")
    count = pruned(lambda one: one.groupBy().count())
    assert count(reader.load(str(store))).collect() == [(COUNT,)]
    for frame in (
        count(reader.option("verifyCrc", "true").load(str(store))),
        pruned(lambda one: one.selectExpr("max(body)"))(reader.load(str(store))),
    ):
        with pytest.raises(QueryFailed, match="does not fit its checksum"), in_one_line():
            frame.collect()


CONNECTED = """
import sys
from sprocket.spark import pruned, session, sql
spark = session(master=sys.argv[1], folder=sys.argv[2])
log = spark.read.format("rocketmq").load(sys.argv[3])
log.createOrReplaceTempView("log")
for _ in range(2):
    print(log.transform(pruned(lambda one: one.where("topic = 'a'"))).count())
print(sql("SELECT count(*) AS n FROM log", spark=spark).collect()[0].n)
spark.stop()
"""


def test_under_spark_connect(connect_address: str, tmp_path: Path) -> None:
    """All columns are read, and one line says so."""
    store = numbered(tmp_path / "store", [("a", 0, 2), ("b", 0, 3)])
    ended = subprocess.run(
        [sys.executable, "-c", CONNECTED, connect_address, str(tmp_path / "spark"), store],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout.split()) == (0, ["2", "2", "5"]), ended.stderr
    assert ended.stderr.count("so all columns are read: name those wanted by the option") == 1


def test_a_spark_whose_plans_cannot_be_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of another release: all columns are read, and one line says so."""
    from py4j.protocol import Py4JError

    from sprocket.spark import pruning

    def missing(_plan: Any) -> Any:
        raise Py4JError("Method nodeName([]) does not exist")

    monkeypatch.setattr(pruning, "_kind", missing)
    frame = spark.read.format("rocketmq").load(numbered(tmp_path, [("a", 0, 2)]))
    with caplog.at_level(logging.WARNING):
        assert pruned(lambda: frame)() is frame
    assert "plans of this Spark cannot be read" in caplog.text
