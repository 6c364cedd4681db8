"""No row is lost and none comes twice when Spark and the broker are killed under streaming queries.

Replay with the seed that is printed: SPROCKET_KILL_SEED=… (the draws are the same; the moment of a
kill is a time). SPROCKET_SPARK_KILLS sets how many kills.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.crash import spark_killing
from tests.crash.spark_query import COPIED
from tests.interop import peers
from tests.killable import Broker

from sprocket.rocketmq.client.blocking import Admin

KILLS = int(os.environ.get("SPROCKET_SPARK_KILLS", "5"))
SEED = int(os.environ.get("SPROCKET_KILL_SEED", "3"))
SMALL_FILES = ("log.segment_bytes=131072", "queue.units_per_file=500", "store.fill_ahead_bytes=0")
"""Files of the log fill up and roll within a round."""
BROKER_DIES = 0.5
"""The share of rounds in which the broker is killed, too, while the queries run."""


@pytest.mark.nightly
@pytest.mark.spark
def test_no_row_is_lost_and_none_comes_twice(spark: Any, tmp_path: Path) -> None:
    """Of a topic and of its store into Spark's file sink; of the topic by our sink to another."""
    print(f"SPROCKET_KILL_SEED={SEED}")
    rng = random.Random(SEED)
    broker = Broker(tmp_path / "store", SMALL_FILES)
    folder, ledger = tmp_path / "queries", spark_killing.Ledger()
    load = spark_killing.Load(broker.nameserver, ledger)
    try:
        with Admin(broker.nameserver) as admin:
            admin.create_topic(COPIED, queues=4)
        load.send(1_000)
        for number in range(KILLS):
            step, delay = rng.choice(spark_killing.STEPS), rng.choice([0.0, rng.uniform(0.0, 0.5)])
            queries = spark_killing.Queries(broker, folder)
            try:
                queries.wait_for(step, load)
                if rng.random() < BROKER_DIES:
                    load.send(200, broker_to_kill=broker)
                    queries.wait_for(step, load)
                peers.pause(delay)
            finally:
                queries.kill()
            load.send(rng.randrange(600))
            print(f"  kill {number}: {delay * 1000:.0f} ms after {step}; {len(ledger.sent):,} sent")
        spark_killing.finish(spark, broker, folder)
        spark_killing.check_files(folder, ledger, load.ends())
        spark_killing.check_copy(broker, ledger)
    finally:
        broker.kill()
