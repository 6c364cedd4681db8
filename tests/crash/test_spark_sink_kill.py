"""Every row is there when Spark and the broker are killed while the sink writes.

What must hold in the end of the copy that a stream makes of a topic:
1. Each message of the topic is there.
2. One that is there twice has the same unique key both times, so that a reader can drop doubles.
3. No unique key stands for two messages: whoever drops doubles loses nothing.

Replay with the seed that is printed: SPROCKET_KILL_SEED=… (the draws are the same; the moment of a
kill is a time). SPROCKET_SPARK_KILLS sets how many kills.
"""

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests import repetition
from tests.crash import spark_killing
from tests.crash.spark_query import TOPIC
from tests.crash.spark_sink_query import COPY
from tests.interop import peers
from tests.killable import Broker

from sprocket.rocketmq.client.blocking import Admin, Puller
from sprocket.rocketmq.codec.record import batch
from sprocket.rocketmq.model.message import StoredMessage

SEED = int(os.environ.get("SPROCKET_KILL_SEED", "3"))
PROGRAM = "tests.crash.spark_sink_query"
STEPS = ("checkpoint/copy/offsets", "checkpoint/copy/commits")
"""Where a micro-batch leaves a file: when it is planned, before it is sent, and afterwards."""
BROKER_DIES = 0.5
"""The share of rounds in which the broker is killed, too, while the query runs."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("kills", repetition.times("SPROCKET_SPARK_KILLS", by_day=1, by_night=5))
def test_every_row_is_written_and_doubles_have_one_key(kills: int, tmp_path: Path) -> None:
    """Of a topic whose messages are copied without their unique keys."""
    if shutil.which("java") is None:
        pytest.skip("no Java on the PATH")
    print(f"SPROCKET_KILL_SEED={SEED}")
    rng = random.Random(SEED)
    broker = Broker(tmp_path / "store")
    folder, ledger = tmp_path / "queries", spark_killing.Ledger()
    load = spark_killing.Load(broker.nameserver, ledger)
    try:
        with Admin(broker.nameserver) as admin:
            admin.create_topic(COPY, queues=4)
        load.send(1_000)
        for number in range(kills):
            step, delay = rng.choice(STEPS), rng.uniform(0.0, 0.5)
            query = spark_killing.Queries(broker, folder, program=PROGRAM)
            try:
                query.wait_for(step, load)
                if rng.random() < BROKER_DIES:
                    load.send(200, broker_to_kill=broker)
                    query.wait_for(step, load)
                peers.pause(delay)
            finally:
                query.kill()
            load.send(600)
            print(f"  kill {number}: {delay * 1000:.0f} ms after {step}; {len(ledger.sent):,} sent")
        query = spark_killing.Queries(broker, folder, "finish", program=PROGRAM)
        try:
            query.wait()
        finally:
            query.kill()
        written, copied = messages(broker, TOPIC), messages(broker, COPY)
    finally:
        broker.kill()
    keys: dict[str, bytes] = {}
    for message in copied:
        body = keys.setdefault(message.message_id, message.body)
        assert body == message.body, f"{message.message_id} stands for two messages"
    assert Counter(message.body for message in written) == Counter(keys.values())
    assert {text.encode() for text in ledger.acknowledged.values()} <= set(keys.values())
    print(f"  {len(written):,} written, {len(copied) - len(keys):,} doubles of {len(copied):,}")


def messages(broker: Broker, topic: str) -> list[StoredMessage]:
    """Return all messages of a topic."""
    found: list[StoredMessage] = []
    with Puller(broker.nameserver) as puller:
        for queue in puller.queues(topic):
            at, end = puller.min_offset(queue), puller.max_offset(queue)
            while at < end:
                answer = puller.pull(queue, at, 1024)
                found += batch.decode_messages(answer.body)
                at = answer.next_offset
    return found
