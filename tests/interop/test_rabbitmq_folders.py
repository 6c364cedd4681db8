"""The real RabbitMQ starts on folders that we wrote, and consumers get what was in the old ones."""

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from tests.interop import rabbitmq_node
from tests.interop.peers import PeerMissing
from tests.interop.rabbitmq_node import Delivered, RabbitNode
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.base.disk import RealDisk, steps
from sprocket.rabbitmq.codec.amqp import properties
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, long_string
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.reading import (
    FoundMessage,
    MessageState,
    VhostReader,
    vhost_folders,
)
from sprocket.rabbitmq.store.repair import check_vhost, salvage_vhost
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore

pytestmark = pytest.mark.interop


@pytest.fixture
def node(tmp_path: Path) -> Callable[[], RabbitNode]:
    """Return what makes a node; without RabbitMQ the test is skipped by name."""
    try:
        root = rabbitmq_node.installed()
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    return lambda: RabbitNode(root, tmp_path / "node")


def expected(found: FoundMessage) -> Delivered:
    """Return what a consumer has to get of a message."""
    message = found.message
    assert message is not None, found.fault
    told = message.properties
    return Delivered(
        message.exchange,
        message.routing_keys[0],
        found.state is MessageState.DELIVERED,
        sha256(message.body).hexdigest(),
        (told if isinstance(told, bytes) else properties.encode(told)).hex(),
    )


@pytest.mark.parametrize(
    "case", ["03-store-fanout", "04-dirty-kill9", "05-properties-ttl", "08-classic-v2"]
)
def test_rabbitmq_starts_on_a_salvaged_folder(
    case: str, node: Callable[[], RabbitNode], tmp_path: Path
) -> None:
    """Order, bodies, every byte of the properties and `redelivered` are those of the old folder."""
    recorded = RecordedVhosts(case)
    disk = RealDisk()
    old = recorded.unpack(tmp_path / "old")
    for folder in vhost_folders(disk, old):
        salvage_vhost(disk, folder, str(tmp_path / "new" / Path(folder).name))
    with node() as rabbit:
        rabbit.start()
        rabbit.declare([queue for queue in recorded.expected["queues"] if queue["durable"]])
        rabbit.stop()
        rabbit.replace_vhosts(tmp_path / "new")
        rabbit.start()
        now_us = int(time.time() * 1_000_000)
        count = 0
        for folder in vhost_folders(disk, old):
            reader = VhostReader(disk, folder)
            for queue in reader.queues():
                left = [
                    expected(one)
                    for one in reader.messages(queue)
                    if not 0 < one.expiry_us <= now_us
                ]
                assert rabbit.drain(queue.vhost, queue.name) == left
                count += len(left)
    assert count > 100


VHOST = "β vhost"
MANY, SHARED, PRIORITIES, NONE = "many", "größer\n", "prio", "none"
QUEUES = (
    {"vhost": VHOST, "name": MANY, "arguments": {}},
    {"vhost": VHOST, "name": SHARED, "arguments": {}},
    {"vhost": VHOST, "name": PRIORITIES, "arguments": {"x-max-priority": 2}},
    {"vhost": VHOST, "name": NONE, "arguments": {}},
)
HEADERS = FieldTable(
    (
        ("text", long_string("ü")),
        ("number", Field(FieldKind.LONG, -(1 << 40))),
        ("list", Field(FieldKind.ARRAY, (Field(FieldKind.BOOL, value=True), long_string("x")))),
        ("nothing", Field(FieldKind.VOID, None)),
    )
)
PLAIN = b"\x10\0\2"
"""The properties of a message that has a delivery mode and nothing else."""
TYPED = BasicProperties(headers=HEADERS, delivery_mode=2, content_type="a/b", priority=1)
KINDS: tuple[tuple[tuple[bytes, ...], bytes | BasicProperties, tuple[str, ...]], ...] = (
    ((), PLAIN, ("k",)),
    ((b"small",), PLAIN, ("k",)),
    ((b"e" * 4092,), PLAIN, ("the largest that is embedded",)),
    ((b"s" * 4093,), PLAIN, ("the smallest that is stored",)),
    ((b"x" * 131064, b"y" * 131064, b"z"), PLAIN, ("several", "keys", "")),
    ((b"typed",), TYPED, ("k",)),
    ((b"t" * 5000,), TYPED, ("ключ",)),
    ((bytes(range(256)) * 4,), PLAIN, ("k",)),
)
"""Fragments, properties and routing keys of each kind of message."""


class Ours:
    """Our store on a folder, and what its queues have: what a consumer would get."""

    def __init__(self, folder: str) -> None:
        self.store = VhostStore.open(
            VhostPlace(RealDisk(), folder, VHOST), VhostStoreSettings(), VhostGeometry()
        )

    def publish(self, number: int, *names: QueueName) -> None:
        """Publish a message of each kind in turn; some expire in a hundred years."""
        fragments, held, keys = KINDS[number % len(KINDS)]
        message = BasicMessage(
            b"%016d" % number, VHOST, "amq.fanout", keys, held, fragments, is_persistent=True
        )
        expires_at_us = int((time.time() + 3e9) * 1e6) if number % 5 == 0 else None
        for name in names:
            queue = self.store.queue(name)
            queue.publish(
                queue.next_seq_id, [message], expires_at_us=expires_at_us, is_delivered=False
            )

    def work(self) -> None:
        """Make everything durable, flush what may be, collect."""
        self.store.log.commit()
        self.store.flush_due(0)
        steps.run(self.store.flush_steps(self.store.flush_due(1e9)))
        while steps.run(self.store.collect_steps()):
            pass

    def stop(self) -> None:
        """Stop cleanly."""
        steps.run(self.store.close_steps())

    def content(self) -> dict[str, list[Delivered]]:
        """Return what consumers would get."""
        found: dict[str, list[Delivered]] = {}
        for name in (*map(plain, (MANY, SHARED, NONE)), *PARTS):
            queue = self.store.queue(name)
            entries = steps.run(queue.read(0, queue.next_seq_id))
            found.setdefault(name.name, []).extend(
                delivered(one.message, is_delivered=one.is_delivered) for one in entries
            )
        return found


def plain(name: str) -> QueueName:
    """Return a queue's name."""
    return QueueName(VHOST, name)


PARTS = tuple(QueueName(VHOST, PRIORITIES, priority) for priority in (2, 1, 0))
"""In the order of delivery."""


def delivered(message: BasicMessage, *, is_delivered: bool) -> Delivered:
    """Return what a consumer has to get of a message."""
    told = message.properties
    return Delivered(
        message.exchange,
        message.routing_keys[0],
        is_delivered,
        sha256(message.body).hexdigest(),
        (told if isinstance(told, bytes) else properties.encode(told)).hex(),
    )


def fill(ours: Ours) -> None:
    """Have messages of every kind in segments, journals and store, and holes between them."""
    many = ours.store.queue(plain(MANY))
    for number in range(3000):
        ours.publish(number, plain(MANY), *((plain(SHARED),) if number % 3 == 0 else ()))
    for number in range(3000, 3040):
        ours.publish(number, PARTS[number % 3])
    ours.work()
    many.ack([*range(2100), *range(2200, 2300, 2)])
    ours.work()
    shared = ours.store.queue(plain(SHARED))
    shared.ack([*range(0, 900, 7)])
    many.deliver([*range(2100, 2150)])
    for number in range(4000, 4020):
        ours.publish(number, plain(MANY), plain(SHARED), PARTS[0])
    ours.store.log.commit()


@pytest.mark.parametrize("how", ["clean", "killed, started and stopped"])
def test_rabbitmq_starts_on_what_we_left_and_we_on_what_it_left(
    how: str, node: Callable[[], RabbitNode], tmp_path: Path
) -> None:
    """Each way nothing is lost, doubled or out of order, and `redelivered` is as it should be."""
    made = tmp_path / "made" / layout.vhost_folder(VHOST)
    ours = Ours(str(made))
    fill(ours)
    if how != "clean":
        ours.store.close()
        ours = Ours(
            str(made)
        )  # what many queues have in the log stays there until they are flushed
    expected = ours.content()
    ours.stop()
    assert sum(map(len, expected.values())) > 1500
    with node() as rabbit:
        rabbit.start()
        rabbit.declare(QUEUES)
        rabbit.stop()
        rabbit.replace_vhosts(tmp_path / "made")
        rabbit.start()
        assert rabbit.drain(VHOST, SHARED) == expected[SHARED]
        assert rabbit.drain(VHOST, PRIORITIES) == expected[PRIORITIES]
        assert rabbit.drain(VHOST, NONE) == expected[NONE] == []
        assert rabbit.drain(VHOST, MANY, 100) == expected[MANY][:100]
        for number in range(3):
            rabbit.publish(VHOST, MANY, b"from RabbitMQ %d" % number * (1 + 300 * number))
        rabbit.stop()
        folder = rabbit.vhosts / layout.vhost_folder(VHOST)
        ours = Ours(str(folder))
        assert (ours.store.report.damage, ours.store.report.lost) == ([], 0)
        left = ours.content()
        assert left[MANY][:-3] == expected[MANY][100:]
        assert [one.redelivered for one in left[MANY][-3:]] == [False] * 3
        assert (left[SHARED], left[PRIORITIES]) == ([], [])
        for number in range(5000, 5010):
            ours.publish(number, plain(MANY), PARTS[1])
        expected = ours.content()
        ours.stop()
        assert [*check_vhost(RealDisk(), str(folder))] == []
        rabbit.start()
        for name in (MANY, SHARED, PRIORITIES):
            assert rabbit.drain(VHOST, name) == expected[name]
