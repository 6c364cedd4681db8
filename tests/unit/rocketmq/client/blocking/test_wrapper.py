"""A blocking client begins and ends like any resource."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.clock import SystemClock
from sprocket.base.errors import InvalidMessage, NotConnected
from sprocket.rocketmq.client.blocking import Admin, Client, LitePullConsumer, Producer
from sprocket.rocketmq.client.blocking import wrapper as module
from sprocket.rocketmq.client.blocking.wrapper import OpenedWrapper, Runner
from sprocket.rocketmq.model.message import Message
from sprocket.runtime import driver
from sprocket.runtime.blocking import ThreadLock


def test_closing_twice_is_allowed(names: str) -> None:
    """The second close does nothing."""
    sender = Producer(names)
    sender.start()
    sender.close()
    sender.close()


def test_what_is_not_open_says_so(names: str) -> None:
    """Neither a client of its own, nor one that shares a client that is not open."""
    with pytest.raises(NotConnected, match="the producer is not open; use `with`"):
        Producer(names).send(Message("t", b"x"))
    with pytest.raises(NotConnected, match="the client is not open; use `with`"):
        Admin(Client(names)).start()


def test_a_shared_client_has_one_thread_for_all(names: str) -> None:
    """It outlives those that use it."""
    before = threading.active_count()
    with Client(names) as client:
        with Producer(client) as sender, Admin(client) as looking:
            sender.send(Message("t", b"x"))
            assert looking.topics() == ["t"]
            assert threading.active_count() == before + 1
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


class Slow:
    """An awaited client whose close takes as long as the test says."""

    def __init__(self) -> None:
        self.closing = threading.Event()
        self.release = threading.Event()
        self.is_closed = False

    async def start(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End, when it may."""
        self.closing.set()
        while not self.release.is_set():
            await asyncio.sleep(0.001)
        self.is_closed = True


class ToldLock:
    """A lock that says when somebody has to wait for it."""

    def __init__(self) -> None:
        self._lock = ThreadLock()
        self.waited = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> ToldLock:
    """The lock of all runners that are made."""
    told = ToldLock()
    monkeypatch.setattr(module, "ThreadLock", lambda: told)
    return told


def closed_by_two(slow: Slow, target: Any, told: ToldLock) -> list[Any]:
    """Close from two threads; return what each found when its close had returned, or its error."""
    found: list[Any] = []

    def close() -> None:
        try:
            target.close()
            found.append(slow.is_closed)
        except Exception as error:
            found.append(error)
        told.waited.set()

    threads = [threading.Thread(target=close) for _ in "ab"]
    threads[0].start()
    assert slow.closing.wait(LONG_SECONDS)
    threads[1].start()
    assert told.waited.wait(LONG_SECONDS)
    slow.release.set()
    for thread in threads:
        thread.join(LONG_SECONDS)
    return found


def test_who_closes_second_waits_for_the_first(told: ToldLock) -> None:
    """Neither is told that the client is not open, and it is closed when either returns."""
    slow = Slow()
    runner = Runner("tester", slow)
    runner.start()
    assert closed_by_two(slow, runner, told) == [True, True]
    assert not runner.is_open


def test_who_closes_a_client_second_waits_for_the_first(names: str, told: ToldLock) -> None:
    """As with the runner that it has."""
    slow = Slow()
    client = OpenedWrapper("client", names, lambda _: slow)
    client.start()
    assert closed_by_two(slow, client, told) == [True, True]


def test_a_loop_ends_when_another_thread_has_closed() -> None:
    """Though there is no loop any more to ask for the next one."""
    slow = Slow()
    slow.release.set()
    runner = Runner("tester", slow)
    runner.start()

    async def endless() -> AsyncIterator[int]:
        while True:
            yield 1

    taken = []
    for number in runner.iterate(endless):
        taken.append(number)
        if len(taken) == 2:
            closing = threading.Thread(target=runner.close)
            closing.start()
            closing.join(LONG_SECONDS)
    assert taken == [1, 1]


def test_what_ends_the_loop_of_an_open_client_is_raised() -> None:
    """Such as that the shared client was closed before it."""
    slow = Slow()
    slow.release.set()
    runner = Runner("tester", slow)
    runner.start()

    async def lost() -> AsyncIterator[int]:
        yield 1
        raise NotConnected("gone")

    with pytest.raises(NotConnected, match="gone"):
        list(runner.iterate(lost))
    runner.close()


def test_what_fails_to_start_leaves_no_thread(names: str) -> None:
    """And may be closed all the same."""
    before = threading.active_count()
    consumer = LitePullConsumer(names, group="g", start=cast("Any", "nowhere"))
    with pytest.raises(InvalidMessage):
        consumer.start()
    assert threading.active_count() == before
    consumer.close()


def test_a_shared_client_has_the_clock_and_the_connections_it_is_given(names: str) -> None:
    """As the awaited one has."""
    tried = []

    async def connect(factory: Any, on_event: Any, host: str, port: int, **how: Any) -> Any:
        tried.append(f"{host}:{port}")
        return await driver.connect(factory, on_event, host, port, **how)

    clock = AskedClock()
    with Client(names, clock=clock, connect=connect) as client, Admin(client) as looking:
        assert looking.topics() == []
    assert tried == [names]
    assert clock.is_asked


class AskedClock(SystemClock):
    """Says whether anybody asked."""

    is_asked = False

    def monotonic(self) -> float:
        """Return the time."""
        self.is_asked = True
        return super().monotonic()


def started() -> Runner:
    """Return a runner that has begun, whose client closes at once."""
    slow = Slow()
    slow.release.set()
    runner = Runner("tester", slow)
    runner.start()
    return runner


def where() -> str:
    """Return in which thread it is called."""
    return threading.current_thread().name


def test_looking_is_done_in_the_loop_while_there_is_one() -> None:
    """The loop owns what is looked at; without one the caller may look, and so may the loop."""
    runner = started()
    assert runner.read(where) == "sprocket-tester"
    assert runner.do(lambda: runner.read(where)) == "sprocket-tester"
    sharing = Runner("sharer", Slow(), runner)
    sharing.start()
    assert sharing.read(where) == "sprocket-tester"
    runner.close()
    assert runner.read(where) == where()
    assert sharing.read(where) == where()  # its loop has ended, and it does not know yet


def test_what_is_early_runs_in_the_loop_once_there_is_one() -> None:
    """Before that, in the thread of the caller; it must not wait there."""

    async def here() -> str:
        return where()

    async def waits() -> None:
        await asyncio.sleep(0)

    runner = Runner("tester", Slow())
    assert runner.early(here) == where()
    with pytest.raises(AssertionError, match="there is no loop yet"):
        runner.early(waits)
    runner = started()
    assert runner.early(here) == "sprocket-tester"
    runner.close()


def test_what_is_early_and_a_start_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is early while another thread starts the client finds it started."""
    slow = Slow()
    slow.release.set()

    class Starting(ToldLock):
        """Lets the client start before who was early has the lock."""

        has_begun = False

        def __enter__(self) -> None:
            if not self.has_begun:
                self.has_begun = True
                runner.start()

        def __exit__(self, *_: object) -> None:
            pass

    async def here() -> str:
        return where()

    monkeypatch.setattr(module, "ThreadLock", Starting)
    runner = Runner("tester", slow)
    assert runner.early(here) == "sprocket-tester"
    runner.close()
