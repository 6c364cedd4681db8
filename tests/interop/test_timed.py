"""Messages that wait for their time, of the official Java client and of ours, at both brokers."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.java_client import JavaClient
from tests.interop.samples import Sample
from tests.interop.test_store_in_rocketmq import OURS, THEIRS
from tests.interop.test_transactions import create, ours
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client.blocking import Message, Producer, Puller
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.message import StoredMessage

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-timed"),
]

ROUNDING_MS = 1000
"""RocketMQ comes so much early: it rounds times down."""
BEFORE_S, AFTER_S = (1.0, 1.5, 2.5), (20.0, 20.001, 22.75, 30.0)
"""When messages are due: before the switch of brokers, and after it."""
SETTLE_S = 3.0
"""What would come too often comes within this time."""
SLOT_MS = 1000


def sample(topic: str, name: str, text: str) -> Sample:
    """Return a message with a property, whose name is its body."""
    return Sample(
        how="sync",
        batch=None,
        topic=topic,
        tag="",
        keys="",
        flag=0,
        properties={name: text},
        body=name.encode(),
    )


def messages(nameserver: str, topic: str) -> list[StoredMessage]:
    """Return what a topic has, in the order in which it was stored."""
    found: list[StoredMessage] = []
    with Puller(nameserver) as puller:
        for queue in puller.queues(topic):
            offset, end = puller.min_offset(queue), puller.max_offset(queue)
            while offset < end:
                pulled = puller.pull(queue, offset)
                found += record.decode_all(pulled.body)
                offset = pulled.next_offset
    return sorted(found, key=lambda one: one.stored_at_ms)


def noted_ms(store: Path) -> int:
    """Return up to when a store says that all have been delivered."""
    return int.from_bytes((store / "config/timercheck").read_bytes()[:8], "big")


def wait_for(broker: peers.Broker, topic: str, count: int) -> list[StoredMessage]:
    """Wait until a topic has so many messages; return them."""
    peers.wait_until(
        lambda: len(messages(broker.nameserver, topic)) >= count, "messages", every=0.5
    )
    return messages(broker.nameserver, topic)


def test_java_sends_and_takes_back(jars: Path, tmp_path: Path) -> None:
    """Three come, not early; the fourth does not."""
    topic = "JavaTimed"
    with ours(tmp_path, ()) as broker:
        create(broker, topic)
        classes = peers.compile_java(jars, tmp_path, [peers.TIMED_SOURCE])
        command = [*peers.java(jars, home=tmp_path, classes=classes), "Timed"]
        done = subprocess.run(
            [*command, broker.nameserver, topic],
            capture_output=True,
            text=True,
            timeout=LONG_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        sent, recalled = done.stdout.splitlines()[-1].split()
        assert sent == recalled
        with Producer(broker.nameserver) as producer:
            producer.send(Message(topic, b"last", delay_ms=21_000))
        found = wait_for(broker, topic, 4)
    assert sorted(one.stored_body for one in found) == [b"0", b"1", b"2", b"last"]
    for one in found:
        assert one.stored_at_ms >= int(one.properties.get("TIMER_OUT_MS", 0))  # 0: it was due


def test_an_old_java_client_delays_by_properties(
    java_of: Callable[[str], JavaClient], tmp_path: Path
) -> None:
    """4.9.8 has no calls for it; what it sends comes in its time, not early."""
    topic, names = "OldTimed", {"TIMER_DELAY_MS": "2500", "TIMER_DELAY_SEC": "2"}
    with ours(tmp_path, ()) as broker:
        create(broker, topic)
        java = java_of("4.9.8")
        sent = [sample(topic, name, text) for name, text in names.items()]
        consumer = java.start_consumer(broker.nameserver, topic, "*", group=topic, count=2)
        java.send(broker.nameserver, sent)
        assert sorted(one.body for one in consumer.finish()) == sorted(map(str.encode, names))
        found = messages(broker.nameserver, topic)
    for one in found:
        assert one.stored_at_ms >= int(one.properties.get("TIMER_OUT_MS", 0))  # 0: it was due


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("first", ["sprocket", "rocketmq"])
def test_messages_that_wait_at_a_switch_come_once(
    first: str, end: str, jars: Path, tmp_path: Path
) -> None:
    """The other broker goes on with the store: topic, timer log, wheel and checkpoint."""
    topic = "Switched"
    real = peers.RocketMQ(
        jars=jars,
        folder=tmp_path / "theirs",
        store=tmp_path / "store",
        settings={**THEIRS, "recallMessageEnable": "true"},
    )
    our = ours(tmp_path, OURS)
    before, after = (our, real) if first == "sprocket" else (real, our)
    due: dict[bytes, int] = {}
    with before:
        create(before, topic)
        with Producer(before.nameserver) as producer:
            began_ms = int(time.time() * 1000)
            for seconds in BEFORE_S + AFTER_S:
                for copy in range(3):
                    body = b"%.3f-%d" % (seconds, copy)
                    due[body] = began_ms + int(seconds * 1000)
                    sent = producer.send(Message(topic, body, deliver_at_ms=due[body]))
                    if copy == 2 and seconds in AFTER_S:
                        assert sent.recall_handle is not None
                        producer.recall(sent.recall_handle)
                        del due[body]
        wait_for(before, topic, len(BEFORE_S) * 3)
        passed_ms = began_ms + int(BEFORE_S[-1] * 1000) + SLOT_MS
        peers.wait_until(lambda: noted_ms(tmp_path / "store") >= passed_ms, "the checkpoint")
        if end == "killed":
            before.kill()
    with after:
        wait_for(after, topic, len(due))
        peers.pause(SETTLE_S)
        found = messages(after.nameserver, topic)
    assert sorted(one.stored_body for one in found) == sorted(due)
    for one in found:
        assert one.stored_at_ms >= due[one.stored_body] - ROUNDING_MS
