"""A test broker says when nothing more happens by itself, and moves from event to event."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import (
    ConsumerSettings,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    blocking,
)
from sprocket.rocketmq.errors import NoRoute
from sprocket.testing.local_broker import LocalBroker
from sprocket.testing.quiet import NotQuiet


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker that runs."""
    with LocalBroker() as running:
        yield running


def test_settled_means_consumed(broker: LocalBroker) -> None:
    """What was sent has been through its listener, however slow that is; nobody has to wait."""
    got: list[bytes] = []

    def listener(messages: list[ReceivedMessage]) -> None:
        time.sleep(0.02)
        got.extend(one.body for one in messages)

    settings = ConsumerSettings(batch_messages_max=1)
    with (
        blocking.Producer(broker.nameserver, group="p") as producer,
        blocking.PushConsumer(
            broker.nameserver, group="c", listener=listener, start="first", settings=settings
        ) as consumer,
    ):
        consumer.subscribe("t", "a")
        sent = [b"%d" % number for number in range(10)]
        for body in sent:
            producer.send(Message("t", body, tag="a"))
        producer.send(Message("t", b"of another tag", tag="b"))
        broker.settle()
        assert sorted(got) == sent
    assert [one.body for one in broker.messages("t")] == [*sent, b"of another tag"]


def test_a_message_that_fails_for_ever_is_a_dead_letter(broker: LocalBroker) -> None:
    """`advance_until` goes from try to try, and says how long they take together."""
    got: list[int] = []

    def listener(messages: list[ReceivedMessage]) -> None:
        got.append(messages[0].reconsume_times)
        raise ValueError("never")

    with (
        blocking.Producer(broker.nameserver, group="p") as producer,
        blocking.PushConsumer(
            broker.nameserver, group="c", listener=listener, start="first"
        ) as consumer,
    ):
        producer.send(Message("t", b"x"))
        consumer.subscribe("t")
        moved_ms = broker.advance_until(lambda: bool(broker.dead_letters("c")))
        assert [one.body for one in broker.dead_letters("c")] == [b"x"]
        with pytest.raises(NotQuiet, match="no message waits for a later time"):
            broker.advance_until(lambda: False)
    assert got == list(range(17))
    assert 17_000_000 < moved_ms < 18_000_000


def test_a_limit_of_time_is_kept(broker: LocalBroker) -> None:
    """The clock is not moved further than the test allows."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        producer.send(Message("t", b"x", delay_level=14))
    began = broker.clock.now_ms()
    with pytest.raises(NotQuiet, match="due in 600000 ms"):
        broker.advance_until(lambda: False, limit_seconds=599)
    assert broker.clock.now_ms() == began
    assert broker.advance_until(lambda: bool(broker.messages("t")), limit_seconds=600) == 600_000


def test_what_is_not_quiet_is_named(broker: LocalBroker) -> None:
    """A listener that never returns does not hang the test, nor does a group that nobody serves."""
    leave = threading.Event()

    def listener(_: list[ReceivedMessage]) -> None:
        leave.wait(LONG_SECONDS)

    with (
        blocking.Producer(broker.nameserver, group="p") as producer,
        blocking.PushConsumer(
            broker.nameserver, group="c", listener=listener, start="first"
        ) as consumer,
    ):
        consumer.subscribe("t")
        producer.send(Message("t", b"x"))
        try:
            with pytest.raises(NotQuiet, match=r"group c: t.* has messages that are not consumed"):
                broker.settle(seconds=0.2)
        finally:
            leave.set()
        broker.settle()


def test_names_that_are_not_there_are_errors(broker: LocalBroker) -> None:
    """No empty list for a name that was mistyped; the nearest is named."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        producer.send(Message("orders", b"x"))
    with pytest.raises(NoRoute, match=r"no topic 'order'.*'orders'"):
        broker.messages("order")
    with pytest.raises(NoRoute, match="no group 'kitchen'"):
        broker.dead_letters("kitchen")


def test_a_coroutine_awaits_what_its_own_clients_do(broker: LocalBroker) -> None:
    """`settle` would wait for this very loop, and says so."""
    got: list[ReceivedMessage] = []

    async def main() -> None:
        consumer = PushConsumer(broker.nameserver, group="c", listener=got.extend, start="first")
        async with Producer(broker.nameserver, group="p") as producer, consumer:
            await consumer.subscribe("t")
            await producer.send(Message("t", b"x", delay_level=1))
            with pytest.raises(RuntimeError, match="await asettle"):
                broker.settle()
            with pytest.raises(RuntimeError, match="await aadvance_until"):
                broker.advance_until(lambda: True)
            await broker.asettle()
            assert not got
            assert await broker.aadvance_until(lambda: bool(got)) == 1000

    asyncio.run(main())
    assert [one.body for one in got] == [b"x"]


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_brings_nothing_early_and_nothing_twice(
    broker: LocalBroker, step_ms: int
) -> None:
    """Delays, retries, a long poll, locks and leases go on as if nothing were."""
    got: list[tuple[bytes, int]] = []

    def listener(messages: list[ReceivedMessage]) -> None:
        (one,) = messages
        got.append((one.body, one.reconsume_times))
        if one.body == b"fails" and one.reconsume_times < 2:
            raise ValueError("not yet")

    settings = ConsumerSettings(batch_messages_max=1)
    where = broker.nameserver
    with (
        blocking.Producer(where, group="p") as producer,
        blocking.PushConsumer(
            where, group="c", listener=listener, start="first", settings=settings
        ) as consumer,
    ):
        consumer.subscribe("t")
        producer.send(Message("t", b"fails"))
        producer.send(Message("t", b"late", delay_level=4))
        broker.settle()
        assert got == [(b"fails", 0)]
        broker.clock.step_wall(step_ms)
        broker.advance(ms=9_000)
        producer.send(Message("t", b"now"))
        broker.settle()
        assert got == [(b"fails", 0), (b"now", 0)]
        broker.advance(ms=1_100)
        broker.settle()
        assert got[2:] == [(b"fails", 1)]
        broker.clock.step_wall(-step_ms)
        broker.advance(ms=20_000)
        broker.settle()
        assert got[3:] == [(b"late", 0)]
        broker.advance(ms=10_000)
        broker.settle()
        assert got[4:] == [(b"fails", 2)]
        broker.advance(seconds=7_200)
        broker.settle()
        assert len(got) == 5
        assert broker.dead_letters("c") == []
