"""What a message costs between channels and queues, by values: `python bench/amqp_queues.py`.

Prints microseconds of this process for each message, the best of several rounds: published with a
confirm, delivered with a prefetch of 250, and acknowledged; then what a backlog takes of time and
memory. Storages are in memory or do nothing; no bytes of AMQP are read or written. Budget: 4 µs.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from sprocket.base.clock import SystemClock
from sprocket.base.disk import Steps, StepsTo, steps
from sprocket.base.errors import StoreError
from sprocket.base.units import KIB, MIB
from sprocket.rabbitmq.broker.channels import (
    BrokerChannel,
    Confirmation,
    DirectReplies,
    Publication,
)
from sprocket.rabbitmq.broker.commits import Waiter
from sprocket.rabbitmq.broker.queues import (
    BrokerQueue,
    DeadLetters,
    MemoryStorage,
    QueueEntry,
    QueueServices,
    QueueStorage,
    ReadEntry,
    Windows,
    WithdrawnEntry,
)
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.model.queue_options import QueueOptions
from sprocket.runtime.turns import Turns

COUNT = 100_000
BACKLOG = 1_000_000
QUEUES = 10_000
PREFETCH = 250
ROUNDS = 5


class Timer:
    """A call that is never made: the bench says when a turn ends."""

    def cancel(self) -> None:
        """See `Timer`."""


class Loop:
    """Stands in for all that belongs to a loop and a disk; everything is done at once."""

    failed_write: StoreError | None = None
    waiting_bytes = 0

    def call_soon(self, _: Callable[[], None], /) -> Timer:
        """See `Timers`."""
        return Timer()

    def call_later(self, _: float, __: Callable[[], None], /) -> Timer:
        """See `Timers`."""
        return Timer()

    def drive(self, work: Steps, done: Callable[[BaseException | None], None]) -> None:
        """See `QueueReads`."""
        steps.run(work)
        done(None)

    def wait(self, asker: Waiter, /) -> None:
        """See `Commits`."""
        asker.told(None)

    def unused(self, queue: BrokerQueue, /) -> None:
        """See `Owner`."""


class Client:
    """Counts what it is told."""

    is_ready = True

    def __init__(self) -> None:
        self.delivered_count = 0

    def when_ready(self, callback: Callable[[], None]) -> None:
        """See `ChannelClient`."""

    def deliver(self, consumer_tag: str, first_tag: int, entries: Sequence[QueueEntry]) -> None:  # noqa: ARG002
        """See `ChannelClient`."""
        self.delivered_count += len(entries)

    def deliver_reply(self, consumer_tag: str, tag: int, message: BasicMessage, key: str) -> None:
        """See `ChannelClient`."""

    def returned(self, message: BasicMessage) -> None:
        """See `ChannelClient`."""

    def confirmed(self, answers: Sequence[Confirmation]) -> None:
        """See `ChannelClient`."""

    def cancelled(self, consumer_tag: str) -> None:
        """See `ChannelClient`."""

    def failed(self, error: RequestRefused) -> None:
        """See `ChannelClient`."""
        raise error


class Numbers:
    """A storage that remembers no messages: what it is asked for, it makes up."""

    next_seq_id = body_bytes = 0
    unwritten_from = -1
    unreadable: Mapping[int, str] = {}

    def __init__(self) -> None:
        self._count = 0

    def size_of(self, seq_id: int) -> int:  # noqa: ARG002
        """See `QueueStorage`."""
        return KIB

    def withdraw(self, message_ids: Collection[bytes]) -> Mapping[int, WithdrawnEntry]:  # noqa: ARG002
        """See `QueueStorage`."""
        return {}

    def publish(  # noqa: D102 (see `QueueStorage`)
        self,
        first_seq_id: int,  # noqa: ARG002
        messages: Sequence[BasicMessage],
        *,
        expires_at_us: int | None,  # noqa: ARG002
        is_delivered: bool,  # noqa: ARG002
    ) -> None:
        self._count += len(messages)

    def deliver(self, seq_ids: Sequence[int]) -> None:
        """See `QueueStorage`."""

    def ack(self, seq_ids: Sequence[int]) -> None:
        """See `QueueStorage`."""
        self._count -= len(seq_ids)

    def read(self, start: int, end: int) -> StepsTo[Sequence[ReadEntry]]:
        """See `QueueStorage`."""
        yield from ()
        numbers = range(start, end)
        return [QueueEntry(number, new_message(), None, False, 0, KIB) for number in numbers]

    def unacked_count(self) -> int:
        """See `QueueStorage`."""
        return self._count

    def purge(self) -> None:
        """See `QueueStorage`."""

    def remove(self) -> StepsTo[None]:
        """See `QueueStorage`."""
        yield from ()


def drive(work: Iterator[None]) -> None:
    """Do work to its end; there is nobody else who could have their turn."""
    for _ in work:
        pass


def new_message() -> BasicMessage:
    """Return a persistent message of 1 KiB that shares its body with no other."""
    return BasicMessage(bytes(16), "/", "", ("q",), b"\x10\0\x02", (bytes(KIB),), True)


class Broker:
    """A virtual host with one queue, its publisher and its consumer."""

    def __init__(self) -> None:
        self.loop, self.clock = Loop(), SystemClock()
        self.turns = Turns(self.loop)
        letters = DeadLetters(
            lambda _, __: (), self.clock.now_ms, bytes, self.turns, self.loop, self.loop
        )
        self.services = QueueServices(
            owner=self.loop,
            turns=self.turns,
            timers=self.loop,
            clock=self.clock,
            windows=Windows(),
            reads=self.loop,
            dead_letters=letters,
        )
        self.client = Client()
        self.publisher = self.channel(Client())
        self.publisher.confirm_select()
        self.consumer = self.channel(self.client)
        self.consumer.qos(PREFETCH, is_global=False)

    def publish(self, messages: Sequence[BasicMessage], queues: Sequence[BrokerQueue]) -> None:
        """Publish as many messages as consumers may have."""
        drive(self.publisher.publish_in_turns([Publication(messages, range(PREFETCH), queues)]))

    def channel(self, client: Client) -> BrokerChannel:
        """Open a channel."""
        return BrokerChannel(client, self.turns, self.loop, DirectReplies(), self.clock)

    def queue(self, storage: QueueStorage) -> BrokerQueue:
        """Declare a queue."""
        return BrokerQueue(QueueName("/", "q"), QueueOptions(), [storage], self.services)


def through(*, is_multiple: bool) -> None:
    """Publish, deliver and acknowledge messages, as many in a turn as the consumer takes."""
    broker = Broker()
    queues = [broker.queue(MemoryStorage())]
    broker.consumer.consume(queues[0], "a")
    message, acked_count = new_message(), 0
    for _ in range(COUNT // PREFETCH):
        broker.publish([message] * PREFETCH, queues)
        broker.turns.run()
        last = broker.client.delivered_count
        if is_multiple:
            drive(broker.consumer.settle_in_turns(last, is_ack=True))
        else:
            broker.consumer.ack(range(acked_count + 1, last + 1))
        acked_count = last
    broker.turns.run()
    assert broker.client.delivered_count == COUNT
    assert queues[0].unacked_count == 0


def resident_bytes() -> int:
    """Return the memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def backlog() -> None:
    """Publish what nobody consumes, then consume it."""
    broker = Broker()
    queues = [broker.queue(Numbers())]
    before, began = resident_bytes(), time.process_time()
    for _ in range(BACKLOG // PREFETCH):
        messages = [new_message() for _ in range(PREFETCH)]
        broker.publish(messages, queues)
        broker.turns.run()
    micros = (time.process_time() - began) / BACKLOG * 1e6
    grown = (resident_bytes() - before) / MIB
    print(f"backlog of {BACKLOG:,}: {micros:.2f} µs to publish, {grown:.0f} MiB more")
    broker.consumer.consume(queues[0], "a")
    began, acked_count = time.process_time(), 0
    while acked_count < BACKLOG:
        broker.turns.run()
        if broker.client.delivered_count > acked_count:
            acked_count = broker.client.delivered_count
            drive(broker.consumer.settle_in_turns(acked_count, is_ack=True))
    micros = (time.process_time() - began) / BACKLOG * 1e6
    print(f"backlog of {BACKLOG:,}: {micros:.2f} µs to consume")


def idle() -> None:
    """Declare many queues that nobody uses."""
    broker = Broker()
    before, began = resident_bytes(), time.process_time()
    queues = [broker.queue(MemoryStorage()) for _ in range(QUEUES)]
    broker.turns.run()
    millis = (time.process_time() - began) * 1e3
    grown = (resident_bytes() - before) / MIB
    began = time.process_time()
    for _ in range(1000):
        broker.turns.run()
    micros = (time.process_time() - began) * 1e3
    print(f"{len(queues):,} queues: {millis:.0f} ms, {grown:.0f} MiB; {micros:.1f} µs an idle turn")


def main() -> None:
    """Print all figures."""
    for is_multiple in (False, True):
        best = float("inf")
        for _ in range(ROUNDS):
            began = time.process_time()
            through(is_multiple=is_multiple)
            best = min(best, time.process_time() - began)
        how = "multiple acks" if is_multiple else "single acks"
        print(f"through a queue, {how}: {best / COUNT * 1e6:.2f} µs")
    backlog()
    idle()


if __name__ == "__main__":
    main()
