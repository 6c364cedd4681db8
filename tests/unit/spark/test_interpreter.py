"""Workers run the interpreter of the driver, also in an environment that is not activated."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.spark.rocketmq.folder.test_plan import write_log
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client.blocking import Admin
from sprocket.spark import interpreter
from sprocket.testing.local_broker import LocalBroker

SCRIPT = """
{first}
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
{then}
assert spark.read.format("rocketmq").load({folder!r}).count() == 3
message = spark.createDataFrame([("hello",)], "body string")
writer = message.write.format("rocketmq").mode("append").option("nameServer", {nameserver!r})
writer.option("topic", "greetings").save()
stream = spark.readStream.format("rocketmq").option("nameServer", {nameserver!r})
seen = stream.option("subscribe", "greetings").load().writeStream.format("memory")
seen.queryName("seen").trigger(availableNow=True).start().awaitTermination()
assert [bytes(row.body) for row in spark.table("seen").collect()] == [b"hello"]
from sprocket.spark.jobs import stats
assert stats(spark, store={folder!r}).messages == 3
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.nightly  # by day an example of the README reads so
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("import sprocket.spark", ""),
        ("", "from sprocket.spark import register; register(spark)"),
    ],
    ids=["imported before", "registered later"],
)
def test_a_session_of_ones_own_works_from_an_environment_that_is_not_activated(
    tmp_path: Path, first: str, then: str
) -> None:
    """Reading, writing, streaming and jobs: the `python3` of the PATH has no Sprocket."""
    strange = tmp_path / "bin"
    strange.mkdir()
    strange.joinpath("python3").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    strange.joinpath("python3").chmod(0o755)
    store = tmp_path / "store"
    write_log(store, [3])
    env = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    env |= {"PATH": f"{strange}{os.pathsep}{env['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    with LocalBroker() as broker:
        with Admin(broker.nameserver) as admin:
            admin.topic.create("greetings")
        names = {"folder": str(store), "nameserver": broker.nameserver}
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(first=first, then=then, **names)],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=LONG_SECONDS,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, sys.executable),
        ({"PYSPARK_PYTHON": "mine"}, "mine"),
        ({"PYSPARK_GATEWAY_PORT": "1"}, None),
    ],
)
def test_a_choice_that_was_made_stays(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], wanted: str | None
) -> None:
    """The variable's, and that of `spark-submit`."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    interpreter.choose()
    assert os.environ.get("PYSPARK_PYTHON") == wanted


@pytest.mark.parametrize(
    ("master", "before", "after"),
    [
        ("local[2]", "python3", sys.executable),
        ("local-cluster[2,1,1024]", "python3", sys.executable),
        ("local[2]", "mine", "mine"),
        ("spark://somewhere:7077", "python3", "python3"),
    ],
)
def test_a_session_that_is_there_is_corrected_on_this_machine(
    master: str, before: str, after: str
) -> None:
    """What a cluster's machines have is not known here."""
    context = SimpleNamespace(master=master, pythonExec=before)
    interpreter.correct(SimpleNamespace(_sc=context))
    assert context.pythonExec == after
    interpreter.correct(SimpleNamespace())
