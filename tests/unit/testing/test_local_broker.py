"""The broker for tests: quick to be ready, on a clock that stands, and it can die in three ways."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sprocket.base.disk import RealDisk
from sprocket.base.errors import ClientError
from sprocket.base.units import MIB
from sprocket.rocketmq.client import (
    Admin,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    blocking,
)
from sprocket.rocketmq.settings import ServerSettings, Settings
from sprocket.rocketmq.store.store import Store
from sprocket.testing.local_broker import LocalBroker, small_settings

NOW_MS = 1_700_000_000_000


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker that runs."""
    with LocalBroker(now_ms=NOW_MS) as running:
        yield running


def bodies(broker: LocalBroker, topic: str) -> list[bytes]:
    """Return what a topic holds, found by the key that every message of these tests has."""
    with blocking.Admin(broker.nameserver) as admin:
        return sorted(message.body for message in admin.query_by_key(topic, "k"))


def message(body: bytes) -> Message:
    """Return a message for topic `t`."""
    return Message("t", body, keys=["k"])


def test_its_folder_goes_with_it() -> None:
    """A temporary folder is there while it runs; one of the caller's stays."""
    with LocalBroker() as broker:
        folder = Path(broker.folder)
        assert (folder / "commitlog").is_dir()
    assert not folder.exists()


def test_a_folder_can_be_given(tmp_path: Path) -> None:
    """What a broker left there the next one serves."""
    folder = str(tmp_path / "store")
    with LocalBroker(folder) as first, blocking.Producer(first.nameserver, group="g") as producer:
        producer.send(message(b"stays"))
    with LocalBroker(folder) as second:
        assert bodies(second, "t") == [b"stays"]
    assert (tmp_path / "store" / "commitlog").is_dir()


@pytest.mark.slow
def test_a_coroutine_can_use_it() -> None:
    """Sent, received, crashed and sent again, all from one event loop."""

    async def main() -> list[bytes]:
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def listener(messages: list[ReceivedMessage]) -> None:
            for one in messages:
                await got.put(one.body)

        async with LocalBroker() as broker, Producer(broker.nameserver, group="p") as producer:
            await producer.send(message(b"one"))
            async with PushConsumer(
                broker.nameserver, group="c", listener=listener, start="first"
            ) as consumer:
                await consumer.subscribe("t")
                first = await got.get()
                broker.crash()
                await producer.send(message(b"two"))
                return [first, await got.get()]

    assert asyncio.run(main()) == [b"one", b"two"]


def test_its_clock_stands_still(broker: LocalBroker) -> None:
    """Messages are stored at the time that the test set."""

    async def stored_at_ms() -> list[int]:
        async with Producer(broker.nameserver, group="p") as producer:
            sent = [await producer.send(message(b"now"))]
            broker.advance(seconds=3)
            sent.append(await producer.send(message(b"later")))
        async with Admin(broker.nameserver) as admin:
            found = [await admin.view(one.offset_message_id, "t") for one in sent]
        return [one.stored_at_ms for one in found if one is not None]

    assert asyncio.run(stored_at_ms()) == [NOW_MS, NOW_MS + 3_000]


def test_a_jump_of_hours_loses_no_client(broker: LocalBroker) -> None:
    """Who is connected stays in its group and its topics stay routed, however far it jumps."""
    got: list[ReceivedMessage] = []
    with (
        blocking.Producer(broker.nameserver, group="p") as producer,
        blocking.PushConsumer(
            broker.nameserver, group="c", listener=got.extend, start="first"
        ) as consumer,
    ):
        producer.send(message(b"before"))
        consumer.subscribe("t")
        _wait_for(got, 1)
        broker.advance(seconds=5 * 3600)
        producer.send(message(b"after"))
        _wait_for(got, 2)
    assert [one.body for one in got] == [b"before", b"after"]


def test_delays_follow_its_clock(broker: LocalBroker) -> None:
    """A message of level 14, ten minutes, comes when the test says that they have passed."""
    got: list[ReceivedMessage] = []
    with (
        blocking.Producer(broker.nameserver, group="p") as producer,
        blocking.PushConsumer(
            broker.nameserver, group="c", listener=got.extend, start="first"
        ) as consumer,
    ):
        producer.send(Message("t", b"at once"))
        producer.send(Message("t", b"later", delay_level=14))
        consumer.subscribe("t")
        _wait_for(got, 1)
        broker.advance(seconds=599)
        producer.send(Message("t", b"before ten minutes are over"))
        _wait_for(got, 2)
        broker.advance(seconds=1)
        _wait_for(got, 3)
    assert [one.body for one in got] == [b"at once", b"before ten minutes are over", b"later"]


def test_retries_follow_its_clock(broker: LocalBroker) -> None:
    """A message that failed comes again when ten seconds were said to pass."""
    got: list[int] = []

    def listener(messages: list[ReceivedMessage]) -> None:
        got.append(messages[0].reconsume_times)
        if len(got) < 3:
            raise ValueError("not yet")

    with (
        blocking.Producer(broker.nameserver, group="p") as producer,
        blocking.PushConsumer(
            broker.nameserver, group="c", listener=listener, start="first"
        ) as consumer,
    ):
        producer.send(Message("t", b"x"))
        consumer.subscribe("t")
        moved_ms = broker.advance_until(lambda: len(got) == 3)
    assert moved_ms == broker.clock.now_ms() - NOW_MS == 10_000 + 30_000
    assert got == [0, 1, 2]


def test_a_crash_keeps_what_was_acknowledged(broker: LocalBroker) -> None:
    """The same ports, the same folder; recovery tells that there was a crash."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        producer.send(message(b"one"))
        before = broker.nameserver, broker.address, broker.folder
        report = broker.crash()
        assert (broker.nameserver, broker.address, broker.folder) == before
        assert not report.clean
        producer.send(message(b"two"))
    assert bodies(broker, "t") == [b"one", b"two"]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_power_cut_keeps_what_was_synced(broker: LocalBroker, seed: int | None) -> None:
    """Under sync flush all that was acknowledged, whatever else is found."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        producer.send(message(b"one"))
        broker.power_cut(seed)
        producer.send(message(b"two"))
    assert bodies(broker, "t") == [b"one", b"two"]


@pytest.mark.parametrize(("die", "left"), [("crash", [b"x"]), ("power_cut", [])])
def test_async_flush_can_lose_power_but_not_the_process(die: str, left: list[bytes]) -> None:
    """What was answered before it was synced survives a kill, and not a loss of power."""
    settings = small_settings()
    store = replace(settings.store, flush="async", flush_bytes_min=MIB, flush_thorough_ms=60_000)
    lazy = replace(settings, store=store)
    with LocalBroker(settings=lazy) as broker:
        with blocking.Admin(broker.nameserver) as admin:
            admin.create_topic("t", queues=1)
        with blocking.Producer(broker.nameserver, group="p") as producer:
            producer.send(message(b"x"))
        getattr(broker, die)()
        assert bodies(broker, "t") == left


@pytest.mark.parametrize(("die", "left"), [("crash", 2), ("power_cut", 1)])
def test_committed_offsets_survive_the_process_and_those_saved_the_power(
    broker: LocalBroker, die: str, left: int
) -> None:
    """A commit is written before it is answered, and synced when all are saved, as by a stop."""
    with blocking.Admin(broker.nameserver) as admin:
        admin.create_topic("t", queues=1)
        admin.group.create("c")
        (queue,) = admin.queues("t")
        with blocking.Producer(broker.nameserver, group="p") as producer:
            for _ in range(2):
                producer.send(message(b"x"))
        admin.offset.commit("c", queue, 1)
        broker.restart()
        admin.offset.commit("c", queue, 2)
        getattr(broker, die)()
        assert admin.offset.committed("c", queue) == left


def test_restart_is_a_clean_stop(broker: LocalBroker) -> None:
    """Nothing is recovered, and nothing is missing."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        producer.send(message(b"one"))
        assert broker.restart().clean
    assert bodies(broker, "t") == [b"one"]


def test_between_stop_and_start_nobody_answers(broker: LocalBroker) -> None:
    """The gap is the test's to use; the store can be opened by others meanwhile."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        producer.send(message(b"one"))
    broker.stop()
    with pytest.raises(ClientError), blocking.Admin(broker.nameserver) as admin:
        admin.topics()
    store = Store.open_read_only(RealDisk(), broker.folder)
    try:
        assert [topic for topic, _, _ in store.queues()] == ["t"]
    finally:
        store.close()
    broker.start()
    assert bodies(broker, "t") == [b"one"]


def test_settings_are_those_of_the_broker() -> None:
    """A port that is given is taken; the other one is any free one."""
    with LocalBroker() as first:
        port = int(first.address.rpartition(":")[2])
    settings = Settings(server=ServerSettings(broker_port=port, nameserver_port=0))
    small = replace(
        settings, log=replace(settings.log, segment_bytes=8 * MIB), store=small_settings().store
    )
    with LocalBroker(settings=small) as second:
        assert second.address == f"127.0.0.1:{port}"
        assert second.nameserver != second.address


def _wait_for(got: list[ReceivedMessage], count: int) -> None:
    """Let the client's thread work until it handed out so many messages."""
    deadline = time.monotonic() + 20
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages after 20 s"
        time.sleep(0.001)
