"""The official Python SDK of RocketMQ 5 under orders: `peer.py ADDRESS PREFIX SCENARIO…`.

It prints a line of JSON for each scenario, `{"scenario": …, "told": …}`, in which `told` is the
same at every server that does what the SDK expects. Topics are PREFIX and the scenario; the harness
makes them (`tests/interop/sdk_runs.py`).
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rocketmq.grpc_protocol import FilterType  # type: ignore[import-not-found]

from rocketmq import (  # type: ignore[import-not-found]
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

LIMIT_SECONDS = 90.0
INVISIBLE_SECONDS = 15


class Peer:
    """What all scenarios need."""

    def __init__(self, address: str, prefix: str) -> None:
        self.configuration = ClientConfiguration(address, Credentials())
        self.prefix = prefix

    @contextmanager
    def producer(self, topic: str, checker: Any = None) -> Iterator[Any]:
        """Run a producer of a topic."""
        made = Producer(self.configuration, (topic,), checker=checker)
        made.startup()
        try:
            yield made
        finally:
            made.shutdown()

    @contextmanager
    def simple(self, topic: str, expression: Any = None) -> Iterator[Any]:
        """Run a consumer that asks."""
        wanted = {topic: expression or FilterExpression()}
        made = SimpleConsumer(self.configuration, f"{topic}-group", wanted, await_duration=5)
        made.startup()
        try:
            yield made
        finally:
            made.shutdown()

    @contextmanager
    def push(self, topic: str, listener: Any) -> Iterator[Any]:
        """Run a consumer that is called."""
        wanted = {topic: FilterExpression()}
        made = PushConsumer(self.configuration, f"{topic}-group", listener, wanted)
        made.startup()
        try:
            yield made
        finally:
            made.shutdown()


def message(topic: str, body: str, **said: Any) -> Any:
    """Return a message."""
    made = Message()
    made.topic, made.body = topic, body.encode()
    for name, value in said.items():
        if name == "properties":
            for key, text in value.items():
                made.add_property(key, text)
        else:
            setattr(made, name, value)
    return made


def received(consumer: Any, count: int, seconds: float = LIMIT_SECONDS) -> list[Any]:
    """Receive and acknowledge so many messages, or those that come in time."""
    found: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        for one in consumer.receive(32, INVISIBLE_SECONDS):
            consumer.ack(one)
            found.append(one)
    return found


def bodies(found: list[Any]) -> list[str]:
    """Return the bodies of messages."""
    return sorted(one.body.decode() for one in found)


class Noting(MessageListener):  # type: ignore[misc]
    """Notes messages, and fails as often as it is told to."""

    def __init__(self, fails: Callable[[Any], bool] = lambda _: False) -> None:
        self._fails = fails
        self._lock = threading.Lock()
        self.seen: list[Any] = []

    def consume(self, message: Any) -> Any:
        """Take a message."""
        with self._lock:
            self.seen.append(message)
        return ConsumeResult.FAILURE if self._fails(message) else ConsumeResult.SUCCESS

    def wait(self, count: int, seconds: float = LIMIT_SECONDS) -> None:
        """Wait until so many messages have come."""
        deadline = time.monotonic() + seconds
        while len(self.seen) < count and time.monotonic() < deadline:
            time.sleep(0.05)


def normal(peer: Peer, topic: str) -> Any:
    """Send and receive, with all that a message can have."""
    with peer.producer(topic) as producer, peer.simple(topic) as consumer:
        ids = []
        for number in range(10):
            sent = message(topic, f"m{number}", tag="A", keys=f"k{number}", properties={"n": "1"})
            ids.append(producer.send(sent).message_id)
        found = received(consumer, 10)
        return {
            "bodies": bodies(found),
            "ids": sorted(ids) == sorted(one.message_id for one in found),
            "tags": sorted({one.tag for one in found}),
            "keys": sorted(key for one in found for key in one.keys),
            "attempts": sorted({one.delivery_attempt for one in found}),
            "properties": sorted({one.properties["n"] for one in found}),
        }


def push(peer: Peer, topic: str) -> Any:
    """Send, and be called."""
    listener = Noting()
    with peer.push(topic, listener), peer.producer(topic) as producer:
        for number in range(10):
            producer.send(message(topic, f"m{number}"))
        listener.wait(10)
    return bodies(listener.seen)


def fifo(peer: Peer, topic: str) -> Any:
    """Have messages of a group in order."""
    listener = Noting()
    with peer.push(topic, listener), peer.producer(topic) as producer:
        for number in range(10):
            for group in ("a", "b"):
                producer.send(message(topic, f"{group}{number}", message_group=group))
        listener.wait(20)
    said = [one.body.decode() for one in listener.seen]
    return {group: [one for one in said if one[0] == group] for group in ("a", "b")}


def delay(peer: Peer, topic: str) -> Any:
    """Have a message later."""
    with peer.producer(topic) as producer, peer.simple(topic) as consumer:
        due = int(time.time()) + 4
        producer.send(message(topic, "later", delivery_timestamp=due))
        found = received(consumer, 1)
        return {"bodies": bodies(found), "is_in_time": time.time() >= due - 0.1}


class Committing(TransactionChecker):  # type: ignore[misc]
    """Says of every transaction that it was committed."""

    def check(self, message: Any) -> Any:  # noqa: ARG002 - as the SDK calls it
        """Answer the broker's question."""
        return TransactionResolution.COMMIT


def transaction(peer: Peer, topic: str) -> Any:
    """Commit one, roll one back."""
    with peer.producer(topic, Committing()) as producer, peer.simple(topic) as consumer:
        for body, ends in (("yes", "commit"), ("no", "rollback")):
            begun = producer.begin_transaction()
            producer.send(message(topic, body), begun)
            getattr(begun, ends)()
        return bodies(received(consumer, 2, 12))


def orphan(peer: Peer, topic: str) -> Any:
    """Be asked about a transaction that nobody ends."""
    with peer.producer(topic, Committing()) as producer, peer.simple(topic) as consumer:
        producer.send(message(topic, "orphan"), producer.begin_transaction())
        return bodies(received(consumer, 1))


def nack(peer: Peer, topic: str) -> Any:
    """Have a message again."""
    with peer.producer(topic) as producer, peer.simple(topic) as consumer:
        producer.send(message(topic, "again"))
        deadline = time.monotonic() + LIMIT_SECONDS
        while not (found := consumer.receive(1, INVISIBLE_SECONDS)):
            assert time.monotonic() < deadline
        consumer.change_invisible_duration(found[0], 2)
        again = received(consumer, 1)
        return [[one.body.decode(), one.delivery_attempt] for one in (*found, *again)]


def forward(peer: Peer, topic: str) -> Any:
    """Give a message up whose handling fails, in order: those behind it come then."""
    listener = Noting(lambda one: one.body == b"bad")
    with peer.push(topic, listener), peer.producer(topic) as producer:
        for body in ("bad", "good"):
            producer.send(message(topic, body, message_group="g"))
        deadline = time.monotonic() + LIMIT_SECONDS
        while not any(one.body == b"good" for one in listener.seen):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
    return [one.body.decode() for one in listener.seen]


def tags(peer: Peer, topic: str) -> Any:
    """Have messages of some tags alone."""
    wanted = FilterExpression("B || C")
    with peer.producer(topic) as producer, peer.simple(topic, wanted) as consumer:
        for tag in "ABCD":
            producer.send(message(topic, tag.lower(), tag=tag))
        return bodies(received(consumer, 3, 12))


def sql(peer: Peer, topic: str) -> Any:
    """Have messages with some properties alone."""
    wanted = FilterExpression("n > 1", FilterType.SQL)
    with peer.producer(topic) as producer, peer.simple(topic, wanted) as consumer:
        for number in range(4):
            producer.send(message(topic, f"m{number}", properties={"n": str(number)}))
        return bodies(received(consumer, 3, 12))


def recall(peer: Peer, topic: str) -> Any:
    """Take a delayed message back; another comes."""
    with peer.producer(topic) as producer, peer.simple(topic) as consumer:
        due = int(time.time()) + 8
        first = producer.send(message(topic, "first", delivery_timestamp=due))
        producer.send(message(topic, "second", delivery_timestamp=due))
        taken_id = producer.recall_message(topic, first.recall_handle)
        found = received(consumer, 2, 20)
        return {"bodies": bodies(found), "is_id": taken_id == first.message_id}


def refused(peer: Peer, topic: str) -> Any:
    """Be told what is wrong."""
    found = []
    with peer.producer(topic) as producer:
        for wrong in (
            message(topic, "x", message_group="g"),
            message(topic, "x", delivery_timestamp=int(time.time()) + 60),
            message(f"{topic}-missing", "x"),
        ):
            try:
                producer.send(wrong)
            except Exception as error:  # what is raised is what is looked at
                found.append(type(error).__name__)
            else:
                found.append("sent")
    return found


def reconnect(peer: Peer, topic: str) -> Any:
    """Go on after the broker was killed, which the harness does when it reads `begun`."""
    listener = Noting()
    acknowledged: list[str] = []
    with peer.push(topic, listener), peer.producer(topic) as producer:
        deadline = time.monotonic() + LIMIT_SECONDS
        number = 0
        while len(acknowledged) < 60 and time.monotonic() < deadline:
            body = f"m{number}"
            try:
                producer.send(message(topic, body))
            except Exception:  # the broker is away
                time.sleep(0.2)
                continue
            acknowledged.append(body)
            number += 1
            if number == 20:
                print(json.dumps({"begun": "reconnect"}), flush=True)
            time.sleep(0.05)
        while time.monotonic() < deadline:
            if {*acknowledged} <= {one.body.decode() for one in listener.seen}:
                break
            time.sleep(0.1)
    missing = {*acknowledged} - {one.body.decode() for one in listener.seen}
    return {"acknowledged": len(acknowledged), "missing": sorted(missing)}


SCENARIOS: dict[str, Callable[[Peer, str], Any]] = {
    one.__name__: one
    for one in (
        *(normal, push, fifo, delay, transaction, orphan, nack, forward, tags, sql, recall),
        *(refused, reconnect),
    )
}


def main() -> None:
    """Play the scenarios that are asked for, each to its end."""
    address, prefix, *names = sys.argv[1:]
    peer = Peer(address, prefix)
    for name in names:
        try:
            told = SCENARIOS[name](peer, f"{prefix}{name}")
        except Exception as error:  # of this scenario; others follow
            told = f"{type(error).__name__}: {error}"
        print(json.dumps({"scenario": name, "told": told}, sort_keys=True), flush=True)


if __name__ == "__main__":
    main()
