"""Queues and index made again where Spark runs elsewhere: Connect, and executors of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.spark.jobs.test_rebuild_queues import contents, unpacked

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import sys
from sprocket.spark import session
from sprocket.spark.jobs import rebuild_index, rebuild_queues

master, store, folder = sys.argv[1:]
spark = session(master=master, cores=2, folder=folder, jvm="-XX:TieredStopAtLevel=1")
for job in (rebuild_queues, rebuild_index):
    job(spark, store=store, partition_bytes=262144, progress=lambda *_: None)
spark.stop()
"""


def check(master: str, tmp_path: Path) -> None:
    """Make both again, of a store that has them, and find the bytes of its broker."""
    store = unpacked("02-kill9-load", tmp_path)
    derived = store / "consumequeue", store / "index"
    before = [list(contents(folder).values()) for folder in derived]
    names = sorted(contents(derived[0]))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), master, str(store), str(tmp_path / "spark")]
    ended = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert [list(contents(folder).values()) for folder in derived] == before
    assert sorted(contents(derived[0])) == names


def test_spark_connect(tmp_path: Path) -> None:
    """A server of its own, and a client that has no `sparkContext`."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio, which is not installed")
    check("connect", tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_executors_of_their_own(tmp_path: Path) -> None:
    """Two JVMs beside the driver's: nothing may rely on the driver's memory."""
    check("local-cluster[2,1,1024]", tmp_path)
