"""The sink where sessions differ: tasks that are tried again, Spark Connect, other threads, TLS."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import certificates
from tests.unit.spark.rocketmq.sink.test_sink import examples, keyed, writer
from tests.unit.spark.samples import unpack
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import ClientSettings, blocking, tls_context
from sprocket.rocketmq.settings import TlsSettings
from sprocket.testing.local_broker import LocalBroker, small_settings

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TRIED_AGAIN = """
import sys
from pyspark import TaskContext
from sprocket.rocketmq.client.blocking import Admin
from sprocket.spark import session

nameserver, folder = sys.argv[1:]

def queues(admin):
    return admin.topic.stats("orders").queues.values()

def failing(batches):
    "Gives all rows; fails before the last ones at the first try, when the broker has some."
    for number, batch in enumerate(batches):
        if number == 40 and TaskContext.get().attemptNumber() == 0:
            with Admin(nameserver) as admin:
                while not any(one.max_offset for one in queues(admin)):
                    pass
            raise ValueError("the first try fails")
        yield batch

settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": "50"}
settings["spark.sql.execution.arrow.maxBytesPerOutputBatch"] = "65536"
spark = session(master="local[2,2]", folder=folder, settings=settings)
rows = spark.range(0, 5000, 1, 2).selectExpr("concat(id, repeat(' ', 2000)) AS body")
writer = rows.mapInArrow(failing, "body string").write.format("rocketmq").mode("append")
writer.option("nameServer", nameserver).option("topic", "orders").save()
spark.stop()
"""
CONNECTED = """
import sys
from sprocket.spark import session
from sprocket.spark.jobs import stats

nameserver, folder, master, store = sys.argv[1:]
spark = session(master=master, cores=2, folder=folder)
assert not hasattr(spark, "sparkContext")
stored = spark.read.format("rocketmq").load(store).count()
assert stored == stats(spark, store=store).messages > 0
rows = spark.range(500).selectExpr("concat('body ', id) AS body")
for _ in range(2):
    writer = rows.write.format("rocketmq").mode("append").option("nameServer", nameserver)
    writer.option("topic", "orders").option("txnAppId", "app").save()
spark.readStream.format("rocketmq").option("nameServer", nameserver).option(
    "subscribe", "orders"
).load().writeStream.format("rocketmq").option("nameServer", nameserver).option(
    "topic", "copies"
).option("checkpointLocation", folder + "/checkpoint").trigger(
    availableNow=True
).start().awaitTermination()
spark.stop()
"""


def run(script: str, broker: LocalBroker, tmp_path: Path, *words: str) -> None:
    """Run a script in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-c", script, broker.nameserver, str(tmp_path / "spark"), *words],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.nightly
def test_a_task_that_is_tried_again(tmp_path: Path) -> None:
    """Every row is there; what its first try had sent is there twice, under one unique key."""
    with LocalBroker() as broker:
        with blocking.Admin(broker.nameserver) as admin:
            admin.topic.create("orders", queues=4)
        run(TRIED_AGAIN, broker, tmp_path)
        messages = broker.messages("orders")
        found = keyed(messages)
    assert sorted(int(body) for body in found.values()) == list(range(5_000))
    assert len(messages) > len(found)


@pytest.mark.nightly
def test_under_spark_connect(connect_address: str, tmp_path: Path) -> None:
    """A store and a job on it; a frame, its repeat with the same keys, and a stream."""
    check_under_connect(connect_address, tmp_path)


@pytest.mark.nightly
def test_under_spark_connect_of_its_own(tmp_path: Path) -> None:
    """With a server that the session starts itself."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio, which is not installed")
    check_under_connect("connect", tmp_path)


def check_under_connect(master: str, tmp_path: Path) -> None:
    """Run the program over a server of Spark Connect, and look at what it sent."""
    with LocalBroker() as broker:
        with blocking.Admin(broker.nameserver) as admin:
            for topic in ("orders", "copies"):
                admin.topic.create(topic, queues=4)
        run(CONNECTED, broker, tmp_path, master, unpack("05-long-topic", tmp_path))
        for topic in ("orders", "copies"):
            messages = broker.messages(topic)
            assert len(messages) == 1_000
            found = keyed(messages)
            assert sorted(found.values()) == sorted(f"body {number}" for number in range(500))


def test_a_thread_that_did_not_start_spark(spark: Any) -> None:
    """It writes by the guide's example; without `activate` Spark does not find the format."""
    several = [spark.range(5).selectExpr(f"concat('{name} ', id) AS body") for name in "ab"]
    with LocalBroker() as broker:
        with blocking.Admin(broker.nameserver) as admin:
            admin.topic.create("orders", queues=4)
        (text,) = (one for one in examples() if "import activate" in one)
        text = text.replace("127.0.0.1:9876", broker.nameserver)
        exec(text, {"spark": spark, "several": several})  # noqa: S102
        assert len(keyed(broker.messages("orders"))) == 10
        with (
            ThreadPoolExecutor(1) as other,
            pytest.raises(Exception, match="Failed to find the data source: rocketmq"),
        ):
            other.submit(writer(several[0], broker).save).result()


def test_over_tls(spark: Any, tmp_path: Path) -> None:
    """A broker that wants it and a certificate gets the rows; without options the error says so."""
    made = certificates.make(tmp_path)
    tls = TlsSettings(mode="enforcing", cert_path=made.cert, key_path=made.key)
    frame = spark.range(300).selectExpr("concat('body ', id) AS body")
    with LocalBroker(settings=replace(small_settings(), tls=tls)) as broker:
        settings = ClientSettings(tls=tls_context(trust_path=made.cert))
        with blocking.Admin(broker.nameserver, client=settings) as admin:
            admin.topic.create("orders", queues=2)
        for options in ({"tls": "true"}, {"tlsTrustPath": made.cert}):
            writer(frame, broker, **options).save()
        assert len(broker.messages("orders")) == 600
        other = certificates.make(tmp_path, "other")
        for options, said in (({}, "if it wants TLS"), ({"tlsTrustPath": other.cert}, "tls|TLS")):
            with pytest.raises(Exception, match=said):
                writer(frame, broker, sendTimeoutMs="2000", **options).save()
        assert len(broker.messages("orders")) == 600
