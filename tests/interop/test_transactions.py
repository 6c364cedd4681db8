"""Transactions between the official Java client, ours, our broker and the real RocketMQ 5.3.3.

A message's body is the word of the plan that says how its transaction ends. Whatever happens to
those who know it, in the end each message that was to be committed is there once, and no other.
"""

import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.interop.java_client import Half, JavaClient
from tests.interop.test_store_in_rocketmq import OURS, THEIRS
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client.blocking import (
    Admin,
    Message,
    Puller,
    ReceivedMessage,
    Transaction,
    TransactionProducer,
    TransactionState,
)
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.internal import (
    CHECKED_TOO_OFTEN_TOPIC,
    HALF_TOPIC,
    TRANSACTION_GROUP,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-transactions"),
]

PLAN = ("commit", "rollback", "throw", "commit-check", "rollback-check")
COMMITTED = Counter({"commit": 1, "commit-check": 1})
ASKED = {"throw", "commit-check", "rollback-check"}
QUICK = (
    "transactions.check_interval_ms=100",
    "transactions.timeout_ms=100",
    "transactions.check_count_max=100000",
)
"""Ours asks soon, and until somebody knows."""
SOON = {
    "transactionCheckInterval": 6_000,
    "transactionTimeOut": 6_000,
    "transactionOpBatchInterval": 100,
    "transactionCheckMax": 100_000,
}
"""RocketMQ asks soon, but long after its op messages, which would follow by 3 s: else it asks again
about what was committed, and commits that again."""
AT_ONCE = {"commit": TransactionState.COMMIT, "rollback": TransactionState.ROLLBACK}
COPIES = 20


def ours(folder: Path, settings: Sequence[str] = QUICK) -> peers.Sprocket:
    """Return our broker on the folder's store."""
    options = [part for one in settings for part in ("--set", one)]
    return peers.Sprocket(folder / "ours", folder / "store", options)


def create(broker: peers.Broker, topic: str) -> None:
    """Create a topic, and wait until the NameServer knows it: Java's clients do not."""
    with link.Link(broker.address) as connection:
        link.create_topic(connection, topic, 4)
    with link.Link(broker.nameserver) as connection:
        asked = {"topic": topic}
        peers.wait_until(
            lambda: connection.ask(link.GET_ROUTE, asked).code == link.SUCCESS, "the route"
        )


def visible(nameserver: str, topic: str) -> Counter[str]:
    """Return the bodies in a topic, and how often each is there."""
    found: Counter[str] = Counter()
    with Puller(nameserver) as puller:
        for queue in puller.queues(topic):
            offset, end = puller.min_offset(queue), puller.max_offset(queue)
            while offset < end:
                pulled = puller.pull(queue, offset)
                found.update(one.body.decode() for one in record.decode_all(pulled.body))
                offset = pulled.next_offset
    return found


def assert_visible(broker: peers.Broker, topic: str, expected: Counter[str]) -> None:
    """Assert that a topic has these bodies; queues follow the log, so wait for so many."""
    count = expected.total()
    peers.wait_until(lambda: visible(broker.nameserver, topic).total() >= count, "messages")
    assert visible(broker.nameserver, topic) == expected


def is_all_ended(address: str) -> bool:
    """Say whether a broker waits for the end of no transaction any more."""
    halves = {"topic": HALF_TOPIC, "queueId": 0}
    with link.Link(address) as connection:
        end = connection.call(link.GET_MAX_OFFSET, halves).ext["offset"]
        asked = {"consumerGroup": TRANSACTION_GROUP, **halves}
        answer = connection.ask(link.QUERY_CONSUMER_OFFSET, asked)
        return answer.code == link.SUCCESS and answer.ext["offset"] == end


def wait_until_ended(broker: peers.Broker) -> None:
    """Wait until a broker has been told of every transaction how it ended."""
    peers.wait_until(lambda: is_all_ended(broker.address), "every transaction to end", every=0.5)


def check(message: ReceivedMessage) -> TransactionState:
    """Say how the transaction of a message ended."""
    is_committed = message.body == b"commit-check"
    return TransactionState.COMMIT if is_committed else TransactionState.ROLLBACK


def know_nothing(_: ReceivedMessage) -> TransactionState:
    """Say nothing."""
    return TransactionState.UNKNOWN


def work(transaction: Transaction) -> TransactionState:
    """End a transaction as its message says, unless that is only known later."""
    return AT_ONCE.get(transaction.message.body.decode(), TransactionState.UNKNOWN)


def wait_until_sent(half: Half) -> list[dict[str, str]]:
    """Wait until a client has sent all; return what it told of each message."""

    def is_ready() -> bool:
        if half.child.poll() is not None:
            pytest.fail(half.child.communicate()[0])
        return any(line["event"] == "ready" for line in half.lines())

    peers.wait_until(is_ready, "Java's messages")
    return [line for line in half.lines() if line["event"] == "sent"]


@pytest.mark.parametrize("version", peers.CLIENTS)
def test_java_ends_its_transactions(
    version: str, java_of: Callable[[str], JavaClient], tmp_path: Path
) -> None:
    """By its work, or when our broker asks, each once."""
    java, topic = java_of(version), f"Ends{version.replace('.', '')}"
    with ours(tmp_path) as broker:
        create(broker, topic)
        half = java.start_transacting(broker.nameserver, topic, group=topic, plan=PLAN)
        try:
            sent = {line["word"]: line["id"] for line in wait_until_sent(half)}
            wait_until_ended(broker)
            told = [line for line in half.lines() if line["event"] == "checked"]
        finally:
            half.kill()
        assert_visible(broker, topic, COMMITTED)
        assert {line["word"] for line in told} == ASKED
        assert all(line["transaction"] == sent[line["word"]] for line in told)


@pytest.mark.parametrize("survivor", [*peers.CLIENTS, "python", "go"])
def test_another_of_the_group_is_asked(
    survivor: str,
    java_of: Callable[[str], JavaClient],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """When the producer has died our broker asks the other one, also after it was killed itself."""
    topic = f"Survives{survivor.replace('.', '')}"
    broker = ours(tmp_path)
    with broker:
        create(broker, topic)
        victim = java_of("4.9.8").start_transacting(
            broker.nameserver, topic, group=topic, plan=PLAN, silent=True
        )
        try:
            wait_until_sent(victim)
        finally:
            victim.kill()
        assert_visible(broker, topic, Counter({"commit": 1}))
        broker.kill()
        broker.start()
        if survivor == "python":
            with TransactionProducer(broker.nameserver, group=topic, check=check):
                wait_until_ended(broker)
        else:
            # Go's and Java's 5.3.3 introduce themselves to no broker before they send something.
            half = (
                request.getfixturevalue("go").start_answering(broker.nameserver, topic, group=topic)
                if survivor == "go"
                else java_of(survivor).start_transacting(
                    broker.nameserver, topic, group=topic, plan=["commit"]
                )
            )
            try:
                wait_until_sent(half)
                wait_until_ended(broker)
            finally:
                half.kill()
        own = Counter({"commit": int(survivor != "python")})
        assert_visible(broker, topic, COMMITTED + own)


def resumed(jars: Path, folder: Path, broker: peers.Broker, message_id: str) -> str:
    """Return what RocketMQ's admin says when it has a message asked about again."""
    classes = peers.compile_java(jars, folder, [peers.RESUME_SOURCE])
    command = [*peers.java(jars, home=folder, classes=classes), "Resume"]
    done = subprocess.run(
        [*command, broker.nameserver, CHECKED_TOO_OFTEN_TOPIC, message_id],
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_the_java_admin_has_one_asked_about_again(jars: Path, tmp_path: Path) -> None:
    """A message that was given up, by its id, when there is somebody who knows."""
    topic = "Resumed"
    with ours(tmp_path, (*QUICK[:2], "transactions.check_count_max=1")) as broker:
        create(broker, topic)
        with TransactionProducer(broker.nameserver, group=topic, check=know_nothing) as producer:
            sent = producer.send(Message(topic, b"commit-check"), work).sent
        wait_until_ended(broker)
        assert_visible(broker, topic, Counter())
        with Admin(broker.nameserver) as admin:
            found = admin.message.by_id(sent.message_id, CHECKED_TOO_OFTEN_TOPIC)
        assert found is not None
        with TransactionProducer(broker.nameserver, group=topic, check=check):
            assert resumed(jars, tmp_path, broker, found.stored.offset_message_id) == "true"
            assert_visible(broker, topic, Counter({"commit-check": 1}))


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("first", ["sprocket", "rocketmq"])
def test_transactions_under_way_at_a_switch_end_once(
    first: str, end: str, jars: Path, tmp_path: Path
) -> None:
    """The other broker goes on with the store: half messages, op messages, copies."""
    topic = "Switched"
    real = peers.RocketMQ(
        jars=jars,
        folder=tmp_path / "theirs",
        store=tmp_path / "store",
        settings={**THEIRS, **SOON},
    )
    our = ours(tmp_path, (*OURS, *QUICK))
    before, after = (our, real) if first == "sprocket" else (real, our)
    with before:
        create(before, topic)
        with TransactionProducer(before.nameserver, group=topic, check=know_nothing) as producer:
            for word in PLAN * COPIES:
                result = producer.send(Message(topic, word.encode()), work)
                assert result.is_confirmed == (word in AT_ONCE)
        assert_visible(before, topic, Counter({"commit": COPIES}))
        if end == "killed":
            before.kill()
    with after:
        with TransactionProducer(after.nameserver, group=topic, check=check):
            wait_until_ended(after)
        assert_visible(after, topic, Counter(dict.fromkeys(COMMITTED, COPIES)))
