"""What stands in for the surroundings of RabbitMQ's queues: timers, disk and clients."""

from collections.abc import Callable, Sequence

from tests.timers import FakeTimers

from sprocket.base.disk import Call, Steps, StepsTo, steps
from sprocket.base.errors import DiskFull, StoreError
from sprocket.rabbitmq.broker.commits import Waiter
from sprocket.rabbitmq.broker.queues import (
    BrokerQueue,
    DeadLetters,
    Getter,
    LetterBox,
    MemoryStorage,
    QueueConsumer,
    QueueEntry,
    QueueServices,
    QueueStorage,
    ReadEntry,
    WindowLimits,
    Windows,
)
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.model.queue_options import QueueOptions
from sprocket.runtime.turns import Turner, Turns
from sprocket.testing.clock import FakeClock

TINY = WindowLimits(
    all_bytes=1000,
    window_messages=4,
    window_bytes=400,
    read_numbers=3,
    head_numbers=2,
    read_numbers_max=12,
)
"""So little that a dozen messages do not fit."""


def message(
    body: bytes | str | int = b"",
    *,
    key: str = "q",
    exchange: str = "",
    properties: bytes | BasicProperties = b"\0\0",
    is_persistent: bool = True,
) -> BasicMessage:
    """Return a message; its id says what its body is."""
    octets = body if isinstance(body, bytes) else str(body).encode()
    fragments = (octets,) if octets else ()
    return BasicMessage(
        octets[:16].ljust(16, b"."), "/", exchange, (key,), properties, fragments, is_persistent
    )


class HeldReads:
    """Drives work at once, or, if it holds it, when it is told to go on."""

    def __init__(self) -> None:
        self.is_holding = False
        self.held: list[tuple[Steps, Callable[[BaseException | None], None]]] = []

    def drive(self, work: Steps, done: Callable[[BaseException | None], None]) -> None:
        """See `QueueReads`."""
        self.held.append((work, done))
        if not self.is_holding:
            self.go_on()

    def go_on(self) -> None:
        """Do all that is held."""
        while self.held:
            work, done = self.held.pop(0)
            try:
                steps.run(work)
            except StoreError as error:
                done(error)
            else:
                done(None)


class SlowStorage(MemoryStorage):
    """A storage whose reads have to wait, as those of a disk; it outlives the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.read_count = 0
        self.largest_read = 0
        self.is_removed = self.is_full = False
        self.fails_with: StoreError | None = None
        self.meanwhile: Call = lambda: None
        """What happens while a read is out, once."""

    def publish(
        self,
        first_seq_id: int,
        messages: Sequence[BasicMessage],
        *,
        expires_at_us: int | None,
        is_delivered: bool,
    ) -> None:
        """Keep messages if there is space."""
        if self.is_full:
            raise DiskFull("no space")
        super().publish(
            first_seq_id, messages, expires_at_us=expires_at_us, is_delivered=is_delivered
        )

    def read(self, start: int, end: int) -> StepsTo[Sequence[ReadEntry]]:
        """Read, then wait once, so that what is read may be old when it is given."""
        self.read_count += 1
        found = yield from super().read(start, end)
        call, self.meanwhile = self.meanwhile, lambda: None
        yield call
        if self.fails_with is not None:
            raise self.fails_with
        self.largest_read = max(self.largest_read, len(found))
        return found

    def remove(self) -> StepsTo[None]:
        """Remember that it was called."""
        yield from super().remove()
        self.is_removed = True


class Collector:
    """A receiver that keeps what it is given, and has room for `room_count` messages."""

    def __init__(self, room_count: int = 1000) -> None:
        self.room_count = room_count
        self.given: list[tuple[QueueConsumer, QueueEntry, bool]] = []
        self.cancelled_tags: list[str] = []

    def room(self, *, no_ack: bool) -> int:  # noqa: ARG002
        """See `Receiver`."""
        return self.room_count

    def deliver(self, consumer: QueueConsumer, entries: Sequence[QueueEntry]) -> None:
        """See `Receiver`."""
        self.given += [(consumer, one, one.is_delivered) for one in entries]
        self.room_count -= len(entries)

    def cancelled(self, consumer: QueueConsumer) -> None:
        """See `Receiver`."""
        self.cancelled_tags.append(consumer.tag)

    @property
    def bodies(self) -> list[str]:
        """What it was given, since this was asked for the last time."""
        found = [entry.message.body.decode() for _, entry, _ in self.given]
        self.given = []
        return found


class HeldCommits:
    """Has those wait who wait for the disk, until it is told that all is durable."""

    def __init__(self) -> None:
        self.is_holding = False
        self.failed_write: StoreError | None = None
        self.waiting_bytes = 0
        self.waiting: list[Waiter] = []
        self.watch: Callable[[], None] = lambda: None

    def wait(self, asker: Waiter, /) -> None:
        """See `Commits`."""
        self.watch()
        self.waiting.append(asker)
        if not self.is_holding:
            self.commit()

    def commit(self, error: StoreError | None = None) -> None:
        """Tell everybody."""
        waiting, self.waiting = self.waiting, []
        for asker in waiting:
            asker.told(error)


class WatchedTurns(Turns):
    """Writes down who was marked, and what went wrong in a turn."""

    def __init__(self, timers: FakeTimers) -> None:
        super().__init__(timers)
        self.marked: list[Turner] = []
        self.failures: list[Exception] = []

    def mark(self, turner: Turner) -> None:
        """See `Turns`."""
        self.marked.append(turner)
        super().mark(_Watched(turner, self.failures))

    def mark_last(self, turner: Turner) -> None:
        """See `Turns`."""
        super().mark_last(_Watched(turner, self.failures))


class _Watched:
    def __init__(self, turner: Turner, failures: list[Exception]) -> None:
        self._turner = turner
        self._failures = failures

    def turn(self) -> None:
        try:
            self._turner.turn()
        except Exception as error:
            self._failures.append(error)
            raise


class Yard:
    """A virtual host with queues that are asked directly; dead letters go to queues by name."""

    def __init__(self, limits: WindowLimits | None = None) -> None:
        self.clock = FakeClock()
        self.timers = FakeTimers(self.clock)
        self.turns = WatchedTurns(self.timers)
        self.reads = HeldReads()
        self.queues: dict[str, BrokerQueue] = {}
        self.unused_names: list[str] = []
        self.bound: dict[str, list[str]] = {}
        """Queues of an exchange; those of the default one are found by the keys."""
        self.windows = Windows(limits) if limits is not None else Windows()
        self._ids = 0
        self.commits = HeldCommits()
        self.services = QueueServices(
            owner=self,
            turns=self.turns,
            timers=self.timers,
            clock=self.clock,
            windows=self.windows,
            reads=self.reads,
            dead_letters=DeadLetters(
                self.route,
                self.clock.now_ms,
                self._next_id,
                self.turns,
                self.commits,
                self.timers,
            ),
        )

    def _next_id(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(16, "big")

    def route(self, exchange: str, letter: BasicMessage) -> list[LetterBox]:
        """Find queues for a dead letter."""
        names = self.bound.get(exchange, []) if exchange else letter.routing_keys
        return [self.queues[name] for name in names if name in self.queues]

    def unused(self, queue: BrokerQueue, /) -> None:
        """See `Owner`."""
        self.unused_names.append(queue.label)
        self.delete(queue.label)

    def delete(self, name: str) -> int:
        """Delete a queue and what is stored of it."""
        queue = self.queues.pop(name)
        count = queue.delete()
        steps.run(queue.remove_steps())
        return count

    def queue(
        self,
        name: str = "q",
        options: QueueOptions | None = None,
        *,
        storages: Sequence[QueueStorage] = (),
        is_auto_delete: bool = False,
    ) -> BrokerQueue:
        """Declare a queue."""
        made = BrokerQueue(
            QueueName("/", name),
            options or QueueOptions(),
            storages,
            self.services,
            is_auto_delete=is_auto_delete,
        )
        self.queues[name] = made
        return made

    def settle(self) -> None:
        """Let turns pass until nobody has anything to do; nothing may go wrong."""
        self.timers.drain()
        for failure in self.turns.failures:
            raise failure

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.timers.advance(ms)
        self.settle()

    def get(self, queue: BrokerQueue, *, no_ack: bool = False) -> QueueEntry | None:
        """Get the first message; the reads that it takes are done."""
        found: list[QueueEntry | None] = []

        def failed(error: StoreError) -> None:
            raise error

        queue.get(Getter(no_ack, lambda entry, _: found.append(entry), failed))
        self.settle()
        (one,) = found
        return one

    def drain(self, queue: BrokerQueue) -> list[str]:
        """Get and forget all that is ready."""
        bodies = []
        while (entry := self.get(queue, no_ack=True)) is not None:
            bodies.append(entry.message.body.decode())
        return bodies
