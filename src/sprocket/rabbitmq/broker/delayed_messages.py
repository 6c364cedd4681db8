"""Messages that exchanges of type `x-delayed-message` keep until they are due.

    published, dead letter ─→ DelayedCopy ─→ DelayedStore ─ due ─→ the exchange's bindings ─→ queues

What is due is taken in order, some at a time, and put into the queues; that it was taken is written
with the same batch of the log. The next ones are taken when that is durable, so that a slow disk is
not swamped by what has become due.

Invariants

1. Nothing is routed before it is due; what is due first is routed first.
2. One batch is under way at a time.

Source: RabbitMQ's plugin `rabbitmq_delayed_message_exchange`; see docs/formats/rabbitmq-delayed.md.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from sprocket.base import log
from sprocket.base.disk import Steps
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.broker.commits import Commits, Waiter
from sprocket.rabbitmq.broker.even_clock import EvenClock
from sprocket.rabbitmq.broker.message_ids import MessageIds
from sprocket.rabbitmq.broker.queues import RETRY_SECONDS, LetterBox, QueueReads, put_header
from sprocket.rabbitmq.broker.topology import DELAY
from sprocket.rabbitmq.codec.amqp import properties
from sprocket.rabbitmq.model.fields import NO_FIELDS, Field, FieldKind
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.store.delayed import DelayedMessage, DelayedStore
from sprocket.runtime.timers import Timer, Timers

TAKE_MAX: Final = 200
"""Messages that are routed at once, before others have their turn."""
WAIT_SECONDS_MAX: Final = 3600.0
"""No timer is longer: the loop's clock and ours may drift apart."""
_SIGNED_MAX = 1 << 31

_log = log.get_logger(__name__)

Release = Callable[[str, BasicMessage], Iterable[LetterBox]]
"""Finds the queues that a message gets into which an exchange has kept for long enough; none if
there is no such exchange any more."""


class DelayedCopy:
    """Where a message goes that an exchange keeps; to whoever publishes it is like a queue.

    Args:
        delays: Keeps it.
        exchange: Which one.
        delay_ms: For how long.
    """

    is_deleted = False
    is_durable = True
    keeps_transient = False
    takes_all = True

    def __init__(self, delays: "DelayedMessages", exchange: str, delay_ms: int) -> None:
        self.label = exchange
        self._delays = delays
        self._delay_ms = delay_ms
        self._kept: dict[bytes, int] = {}
        """The numbers of the copies, by the ids of the messages."""

    def publish(
        self,
        message: BasicMessage,
        *,
        priority: int = 0,  # noqa: ARG002 - both are among the message's properties
        expiration_ms: int | None = None,  # noqa: ARG002
    ) -> bool:
        """Keep a message. Raises StoreError: then it is not kept."""
        self.publish_all([message])
        return True

    def publish_all(self, messages: Sequence[BasicMessage]) -> None:
        """Keep messages. Raises StoreError: then they are not kept."""
        for message in messages:
            self._kept[message.id] = self._delays.keep(self.label, message, self._delay_ms)

    def withdraw(self, messages: Sequence[BasicMessage]) -> set[bytes]:
        """Drop messages that were refused; see `channels.confirms.Taker`."""
        numbers = {self._kept[one.id]: one.id for one in messages if one.id in self._kept}
        return {numbers[one] for one in self._delays.withdraw(numbers)}


class DelayedMessages:
    """See the head of the module.

    Args:
        store: Keeps them.
        clock: Says when they are due; no step of the wall clock moves it.
        timers: The event loop's.
        reads: Drives what has to read.
        release: Finds the queues for what is due.
        ids: Of messages.
        commits: Says when what was routed is durable.

    Threads: event loop only.
    """

    def __init__(
        self,
        store: DelayedStore,
        clock: EvenClock,
        timers: Timers,
        reads: QueueReads,
        release: Release,
        ids: MessageIds,
        commits: Commits,
    ) -> None:
        self._store = store
        self._clock = clock
        self._timers = timers
        self._reads = reads
        self._release = release
        self._new_id = ids.next
        self._commits = commits
        self._timer: Timer | None = None
        self._timer_us = 0
        """When the timer is due, on the clock."""
        self._is_out = self._is_stopped = False
        self._note_clock(clock.ahead_us != store.ahead_us)

    def counts(self) -> dict[str, int]:
        """Return how many messages wait, by exchange; RabbitMQ's `messages_delayed`."""
        return dict(self._store.counts)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, and nothing is due."""
        due_us = self._store.next_due_us
        return not self._is_out and (due_us is None or due_us > self._clock.now_us())

    def copies(self, exchanges: Sequence[str], delay_ms: int) -> list[DelayedCopy]:
        """Return where a message goes that some exchanges keep."""
        return [DelayedCopy(self, name, delay_ms) for name in exchanges]

    def keep(self, exchange: str, message: BasicMessage, delay_ms: int) -> int:
        """Keep a copy of a message for that long, from now on; return its number.

        Raises:
            StoreError: It is not kept.
        """
        copy = msgspec.structs.replace(
            message, id=self._new_id(), properties=_kept_properties(message, delay_ms)
        )
        now_us = self._clock.now_us()
        due_us = now_us + 1000 * delay_ms
        number = self._store.add(exchange, copy, due_us, now_us)
        if not self._is_out and (self._timer is None or due_us < self._timer_us):
            self._look()
        return number

    def withdraw(self, numbers: Collection[int]) -> set[int]:
        """Forget copies that were refused; return the numbers of those that were there."""
        return self._store.withdraw(numbers)

    def drop(self, exchange: str) -> None:
        """Forget what an exchange keeps: it no longer exists."""
        self._store.drop(exchange, self._clock.now_us())

    def keep_only(self, exchanges: Iterable[str]) -> bool:
        """Forget what exchanges keep that are not among these; say whether there was any."""
        gone = self._store.counts.keys() - set(exchanges)
        for name in gone:
            _log.warning("an exchange is gone, and what it has kept", exchange=name)
            self.drop(name)
        return bool(gone)

    def start(self) -> None:
        """Route what is due from now on."""
        self._look()

    def upkeep(self) -> None:
        """Note it if the wall clock was set; every second."""
        if not self._is_stopped:
            self._note_clock(self._clock.poll())

    def stop(self) -> None:
        """Route nothing more."""
        self.upkeep()
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _note_clock(self, is_set: bool) -> None:
        if is_set:
            self._store.note_clock(self._clock.ahead_us, self._clock.now_us())

    def _look(self) -> None:
        """Take what is due, or wait until something is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_out or self._is_stopped:
            return
        due_us = self._store.next_due_us
        if due_us is None:
            return
        now_us = self._clock.now_us()
        if due_us > now_us:
            self._wait((due_us - now_us) / 1e6)
            return
        self._is_out = True
        if self._commits.failed_write is not None:  # what was routed last must be written first
            self._commits.wait(Waiter(self._committed))
            return
        found: list[DelayedMessage] = []
        self._reads.drive(self._take(found), partial(self._taken, found))

    def _wait(self, seconds: float) -> None:
        seconds = min(seconds, WAIT_SECONDS_MAX)
        self._timer_us = self._clock.now_us() + round(1e6 * seconds)
        self._timer = self._timers.call_later(seconds, self._look)

    def _take(self, found: list[DelayedMessage]) -> Steps:
        found += yield from self._store.take_steps(self._clock.now_us(), TAKE_MAX)

    def _taken(self, found: list[DelayedMessage], error: BaseException | None) -> None:
        """Put into queues what is due."""
        if error is not None and not isinstance(error, StoreError):
            raise error
        if error is not None:
            _log.error("delayed messages cannot be read; trying again", why=str(error))
            self._is_out = False
            self._wait(RETRY_SECONDS)
            return
        if self._is_stopped:
            return
        for one in found:
            try:
                self._route(one)
            except Exception:  # those after it are due, too
                _log.exception("a delayed message is lost", exchange=one.exchange)
        self._store.done(self._clock.now_us())
        self._commits.wait(Waiter(self._committed, len(found)))

    def _route(self, one: DelayedMessage) -> None:
        message = one.message
        held = message.properties
        known = properties.decode(held) if isinstance(held, bytes) else held
        text = known.expiration
        # It was looked at when the message was published.
        expiration_ms = int(text) if text is not None and text.lstrip("+").isdecimal() else None
        for queue in self._release(one.exchange, message):
            try:
                queue.publish(message, priority=known.priority or 0, expiration_ms=expiration_ms)
            except StoreError as error:
                _log.error("a message cannot be stored", queue=queue.label, why=str(error))

    def _committed(self, error: StoreError | None) -> None:
        self._is_out = False
        if self._is_stopped:
            return
        if error is None:
            self._timers.call_soon(self._look)
        else:  # what was routed is written once there is room
            _log.error("delayed messages wait for the disk", why=str(error))
            self._wait(RETRY_SECONDS)


def _kept_properties(message: BasicMessage, delay_ms: int) -> BasicProperties:
    """Return a message's properties with `x-delay` below zero: it was kept, and is not again."""
    held = message.properties
    known = properties.decode(held) if isinstance(held, bytes) else held
    kind = FieldKind.SIGNED_INT if delay_ms <= _SIGNED_MAX else FieldKind.LONG
    headers = NO_FIELDS if known.headers is None else known.headers
    return msgspec.structs.replace(
        known, headers=put_header(headers, DELAY, Field(kind, -delay_ms))
    )
