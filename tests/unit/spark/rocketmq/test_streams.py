"""Queries of Spark over topics and stores that are made again between two runs of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from tests.unit.spark.rocketmq.folder.test_stream import Store, make_anew
from tests.unit.spark.rocketmq.live.test_topic_changed import make, make_again, send
from tests.unit.spark.rocketmq.test_kept_start import run

from sprocket.testing.local_broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker with a topic of two queues."""
    with LocalBroker() as broker:
        make(broker, queues=2)
        yield broker


def test_a_topic_that_is_made_again(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """With more messages than were read: the query fails, or reads all of them."""
    stream = spark.readStream.format("rocketmq").option("nameServer", broker.nameserver)
    stream = stream.option("subscribe", "orders")
    send(broker, 0, 20)
    assert run(stream.load(), tmp_path) == list(range(20))
    make_again(broker, queues=2)
    send(broker, 100, 160)
    with pytest.raises(StreamingQueryException, match=r"is not the one that .*failOnDataLoss"):
        run(stream.load(), tmp_path)
    gentle = stream.option("failOnDataLoss", "false")
    assert run(gentle.load(), tmp_path) == list(range(100, 160))


def test_a_store_that_is_made_again(spark: Any, tmp_path: Path) -> None:
    """With more messages than were read, one of which is where the query goes on."""
    store = Store(tmp_path / "store")
    store.append(20, body=b"0001")
    stream = spark.readStream.format("rocketmq").option("path", str(store.folder))
    assert run(stream.load(), tmp_path / "checkpoint") == [1] * 20
    make_anew(store, 25, b"0002")
    with pytest.raises(StreamingQueryException, match=r"2640 is gone, .*failOnDataLoss"):
        run(stream.load(), tmp_path / "checkpoint")
    gentle = stream.option("failOnDataLoss", "false")
    assert run(gentle.load(), tmp_path / "checkpoint") == [2] * 25
