"""One queue: what is in it, who gets it, and what it does with what nobody gets.

    publish ─→ levels (ready) ─→ consumers, gets ─→ ack: settled
                 ↑   │                  │ requeue
                 └───┼──────────────────┘
                     └─→ expired, too many, rejected: dead letters, or settled

What arrives is taken at once; what is due after it is done at the end of the turn, together
(`turn`). Whoever must see the state as if all had been done before (a get, a limit) has it done
first.

Invariants

1. A message is ready, or with one consumer or getter, or a dead letter to be passed on, or settled;
   it is settled once.
2. What is ready is delivered in the order of its numbers, the higher priority first; nothing
   overtakes what has to be read first.
3. What has expired is not delivered; what has not is not dropped for it, whatever is in front.

Source: `rabbit_amqqueue_process`, `rabbit_variable_queue`, `rabbit_priority_queue`, `rabbit_fifo`;
docs/formats/amqp.md.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import msgspec

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import Steps
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.broker.queues.consumers import Consumers, QueueConsumer
from sprocket.rabbitmq.broker.queues.dead_letters import DeadLetters, DeathReason
from sprocket.rabbitmq.broker.queues.levels import QueueEntry, ReadyLevel, StorageDepth
from sprocket.rabbitmq.broker.queues.reads import QueueReads
from sprocket.rabbitmq.broker.queues.storage import QueueStorage
from sprocket.rabbitmq.broker.queues.windows import Windows
from sprocket.rabbitmq.codec.amqp import ReplyCode
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.counts import Death, DeliveryCounts
from sprocket.rabbitmq.model.declared_queue import CLASSIC, QUORUM
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.model.queue_options import Overflow, QueueOptions
from sprocket.runtime.timers import Timer, Timers
from sprocket.runtime.turns import Turns

TURN_MESSAGES_MAX: Final = 1000
"""Messages that one queue delivers, or drops, before others have their turn."""
RETRY_SECONDS: Final = 1.0
"""How long a queue waits that could not read its messages."""
LOOK_SECONDS: Final = 0.1
"""How often a queue looks whether something was written that it waits for."""

_UNQUEUED: Final = -1
"""The number of a message that was refused."""

_log = log.get_logger(__name__)


class Owner(Protocol):
    """The owner of the queue, and its bindings."""

    def unused(self, queue: "BrokerQueue", /) -> None:
        """Delete a queue: its last consumer is gone, or nobody used it for too long."""


@dataclass(frozen=True, kw_only=True)
class QueueServices:
    """What all queues of a virtual host use."""

    owner: Owner
    turns: Turns
    timers: Timers
    clock: Clock
    windows: Windows
    reads: QueueReads
    dead_letters: DeadLetters
    deaths: Counter[Death] = field(default_factory=Counter)
    """Where messages are counted that die."""


class Getter(msgspec.Struct):
    """Somebody who wants the first message, now.

    One of the two is called, once, perhaps only in a later turn.
    """

    no_ack: bool
    got: Callable[[QueueEntry | None, int], None]
    """Is given the message and how many are ready after it; None if there is none."""
    failed: Callable[[StoreError], None]
    is_over: bool = False
    """Set when nobody waits for the answer any more."""


class QueueDepth(NamedTuple):
    """How much is in a queue."""

    ready: int
    unacked: int
    consumers: int
    ready_bytes: int


class BrokerQueue:
    """See the head of the module.

    Args:
        name: Of the queue.
        options: What is in force; see `set_options`.
        storages: Where persistent messages of a durable queue are kept, a storage for each
            priority from 0 up; none if the queue is not durable.
        services: What it uses.
        is_auto_delete: Whether it is deleted when its last consumer goes.

    Threads: event loop only.
    """

    __slots__ = (
        "_clock",
        "_consumers",
        "_descending",
        "_dying_count",
        "_expiry_at_us",
        "_expiry_timer",
        "_getters",
        "_hold_count",
        "_is_due",
        "_is_plain",
        "_is_pumping",
        "_levels",
        "_look_timer",
        "_lowest",
        "_options",
        "_overflow",
        "_retry_timer",
        "_services",
        "_settled",
        "_turns",
        "_unused_timer",
        "_used_at",
        "counts",
        "is_auto_delete",
        "is_deleted",
        "is_durable",
        "name",
        "unacked_count",
    )

    def __init__(
        self,
        name: QueueName,
        options: QueueOptions,
        storages: Sequence[QueueStorage],
        services: QueueServices,
        *,
        is_auto_delete: bool = False,
    ) -> None:
        self.name = name
        self.is_durable = bool(storages)
        self.is_auto_delete = is_auto_delete
        self.is_deleted = False
        self.unacked_count = 0
        """Messages that consumers and getters have."""
        self.counts = DeliveryCounts()
        count = 1 + (options.max_priority or 0)
        assert not storages or len(storages) == count, "a storage for each priority"
        self._services = services
        self._turns, self._clock = services.turns, services.clock
        self._levels = [
            ReadyLevel(
                number,
                storages[number] if storages else None,
                services.windows,
                keeps_transient=options.keeps_transient,
            )
            for number in range(count)
        ]
        self._descending = self._levels[::-1]
        self._lowest = self._levels[0]
        self._consumers = Consumers(is_single_active=options.is_single_active)
        self._getters: list[Getter] = []
        self._settled: list[QueueEntry] = []
        self._dying_count = 0
        """Dead letters that are not passed on yet."""
        self._overflow: deque[_Overflow] = deque()
        self._look_timer: Timer | None = None
        self._hold_count = 0
        """How many clients give back messages in several steps at the moment."""
        self._is_due = False
        self._is_pumping = False
        self._expiry_timer: Timer | None = None
        self._expiry_at_us = 0
        self._unused_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._used_at = services.clock.monotonic()
        self._options = options
        self._is_plain = False
        self.set_options(options)
        if any(level.ready_count for level in self._levels):
            self._mark()

    # What it is.

    @property
    def label(self) -> str:
        """Its name, without the virtual host's."""
        return self.name.name

    @property
    def type(self) -> str:
        """`CLASSIC` or `QUORUM`; that never changes."""
        return QUORUM if self._options.keeps_transient else CLASSIC

    @property
    def keeps_transient(self) -> bool:
        """Whether it has transient messages on the disk, too; that never changes."""
        return self._options.keeps_transient

    @property
    def dead_letter_exchange(self) -> str | None:
        """Where its dead letters go; None for nowhere."""
        return self._options.dead_letter_exchange

    @property
    def dead_letter_routing_key(self) -> str | None:
        """What they are published with; None for the keys that they have."""
        return self._options.dead_letter_routing_key

    @property
    def ready_count(self) -> int:
        """How many messages are ready."""
        return sum([level.ready_count for level in self._levels])

    @property
    def published_count(self) -> int:
        """How many messages were ever put into it since it was opened; once it is deleted, too."""
        return sum([level.published_count for level in self._levels])

    @property
    def consumers(self) -> list[QueueConsumer]:
        """Its consumers, in the order in which they came."""
        return self._consumers.all

    @property
    def single_active_consumer(self) -> QueueConsumer | None:
        """The consumer that gets everything, if only one at a time may."""
        return self._consumers.single_active

    def depth(self) -> QueueDepth:
        """Return how much is in it, what has expired or is taken in this turn left out."""
        self._pump()
        size = sum([level.ready_bytes for level in self._levels])
        return QueueDepth(self.ready_count, self.unacked_count, len(self._consumers), size)

    def set_options(self, options: QueueOptions) -> None:
        """Have other options be in force; the number of priorities stays what it is."""
        self._options = options
        self._is_plain = (
            len(self._levels) == 1
            and options.message_ttl_ms is None
            and options.max_length is None
            and options.max_length_bytes is None
        )
        if self._unused_timer is not None:
            self._unused_timer.cancel()
            self._unused_timer = None
        self.touch()
        self._mark()

    def touch(self) -> None:
        """Note that somebody uses it: declares it or gets from it."""
        if self._options.expires_ms is not None:
            self._used_at = self._clock.monotonic()
            self._watch_use()

    def storage_depth(self) -> StorageDepth:
        """Return what its storages keep, messages that consumers have included."""
        found = self._lowest.storage_depth()
        for level in self._levels[1:]:
            found = found.plus(level.storage_depth())
        return found

    # Messages come.

    def publish(
        self, message: BasicMessage, *, priority: int = 0, expiration_ms: int | None = None
    ) -> bool:
        """Take a message; say whether it was taken, even if it is dropped at once.

        Args:
            message: What it is.
            priority: Counts up to the highest that the queue has.
            expiration_ms: How long it may wait; None if it does not say.

        Raises:
            StoreError: It is not in the queue.
        """
        assert not self.is_deleted, "published to a queue that was deleted"
        self._turns.work_left -= 1
        options = self._options
        if options.overflow is not Overflow.DROP_HEAD and self._would_be_full(message):
            if options.overflow is Overflow.REJECT_PUBLISH_DLX and (
                options.dead_letter_exchange is not None
            ):
                unqueued = QueueEntry(_UNQUEUED, message, None, False, 0, 0)
                self._count_deaths(DeathReason.MAX_LENGTH, 1)
                self._services.dead_letters.add(self, DeathReason.MAX_LENGTH, [unqueued])
            return False
        ttl_ms = options.message_ttl_ms
        if expiration_ms is not None and (ttl_ms is None or expiration_ms < ttl_ms):
            ttl_ms = expiration_ms
        level = self._levels[min(priority, len(self._levels) - 1)]
        if ttl_ms == 0:
            self._pump()
        expires_at_us = None if ttl_ms is None else 1000 * (self._clock.now_ms() + ttl_ms)
        level.publish([message], expires_at_us)
        is_free = not self._hold_count and level.held_count > 0
        if ttl_ms == 0 and self.ready_count == 1 and is_free:
            self._serve(level, 1, -1)  # to somebody who has room, whatever the time
        elif options.overflow is Overflow.DROP_HEAD and self._is_over_limit():
            self._pump()
        self._trim()
        self._mark()
        return True

    @property
    def takes_all(self) -> bool:
        """Whether it has no limits and no priorities: what does not expire gets after the rest."""
        return self._is_plain

    def publish_all(self, messages: Sequence[BasicMessage]) -> None:
        """Take messages, in order; it `takes_all`: 32 cost 0.3 µs each, by `publish` 2.3.

        Raises:
            StoreError: None of them is in the queue. That can only be if there is one, whose
                properties are typed values.
        """
        assert self._is_plain, "a queue with limits looks at each message"
        assert not self.is_deleted, "published to a queue that was deleted"
        self._turns.work_left -= len(messages)
        self._lowest.publish(messages, None)
        if not self._is_due:
            self._mark()

    # Messages go.

    def check_consumer(self, *, is_exclusive: bool) -> None:
        """Refuse a consumer that cannot be added. Raises RequestRefused.

        One that is exclusive has no place where one at a time is active, but for quorum queues.
        """
        options = self._options
        is_shared = options.is_single_active and not options.keeps_transient
        if (is_exclusive and (self._consumers or is_shared)) or self._consumers.has_exclusive:
            raise RequestRefused(ReplyCode.ACCESS_REFUSED, f"{self._resource} in exclusive use")

    def add_consumer(self, consumer: QueueConsumer) -> None:
        """Deliver to somebody from the end of this turn on. Raises RequestRefused."""
        self.check_consumer(is_exclusive=consumer.is_exclusive)
        self.serve()
        self._consumers.add(consumer)
        self._mark()

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        """Deliver to somebody no more; what they have stays theirs."""
        if self.is_deleted:
            return
        self.serve()
        self._consumers.remove(consumer)
        if not self._consumers:
            self.touch()
            if self.is_auto_delete:
                self._services.owner.unused(self)
                return
        self._mark()

    def wake(self, consumer: QueueConsumer) -> None:
        """Note that a consumer may have room again."""
        if not self.is_deleted and self._consumers.wake(consumer) and not self._is_due:
            self._mark()

    def serve(self) -> None:
        """Deliver now what is due at the end of this turn, to those who are there now."""
        if self._is_due:
            self._pump()

    def get(self, getter: Getter) -> None:
        """Give somebody the first message."""
        self.touch()
        self.serve()
        self._getters.append(getter)
        self._pump()
        self._mark()

    def ack(self, consumer: QueueConsumer, entries: Sequence[QueueEntry]) -> None:
        """Settle what a consumer has."""
        self._turns.work_left -= len(entries)
        self.counts.acked += len(entries)
        consumer.unacked_count -= len(entries)
        self.unacked_count -= len(entries)
        self._settled += entries
        if consumer.is_waiting:
            self.wake(consumer)
        if not self._is_due:
            self._mark()

    def reject(self, consumer: QueueConsumer, entries: Sequence[QueueEntry]) -> None:
        """Make dead letters of what a consumer has."""
        self._turns.work_left -= len(entries)
        consumer.unacked_count -= len(entries)
        self.unacked_count -= len(entries)
        self._drop(entries, DeathReason.REJECTED)
        if consumer.is_waiting:
            self.wake(consumer)
        self._mark()

    def hold(self) -> None:
        """Give nothing to anybody until `release`: what comes back does so in several steps.

        So nobody gets what is after it before all of it is there.
        """
        if self._drops_head:
            self._pump()  # what comes back is dropped before anybody else gets it
        self._hold_count += 1

    def release(self) -> None:
        """Go on; called once for each `hold`."""
        self._hold_count -= 1
        if not (self._hold_count or self.is_deleted):
            self._trim()
            self._mark()

    def requeue(self, consumer: QueueConsumer, entries: Sequence[QueueEntry]) -> None:
        """Make ready again what a consumer has, each at its place."""
        consumer.unacked_count -= len(entries)
        self.unacked_count -= len(entries)
        if self.is_deleted:
            return
        if self._options.counts_deliveries:
            entries = self._count_returns(entries)
        if self._drops_head:
            self._pump()  # what comes back is dropped before anybody else gets it
        for level in self._levels:
            level.put_back(_of_level(entries, level))
        self._trim()
        if consumer.is_waiting:
            self.wake(consumer)
        self._mark()

    def withdraw(self, messages: Sequence[BasicMessage]) -> set[bytes]:
        """Have messages no more that were refused, as the write after them has failed.

        What was dropped to make room for them is ready again. Whoever was given one of them still
        has it, but nothing becomes of it.

        Returns:
            The ids of those that were there.
        """
        if self.is_deleted:
            return set()
        self._settle()
        message_ids = {one.id for one in messages}
        found: set[bytes] = set()
        for level in self._levels:
            found |= level.withdraw(message_ids)
        for overflow in self._overflow:
            for level in self._levels:
                level.restore(_of_level(overflow.entries, level))
        self._overflow.clear()
        self._trim()
        self._mark()
        return found

    def is_unwritten(self, entries: Sequence[QueueEntry]) -> bool:
        """Say whether one of its dead letters waits for a write that may still refuse it."""
        return self.is_durable and any(
            self._levels[one.level].is_unwritten(one) for one in entries if one.seq_id != _UNQUEUED
        )

    def living(self, entries: Sequence[QueueEntry]) -> Sequence[QueueEntry]:
        """Return those of its dead letters that were not refused meanwhile."""
        if self.is_deleted:
            return entries
        living = entries
        for level in self._levels:
            living = level.living(living)
        self._dying_count -= len(entries) - len(living)
        return living

    def forget(self, entries: Sequence[QueueEntry]) -> None:
        """Settle what was a dead letter, and is passed on."""
        if self.is_deleted:
            return
        queued = [one for one in entries if one.seq_id != _UNQUEUED]
        self._dying_count -= len(queued)
        self._settled += queued
        self._mark()

    # All messages go.

    def purge(self, done: Callable[[int], None], failed: Callable[[StoreError], None]) -> None:
        """Drop what is ready, and say how much that was, once storages have forgotten it."""
        self._pump()
        while self._overflow:
            self._drop(self._overflow.popleft().entries, DeathReason.MAX_LENGTH)
        self._settle()
        count = self.ready_count
        is_all = not self.unacked_count and not self._dying_count
        works = [level.purge(is_all=is_all) for level in self._levels]

        def ended(error: BaseException | None) -> None:
            if error is None:
                done(count)
            elif isinstance(error, StoreError):
                failed(error)
            else:
                raise error

        left = [work for work in works if work is not None]
        if left:
            self._services.reads.drive(_one_by_one(left), ended)
        else:
            ended(None)
        self._mark()

    def check_removal(self, *, if_unused: bool, if_empty: bool) -> None:
        """Refuse to be deleted under these conditions. Raises RequestRefused."""
        if if_unused and self._consumers:
            raise RequestRefused(ReplyCode.PRECONDITION_FAILED, f"{self._resource} in use")
        if if_empty:
            self._pump()
            if self.ready_count:
                raise RequestRefused(ReplyCode.PRECONDITION_FAILED, f"{self._resource} not empty")

    def delete(self) -> int:
        """End it: tell its consumers, and return how many messages were ready.

        What `remove_steps` gives takes away what storages keep; it is the caller's to drive.
        """
        assert not self.is_deleted, "deleted twice"
        self._pump()
        count = self.ready_count
        self.is_deleted = True
        for timer in (
            self._expiry_timer,
            self._unused_timer,
            self._retry_timer,
            self._look_timer,
        ):
            if timer is not None:
                timer.cancel()
        for level in self._levels:
            level.end()
        self._settled.clear()
        self._overflow.clear()
        for consumer in self._consumers.all:
            self._consumers.remove(consumer)
            consumer.receiver.cancelled(consumer)
        while self._getters:
            self._give(self._getters.pop(0), None)
        return count

    def remove_steps(self) -> Steps:
        """Take away what storages keep of it; it is deleted."""
        assert self.is_deleted, "taken away before it was deleted"
        for level in self._levels:
            yield from level.remove_steps()

    # At the end of a turn.

    def turn(self) -> None:
        """Do what is due."""
        self._is_due = False
        if self.is_deleted:
            self._settled.clear()
            return
        self._settle()
        if not self._pump():
            self._mark()
        self._trim()
        if self._overflow:
            self._drop_overflow()
        self._settle()
        self._watch_head()
        self._read_ahead()

    def _mark(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._turns.mark(self)

    def _settle(self) -> None:
        """Have storages forget what is settled."""
        settled = self._settled
        if not settled:
            return
        self._settled = []
        for level in self._levels:
            its = _of_level(settled, level)
            if its:
                level.settle(its)

    def _pump(self) -> bool:
        """Give getters and consumers what they take; say whether that is all that can be done."""
        if self._is_pumping or self.is_deleted or self._hold_count:
            return True
        self._is_pumping = True
        try:
            left = TURN_MESSAGES_MAX
            dies = self._options.dead_letter_exchange is not None
            while left > 0:
                level = self._first_level()
                if dies and self._services.dead_letters.is_full:
                    self._look_later()
                    level = None
                if level is None:
                    while self._getters:
                        self._give(self._getters.pop(0), None)
                    return True
                now_us = 1000 * self._clock.now_ms() if level.may_expire else 0
                if level.may_expire and (expired := level.take(left, now_us, is_expired=True)):
                    self._drop(expired, DeathReason.EXPIRED)
                    left -= len(expired)
                    self._turns.work_left -= len(expired)
                    continue
                if not level.held_count:
                    return True  # what comes next is to be read first
                if self._getters:
                    (entry,) = level.take(1, now_us)
                    self._give(self._getters.pop(0), entry)
                    left -= 1
                    continue
                served = self._serve(level, min(left, level.held_count), now_us)
                if not served:
                    return True
                left -= served
            return False
        finally:
            self._is_pumping = False

    def _first_level(self) -> ReadyLevel | None:
        """Return the highest priority of which something is ready."""
        for level in self._descending:
            if level.ready_count:
                return level
        return None

    def _serve(self, level: ReadyLevel, count: int, now_us: int) -> int:
        """Give some messages to those whose turn it is; return how many that were."""
        found = self._consumers.next(count)
        if not found:
            return 0
        if len(found) == 1:  # 0.6 µs less than as the last of many
            (consumer,) = found
            entries = level.take(min(count, consumer.room()), now_us)
            self._hand_over(level, consumer, entries)
            return len(entries)
        if len({one.receiver for one in found}) < len(found):
            # On one channel they are told in the order of the queue.
            served = 0
            for consumer in found:
                entries = level.take(1, now_us) if consumer.room() > 0 else []
                if not entries:
                    break
                self._hand_over(level, consumer, entries)
                served += 1
            self._consumers.skip(len(found) - served)
            return served
        rounds = min([one.room() for one in found])
        entries = level.take(min(count, rounds * len(found)), now_us)
        for at, consumer in enumerate(found):
            its = entries[at :: len(found)]
            if its:
                self._hand_over(level, consumer, its)
        self._consumers.skip(-len(entries) % len(found))
        return len(entries)

    def _hand_over(
        self, level: ReadyLevel, consumer: QueueConsumer, entries: list[QueueEntry]
    ) -> None:
        self._turns.work_left -= len(entries)
        self.counts.redelivered += sum([one.is_delivered for one in entries])
        if consumer.no_ack:
            self.counts.delivered_no_ack += len(entries)
            self._settled += entries
        else:
            self.counts.delivered += len(entries)
            consumer.unacked_count += len(entries)
            self.unacked_count += len(entries)
            level.deliver(entries)
        consumer.receiver.deliver(consumer, entries)

    def _give(self, getter: Getter, entry: QueueEntry | None) -> None:
        """Answer somebody who gets; one who is over gets nothing, and the message stays."""
        if entry is None:
            if not getter.is_over:
                self.counts.got_empty += 1
                getter.got(None, 0)
            return
        level = self._levels[entry.level]
        if getter.is_over:
            was_delivered = entry.is_delivered
            level.put_back([entry])
            entry.is_delivered = was_delivered
            return
        self.counts.redelivered += entry.is_delivered
        if getter.no_ack:
            self.counts.got_no_ack += 1
            self._settled.append(entry)
            self._mark()
        else:
            self.counts.got += 1
            self.unacked_count += 1
            level.deliver([entry])
        getter.got(entry, self.ready_count)

    # Limits.

    @property
    def _drops_head(self) -> bool:
        """Whether messages in front make room for those that come."""
        return not self._is_plain and self._options.overflow is Overflow.DROP_HEAD

    def _would_be_full(self, message: BasicMessage) -> bool:
        options = self._options
        if options.max_length is None and options.max_length_bytes is None:
            return False
        self._pump()
        if options.max_length is not None and self.ready_count >= options.max_length:
            return True
        limit = options.max_length_bytes
        if limit is None:
            return False
        return sum([level.ready_bytes for level in self._levels]) + message.body_size > limit

    def _is_over_limit(self) -> bool:
        options = self._options
        if options.max_length is not None and self.ready_count > options.max_length:
            return True
        limit = options.max_length_bytes
        return limit is not None and sum([level.ready_bytes for level in self._levels]) > limit

    def _trim(self) -> None:
        """Drop from the front what is too much; what is to be read first is dropped after that."""
        if self._hold_count or not self._drops_head:
            return
        dropped: list[QueueEntry] = []
        while self._is_over_limit():
            level = self._first_level()
            if level is None or not level.held_count or len(dropped) >= TURN_MESSAGES_MAX:
                if level is not None and level.held_count:
                    self._mark()
                break
            dropped += level.take(1, -1)
        if not dropped:
            return
        self._turns.work_left -= len(dropped)
        if any(level.has_unwritten for level in self._levels):
            ends = [level.next_seq_id for level in self._levels]
            self._overflow.append(_Overflow(dropped, ends))
        else:
            self._drop(dropped, DeathReason.MAX_LENGTH)

    def _drop_overflow(self) -> None:
        """Drop what was too much, if what came instead is written and cannot be refused."""
        while self._overflow:
            ends = zip(self._levels, self._overflow[0].ends, strict=True)
            if not all(level.is_written(end) for level, end in ends):
                self._look_later()
                return
            self._drop(self._overflow.popleft().entries, DeathReason.MAX_LENGTH)

    def _look_later(self) -> None:
        """Have a turn when something may have been written."""

        def due() -> None:
            self._look_timer = None
            self._mark()

        if self._look_timer is None:
            self._look_timer = self._services.timers.call_later(LOOK_SECONDS, due)

    def _drop(self, entries: Sequence[QueueEntry], reason: DeathReason) -> None:
        """Make dead letters of messages, if the queue has an exchange for them; they are over."""
        if self.is_deleted:
            return
        for level in self._levels:
            entries = level.living(entries)
        self._count_deaths(reason, len(entries))
        if self._options.dead_letter_exchange is None:
            self._settled += entries
            self._mark()
        else:
            self._dying_count += len(entries)
            self._services.dead_letters.add(self, reason, entries)

    def _count_deaths(self, reason: DeathReason, count: int) -> None:
        is_letter = self._options.dead_letter_exchange is not None
        self._services.deaths[Death(self.type, is_letter, reason.value)] += count

    def _count_returns(self, entries: Sequence[QueueEntry]) -> list[QueueEntry]:
        """Count that messages came back; those that did so too often are dead letters."""
        kept: list[QueueEntry] = []
        dead: list[QueueEntry] = []
        limit = self._options.delivery_limit
        for one in entries:
            one.return_count += 1
            (kept if limit is None or one.return_count <= limit else dead).append(one)
        if dead:
            self._drop(dead, DeathReason.DELIVERY_LIMIT)
        return kept

    # What has to wait.

    def _read_ahead(self) -> None:
        """Have read what comes next, before all that is in memory is gone."""
        if self._retry_timer is not None:
            return
        is_used = bool(self._consumers or self._getters)
        # What is after it in lower priorities is of no interest before that.
        level = self._first_level()
        if level is not None and level.wants_to_read(is_used=is_used):
            self._services.reads.drive(level.read_steps(is_used=is_used), self._was_read)

    def _was_read(self, error: BaseException | None) -> None:
        if self.is_deleted:
            return
        if error is None:
            self._mark()
            return
        if not isinstance(error, StoreError):
            raise error
        _log.error("a queue cannot read its messages", queue=self.label, why=str(error))
        failed, self._getters = self._getters, []
        for getter in failed:
            if not getter.is_over:
                getter.failed(error)

        def again() -> None:
            self._retry_timer = None
            self._mark()

        self._retry_timer = self._services.timers.call_later(RETRY_SECONDS, again)

    def _watch_head(self) -> None:
        """Have the first message dropped when it expires."""
        level = self._first_level()
        head = None if level is None else level.head
        if head is None or head.expires_at_us is None or self._hold_count:
            return
        if self._expiry_timer is not None:
            if self._expiry_at_us <= head.expires_at_us:
                return  # it looks again then
            self._expiry_timer.cancel()

        def due() -> None:
            self._expiry_timer = None
            if 1000 * self._clock.now_ms() < self._expiry_at_us:
                self._watch_head()  # timers go by another clock, which may be early
            else:
                self._mark()

        self._expiry_at_us = head.expires_at_us
        seconds = (head.expires_at_us - 1000 * self._clock.now_ms()) / 1_000_000
        self._expiry_timer = self._services.timers.call_later(max(seconds, 0.0), due)

    def _watch_use(self) -> None:
        """Have it deleted when nobody has used it for long enough."""
        expires_ms = self._options.expires_ms
        if self._unused_timer is not None or self._consumers or expires_ms is None:
            return

        def due() -> None:
            self._unused_timer = None
            if self._consumers or self._options.expires_ms is None:
                return
            if self._clock.monotonic() < self._used_at + self._options.expires_ms / 1000:
                self._watch_use()
            else:
                self._services.owner.unused(self)

        due_at = self._used_at + expires_ms / 1000
        seconds = max(due_at - self._clock.monotonic(), 0.0)
        self._unused_timer = self._services.timers.call_later(seconds, due)

    @property
    def _resource(self) -> str:
        return f"queue '{self.name.name}' in vhost '{self.name.vhost}'"


class _Overflow(NamedTuple):
    """What is too much since something came that is not written yet."""

    entries: list[QueueEntry]
    ends: list[int]
    """Of each level: what came instead has smaller numbers."""


def _of_level(entries: Sequence[QueueEntry], level: ReadyLevel) -> list[QueueEntry]:
    return [one for one in entries if one.level == level.number]


def _one_by_one(works: Sequence[Steps]) -> Steps:
    for work in works:
        yield from work
