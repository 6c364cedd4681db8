"""A long opening is seen, and ended when nobody wants it any more; the next one goes on."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.stores import ROOT, filled, maintain, open_store

from sprocket.base.errors import DiskFailed, OpeningEnded
from sprocket.base.progress import Step
from sprocket.node import opening
from sprocket.node.opening import OpeningWatch
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import ServerSettings, Settings, StoreSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

COUNT = 60


def test_only_a_long_opening_is_told_and_once_a_second() -> None:
    """The first second is silent."""
    said: list[str] = []
    clock = FakeClock()
    one = OpeningWatch(said.append, clock)
    one.step("queues found", 10)
    clock.advance(999)
    one.step("queues found", 2_000)
    assert said == []
    clock.advance(1)
    one.step("queues found", 30_000)
    one.step("queues found", 30_001)
    clock.advance(1_000)
    one.step("bytes of log checked", 4_000, 1_000_000)
    assert said == [
        "opening the store: 30,000 queues found",
        "opening the store: 4,000 of 1,000,000 bytes of log checked",
    ]


def test_nobody_need_listen() -> None:
    """Without somebody who reads it, nothing is said."""
    clock = FakeClock()
    one = OpeningWatch(None, clock)
    clock.advance(5_000)
    one.step("queues found", 1)


class StepCounter:
    """Ends an opening at its nth step."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __call__(self, what: str, done: int, total: int = 0) -> None:
        """See `base.progress.Step`."""
        assert done >= 0
        assert not total or done <= total, what
        self.left -= 1
        if self.left == 0:
            raise OpeningEnded("enough")


def _as_ours(_disk: SimulatedDisk) -> None:
    """Leave it as we left it."""


def _as_rocketmqs(disk: SimulatedDisk) -> None:
    """Make it as RocketMQ would have left it."""
    layout = StoreLayout(ROOT)
    disk.remove(layout.queue_table)
    file = disk.open(layout.abort, write=True)
    file.resize(0)
    file.write([b"1234"], 0)


def _without_queues(disk: SimulatedDisk) -> None:
    disk.remove_tree(f"{ROOT}/consumequeue")


@pytest.mark.parametrize("left", [_as_ours, _as_rocketmqs, _without_queues])
def test_an_opening_may_be_ended_at_every_step(left: Callable[[SimulatedDisk], None]) -> None:
    """And the power may go then: the next one finds every message in its place."""
    disk, store = filled(COUNT)
    maintain(store)
    killed = disk.kill()
    left(killed)
    nth, is_ended = 0, True
    while is_ended:
        nth += 1
        again = killed.kill()
        try:
            Store.open(
                again, ROOT, StoreSettings.small(), FakeClock(), None, step=StepCounter(nth)
            ).close()
            is_ended = False
        except OpeningEnded:
            pass
        for found in (again, again.crash(lambda _count: 0)):
            whole = open_store(found.kill())
            assert [(queue, each.max) for _, queue, each in whole.queues()] == [(0, 30), (1, 30)]
            assert all(
                whole.get_messages("topic", n % 2, n // 2, max_count=1).records
                for n in range(COUNT)
            )
            whole.close()
    assert nth > 10


def test_what_an_ended_opening_held_is_given_up() -> None:
    """The lock, so that this process can open the store again at once."""
    disk, store = filled(4)
    store.close()
    with pytest.raises(OpeningEnded):
        Store.open(disk, ROOT, StoreSettings.small(), FakeClock(), None, step=StepCounter(1))
    open_store(disk).close()


def test_a_cancelled_start_waits_for_the_opening_to_end() -> None:
    """Else it would go on behind the back of whoever opens the store next."""
    begun, ended = threading.Event(), threading.Event()

    def do(step: Step) -> Store:
        begun.set()
        try:
            while True:
                step("turns", 0)
        finally:
            ended.set()

    async def main() -> None:
        task = asyncio.ensure_future(opening.on_a_thread(OpeningWatch(None, FakeClock()), do))
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(main())


def test_a_store_that_was_opened_all_the_same_is_closed() -> None:
    """It was cancelled too late for the opening, but nobody has the store."""
    begun, go_on = threading.Event(), threading.Event()
    disk = SimulatedDisk()

    def do(_step: Step) -> Store:
        begun.set()
        go_on.wait()
        return Store.open(disk, ROOT, StoreSettings.small(), FakeClock(), Geometry.small())

    async def main() -> None:
        task = asyncio.ensure_future(opening.on_a_thread(OpeningWatch(None, FakeClock()), do))
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert open_store(disk).report.clean


def test_what_the_opening_raises_is_raised() -> None:
    """On the loop, as it is."""

    def do(_step: Step) -> Store:
        raise DiskFailed("no disk")

    async def main() -> None:
        with pytest.raises(DiskFailed, match="no disk"):
            await opening.on_a_thread(OpeningWatch(None, FakeClock()), do)

    asyncio.run(main())


def test_no_port_is_open_while_the_store_is_opened() -> None:
    """Both were, for minutes, and nobody answered."""
    disk = SimulatedDisk()
    ports: list[int] = []
    refused: list[int] = []

    def hold(_call: str, _path: str) -> None:
        go_on.wait()

    async def main() -> None:
        settings = Settings(server=ServerSettings(nameserver_port=0, broker_port=0))
        node = await Node.start(settings, ROOT, disk=disk, geometry=Geometry.small())
        ports.extend(
            int(one.rpartition(":")[2])
            for one in (node.addresses.nameserver, node.addresses.broker)
        )
        await node.stop()
        settings = Settings(server=ServerSettings(nameserver_port=ports[0], broker_port=ports[1]))
        starting = asyncio.ensure_future(
            Node.start(settings, ROOT, disk=disk, geometry=Geometry.small())
        )
        disk.before = hold
        for port in ports:
            while not starting.done():
                try:
                    await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    refused.append(port)
                    break
        go_on.set()
        await (await starting).stop()

    go_on = threading.Event()
    asyncio.run(main())
    assert refused == ports
