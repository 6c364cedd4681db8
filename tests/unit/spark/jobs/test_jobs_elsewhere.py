"""Every job where Spark runs elsewhere says and makes what it does in this process.

Elsewhere are a server of Spark Connect, executors of their own, a cluster of a master and two
workers, and `spark-submit` on such a cluster.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from tests.recorded_rabbitmq import RecordedVhosts
from tests.unit.spark.jobs.test_rebuild_queues import contents
from tests.unit.spark.jobs.test_submit import submitted
from tests.unit.spark.samples import unpack
from tests.unit.spark.test_masters import cluster

from sprocket.rocketmq.client.blocking import Admin
from sprocket.spark.archive import archive_files, read_archive
from sprocket.spark.jobs import JOBS, JobReport, SparkJob, command
from sprocket.testing.local_broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOAD, CLOSED, CONSUMED = "02-kill9-load", "05-long-topic", "08-consumers"
QUEUES = "09-journal-count"
SCRIPT = """
import json, sys
import msgspec, typer
from sprocket.spark import session
from sprocket.spark.jobs import JOBS, command

master, folder, runs = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
spark = session(master=master, cores=2, folder=folder)
told = []

def run(job, options):
    report = job(spark, **options, progress=lambda what, done, total=0: told.append(total))
    print(msgspec.json.encode(report).decode(), flush=True)

app = typer.Typer()
for name, job in JOBS.items():
    app.command(name)(command(job, run))
for words in runs:
    app(words, standalone_mode=False)
spark.stop()
assert max(told) > 1, told
"""


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker that gets what is sent."""
    with LocalBroker() as running:
        yield running


def runs_of(folder: Path, broker: LocalBroker, name: str) -> list[list[str]]:
    """Return the words of a command for each job, with folders of its own."""
    case = RecordedVhosts(QUEUES)
    folder.mkdir()
    load, closed = unpack(LOAD, folder / LOAD), unpack(CLOSED, folder / CLOSED)
    vhosts = case.unpack(folder / "vhosts")
    small, to = ["--partition-bytes", "262144"], ["-n", broker.nameserver]
    create = ["--create-topics", "2"]
    with Admin(broker.nameserver) as admin:
        admin.topic.create(name, queues=3)
    return [
        ["rebuild-queues", load, *small],
        ["rebuild-index", load, *small],
        ["stats", load, "--by", "topic", "--by", "queue", "--internal"],
        ["fsck", load, "--index", *small],
        ["archive", load, str(folder / "archive"), *small],
        ["lag", "--store", unpack(CONSUMED, folder / CONSUMED)],
        ["erase", closed, str(folder / "erased"), "--where", "queueOffset % 3 = 1"],
        ["replay", str(folder / "archive"), "-t", "Load1", "--to", name, *to],
        ["migrate", vhosts, "--route", f"queue=.* topic={name}-{{queue}}", *create, *to],
    ]


def here(spark: Any, runs: list[list[str]]) -> list[Any]:
    """Run them on a session of this process; return what they report."""
    found: list[Any] = []

    def run(job: SparkJob, options: dict[str, Any]) -> None:
        report: JobReport = job(spark, **options)
        found.append(plain(msgspec.to_builtins(report)))

    app = typer.Typer()
    for name, job in JOBS.items():
        app.command(name)(command(job, run))
    for words in runs:
        app(words, standalone_mode=False)
    return found


def plain(report: Any) -> Any:
    """Return a report without what differs from run to run: files are packed as they were cut."""
    return {name: value for name, value in report.items() if name != "bytes"}


def made(spark: Any, folder: Path) -> Any:
    """Return what the jobs made in a folder."""
    rows = read_archive(spark, str(folder / "archive")).orderBy("physicalOffset").toArrow()
    assert archive_files(str(folder / "archive"))
    return (
        contents(folder / LOAD / "consumequeue"),
        [*contents(folder / LOAD / "index").values()],
        contents(folder / "erased" / "commitlog"),
        contents(folder / "erased" / "consumequeue"),
        rows.to_pylist(),
    )


def check(spark: Any, tmp_path: Path, broker: LocalBroker, elsewhere: Any) -> None:
    """Run all jobs here and there, and compare what they report and make."""
    near, far = tmp_path / "near", tmp_path / "far"
    wanted = here(spark, runs_of(near, broker, "near"))
    found = elsewhere(runs_of(far, broker, "far"))
    text = json.dumps([plain(report) for report in found])
    assert json.loads(text.replace("far", "near")) == json.loads(json.dumps(wanted))
    assert made(spark, far) == made(spark, near)
    topics = spark.read.format("rocketmq").load(broker.folder).groupBy("topic").count().collect()
    counts = {row["topic"]: row["count"] for row in topics}
    assert counts["near"] == counts["far"] > 100


def scripted(master: str, tmp_path: Path) -> Any:
    """Return what runs jobs by one script, on a session of a master."""

    def run(runs: list[list[str]]) -> list[Any]:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT)
        command = [sys.executable, str(script), master, str(tmp_path / "spark"), json.dumps(runs)]
        ended = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]

    return run


@pytest.mark.nightly
def test_spark_connect(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """A server of its own, and a client that has no `sparkContext`."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio, which is not installed")
    check(spark, tmp_path, broker, scripted("connect", tmp_path))


@pytest.mark.nightly
def test_executors_of_their_own(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """Two JVMs beside the driver's: nothing may rely on the driver's memory."""
    check(spark, tmp_path, broker, scripted("local-cluster[2,1,1024]", tmp_path))


@pytest.mark.nightly
def test_a_cluster(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """A standalone master and two workers."""
    with cluster(tmp_path) as master:
        check(spark, tmp_path, broker, scripted(master, tmp_path))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_spark_submit(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """The guide's command on such a cluster, once for each job."""
    with cluster(tmp_path) as master:

        def run(runs: list[list[str]]) -> list[Any]:
            reports = []
            for words in runs:
                ended = submitted(tmp_path, *words, master=master)
                assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
                reports.append(json.loads(ended.stdout.splitlines()[-1]))
            return reports

        check(spark, tmp_path, broker, run)
