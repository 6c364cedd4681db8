"""One virtual host that runs: its exchanges and bindings, its queues, and the store of those.

    client ── VhostTopology: what there is, and as what ── Snapshots: declarations are durable
       │
       └──── BrokerQueue: messages ── StoredQueue ── GroupCommit: messages are durable

Invariants

1. A queue is in the topology exactly as long as it is here; whatever takes it from the one takes it
   from the other before anything else can happen.
2. What is answered as declared, deleted or confirmed is durable.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import Steps
from sprocket.base.durations import DurationHistogram
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.broker.channels import (
    REMOVAL_WORK,
    BrokerChannel,
    DirectReplies,
    MessageTaker,
)
from sprocket.rabbitmq.broker.commits import Answer, CommitResponder, Waiter, is_unwritten
from sprocket.rabbitmq.broker.delayed_messages import DelayedMessages
from sprocket.rabbitmq.broker.even_clock import EvenClock
from sprocket.rabbitmq.broker.message_ids import MessageIds
from sprocket.rabbitmq.broker.publishing import Publishing
from sprocket.rabbitmq.broker.queues import (
    BrokerQueue,
    DeadLetters,
    FewReads,
    LetterBox,
    QueueServices,
    WindowLimits,
    Windows,
)
from sprocket.rabbitmq.broker.topology import (
    Headers,
    QueueDeclared,
    Requester,
    Routed,
    VhostTopology,
)
from sprocket.rabbitmq.codec.amqp import properties
from sprocket.rabbitmq.model.binding import Destination
from sprocket.rabbitmq.model.counts import (
    DeliveryCounts,
    NodeCounts,
    PastQueues,
    PublishCounts,
)
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import DELAYED, Exchange
from sprocket.rabbitmq.model.fields import NO_FIELDS, FieldTable
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.store.vhost import VhostStore
from sprocket.runtime.durable_log import DurableLog
from sprocket.runtime.group_commit import FlushMode, GroupCommit, Machine
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.snapshots import Snapshots
from sprocket.runtime.timers import Timer, Timers
from sprocket.runtime.turns import Turns

WRITE_SECONDS = 0.1
"""How soon what nobody waits for is made durable: acknowledgements, messages without confirms."""
RETRY_SECONDS = 1.0
"""How soon what a full disk had no room for is tried again."""

_log = log.get_logger(__name__)

Failed = Callable[[StoreError], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class VhostFloor:
    """What all virtual hosts of a node stand on."""

    clock: Clock
    timers: Timers
    thread: DiskThread
    """For reads and upkeep."""
    sync_thread: DiskThread
    declarations: Snapshots
    """Makes durable what was declared."""
    mode: FlushMode
    pressure: Pressure
    windows: WindowLimits
    ids: MessageIds
    turns: Turns
    counts: NodeCounts
    """Keeps what queues and channels have counted that are gone."""
    syncs: DurationHistogram
    """Counts how long syncs took, of all virtual hosts."""


class VhostBroker:
    """See the head of the module.

    Args:
        topology: What was declared.
        store: The messages of durable queues; the owner of this closes it.
        floor: What it stands on.

    Threads: event loop only.
    """

    def __init__(self, topology: VhostTopology, store: VhostStore, floor: VhostFloor) -> None:
        self.topology = topology
        self.store = store
        self.name = topology.vhost.name
        self._node_counts = floor.counts
        self.past_published = PublishCounts()
        """What was counted by channels that are closed."""
        self.past_deliveries = DeliveryCounts()
        self.turns = floor.turns
        self.replies = DirectReplies()
        """The consumers that wait for replies."""
        self._pressure = floor.pressure.share()
        self.commits: GroupCommit[Waiter, list[Answer]] = GroupCommit(
            DurableLog(store.log, floor.declarations.begin_sync),
            CommitResponder(),
            Machine(floor.timers, floor.clock, floor.thread, floor.sync_thread, floor.syncs),
            floor.mode,
            self._pressure,
        )
        self.publishing = Publishing(topology, self.route, self.replies, floor.ids)
        self.declarations = floor.declarations
        self._clock = floor.clock
        self._timers = floor.timers
        self._thread = floor.thread
        # Times that are written down keep their meaning when the wall clock is set.
        clock = EvenClock(floor.clock, store.delayed.ahead_us, store.delayed.at_us)
        reads = self._reads = FewReads(floor.thread)
        self._services = QueueServices(
            owner=self,
            turns=self.turns,
            timers=floor.timers,
            clock=clock,
            windows=Windows(floor.windows),
            reads=reads,
            deaths=floor.counts.deaths,
            dead_letters=DeadLetters(
                self._route_letter,
                floor.clock.now_ms,
                floor.ids.next,
                floor.turns,
                self.commits,
                floor.timers,
            ),
        )
        self.delays = DelayedMessages(
            store.delayed, clock, floor.timers, reads, self._release, floor.ids, self.commits
        )
        """What exchanges keep until it is due."""
        self._queues: dict[str, BrokerQueue] = {}
        self._left: dict[BrokerQueue, None] = {}
        """Queues that nobody needs any more, and that could not be deleted, the disk being full."""
        self._going: dict[Destination, list[Callable[[], None]]] = {}
        """The callbacks that wait for the end of deletions, by what is still being deleted."""
        self._write_timer: Timer | None = None
        self._is_in_upkeep = self._is_stopped = False
        for queue in topology.queues():
            self._add(queue)
        delaying = [one.name for one in topology.exchanges() if one.type == DELAYED]
        if self.delays.keep_only(delaying):
            store.log.commit()  # before others can have their names
        topology.tell_of_deletions(self._exchange_gone)
        self.delays.start()
        unclaimed = [one for one in store.unclaimed.values() if one.unacked_count()]
        if unclaimed:
            count = sum([one.unacked_count() for one in unclaimed])
            _log.warning(
                "there are messages of queues that nobody has declared; they are kept, and are in "
                "the queues once those are declared",
                vhost=self.name,
                queues=len(unclaimed),
                messages=count,
            )

    # Queues.

    @property
    def queues(self) -> Sequence[BrokerQueue]:
        """All of them."""
        return list(self._queues.values())

    def queue(self, name: str, requester: Requester) -> BrokerQueue:
        """Return a queue that somebody wants to use.

        Raises:
            RequestRefused: NOT_FOUND; RESOURCE_LOCKED if another connection owns it.
        """
        return self._queues[self.topology.queue(name, requester).name]

    def find(self, name: str) -> BrokerQueue | None:
        """Return a queue; None if there is none of that name."""
        return self._queues.get(name)

    def is_going(self, what: Destination) -> bool:
        """Whether a deleted queue or exchange of that name still goes.

        Files of a queue are being taken away; what an exchange has kept until it is due would come
        back with its name after a loss of power.
        """
        return what in self._going

    def when_gone(self, what: Destination, then: Callable[[], None]) -> None:
        """Call `then` when it has."""
        self._going[what].append(then)

    async def until_gone(self, what: Destination) -> None:
        """Wait while it goes, before something of that name is declared."""
        while self.is_going(what):
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_gone(what, partial(_finish, gone))
            await gone

    def declare(self, wanted: DeclaredQueue, requester: Requester) -> QueueDeclared:
        """Add a queue, or find that it is there and the same; its name is not `is_going`.

        Raises:
            RequestRefused: See `VhostTopology.declare_queue`.
            DiskFull, DiskFailed: All is as before.
        """
        declared = self.topology.declare_queue(wanted, requester)
        self._node_counts.queues.declared += 1
        if declared.is_new:
            self._node_counts.queues.created += 1
            self._add(declared.queue)
        else:
            self._queues[declared.queue.name].touch()
        return declared

    def declared(self, queue: DeclaredQueue) -> None:
        """Note that a queue was put into the topology; its name is not `is_going`."""
        self._node_counts.queues.declared += 1
        self._node_counts.queues.created += 1
        self._add(queue)

    def delete(
        self,
        name: str,
        requester: Requester,
        done: Callable[[int], None],
        failed: Failed,
        *,
        if_unused: bool,
        if_empty: bool,
    ) -> None:
        """Delete a queue, if it is there; `done` is told how many messages were ready in it.

        Raises:
            RequestRefused: It may not be deleted, or not now.
            DiskFull, DiskFailed: All is as before.
        """
        found = self.topology.deletable_queue(name, requester)
        if found is None:
            done(0)
            return
        queue = self._queues[found.name]
        queue.check_removal(if_unused=if_unused, if_empty=if_empty)
        count = self._remove(queue)

        def durable(error: StoreError | None) -> None:
            if error is not None:
                _log.error("what a deleted exchange has kept may come back", why=str(error))
            if error is None:
                done(count)
            else:
                failed(error)

        def gone() -> None:
            self.declarations.when_durable(durable)

        going = Destination(ResourceKind.QUEUE, found.name)
        if self.is_going(going):
            self.when_gone(going, gone)
        else:
            gone()

    def delete_in_turns(self, connection: int) -> Iterator[None]:
        """Delete the queues that end with a connection; it yields when others have their turn."""
        share = self.turns.share()
        # Those that are there now: a name may be somebody else's by the time it has its turn.
        names = [one.name for one in self.topology.queues_of(connection)]
        for queue in [self._queues[name] for name in names if name in self._queues]:
            yield from share.wait(REMOVAL_WORK)
            self.turns.work_left -= REMOVAL_WORK
            self.unused(queue)

    def unused(self, queue: BrokerQueue, /) -> None:
        """Delete a queue whose last consumer or owner is gone, or that nobody has used for long."""
        if not queue.is_deleted:
            self._try_to_remove(queue)

    def changed(self, queues: Sequence[DeclaredQueue]) -> None:
        """Note that other policies are in force for some queues."""
        for one in queues:
            queue = self._queues.get(one.name)
            if queue is not None:
                queue.set_options(self.topology.options(one))

    # Messages.

    def route(self, exchange: str, keys: Sequence[str], headers: Headers) -> Sequence[MessageTaker]:
        """Return what gets a message that is published to an exchange: queues, as a rule."""
        routed = self.topology.route(exchange, keys, headers)
        if routed.held_by:
            return self._kept(routed)
        queues = self._queues
        return [queues[name] for name in routed.queues]

    def count_closed(self, channel: BrokerChannel) -> None:
        """Keep what a channel has counted, which is closed."""
        self.past_published.add(channel.published_counts)
        self._node_counts.past_published.add(channel.published_counts)
        self.past_deliveries.add(channel.delivery_counts)

    # The log.

    def note_write(self) -> None:
        """Note that there may be something to make durable for which nobody waits."""
        if self._write_timer is None and not self._is_stopped:
            self._write_timer = self._timers.call_later(WRITE_SECONDS, self._write)

    def upkeep(self) -> None:
        """Flush queues that are due, and give back room; called every second."""
        self.delays.upkeep()
        left, self._left = self._left, {}
        for queue in left:
            if not (queue.is_deleted or queue.consumers):
                self._try_to_remove(queue)
        self._write_waiting()
        if self._is_in_upkeep or self._is_stopped:
            return
        self._is_in_upkeep = True
        due = self.store.flush_due(self._clock.monotonic())

        def work() -> Steps:
            yield from self.store.flush_steps(due)
            yield from self.store.collect_steps()

        def done(error: BaseException | None) -> None:
            self._is_in_upkeep = False
            if isinstance(error, StoreError):
                _log.error("upkeep failed; trying again", vhost=self.name, why=str(error))
            elif error is not None:
                raise error

        self._thread.drive(work(), done)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way that will end by itself."""
        return not (
            self._going
            or self._is_in_upkeep
            or self.commits.waiting_count
            or self.store.log.waiting_bytes
            or not self.delays.is_quiet
        )

    async def settle(self) -> None:
        """Do what is due, and wait until everybody who waits has an answer."""
        await self.turns.pass_turn()
        self.commits.wait(Waiter())
        await self.commits.settle()

    @property
    def refusal(self) -> str | None:
        """Why nothing is stored now: after a failed sync until a restart, else until it can be."""
        error = self.store.log.failure or self.commits.failed_write
        return None if error is None else str(error)

    def stop(self) -> None:
        """Do nothing more; what still waits is refused."""
        self._is_stopped = True
        self.delays.stop()
        self._services.dead_letters.stop()
        if self._write_timer is not None:
            self._write_timer.cancel()
        self.commits.close()

    def end(self) -> None:
        """Do as `stop`, and drop every queue: the virtual host is deleted."""
        self.stop()
        for queue in self.queues:
            self._end_queue(queue)
        self._queues.clear()
        self._pressure.weigh(0)

    @property
    def is_idle(self) -> bool:
        """Whether nothing uses the store any more, once this has ended."""
        return not (self._going or self._is_in_upkeep) and self._reads.is_idle

    # Below.

    def _add(self, queue: DeclaredQueue) -> None:
        options = self.topology.options(queue)
        storages = []
        if queue.is_durable:
            priority = options.max_priority
            parts: Sequence[int | None] = [None] if priority is None else range(priority + 1)
            storages = [self.store.queue(QueueName(self.name, queue.name, part)) for part in parts]
        self._queues[queue.name] = BrokerQueue(
            QueueName(self.name, queue.name),
            options,
            storages,
            self._services,
            is_auto_delete=queue.is_auto_delete,
        )

    def _try_to_remove(self, queue: BrokerQueue) -> None:
        """Delete a queue for which nobody asks; if that fails now it is tried again."""
        try:
            self._remove(queue)
        except StoreError as error:
            _log.error(
                "an unused queue cannot be deleted; trying again",
                queue=queue.label,
                why=str(error),
            )
            self._left[queue] = None

    def _remove(self, queue: BrokerQueue) -> int:
        """Take a queue away; return how many messages were ready."""
        name = queue.label
        self.topology.remove_queue(name)
        del self._queues[name]
        count = self._end_queue(queue)
        if queue.is_durable:
            going = Destination(ResourceKind.QUEUE, name)
            self._going[going] = []

            def gone(error: BaseException | None) -> None:
                if isinstance(error, StoreError):
                    _log.error("files of a deleted queue stay", queue=name, why=str(error))
                elif error is not None:
                    raise error
                self._has_gone(going)

            self._thread.drive(queue.remove_steps(), gone)
        return count

    def _end_queue(self, queue: BrokerQueue) -> int:
        """End a queue and keep what it has counted; return how many messages were ready."""
        counts = self._node_counts
        count = queue.delete()
        counts.queues.deleted += 1
        past = counts.past_queues.setdefault(queue.type, PastQueues())
        past.published += queue.published_count
        past.deliveries.add(queue.counts)
        return count

    def _route_letter(self, exchange: str, message: BasicMessage) -> Sequence[LetterBox]:
        if self.topology.find_exchange(exchange) is None:
            return ()
        return self.route(exchange, message.routing_keys, partial(_headers, message))

    def _release(self, exchange: str, message: BasicMessage) -> Sequence[LetterBox]:
        """Return what gets a message that an exchange has kept until now."""
        if self.topology.find_exchange(exchange) is None:
            return ()
        headers = partial(_headers, message)
        return self._kept(self.topology.release(exchange, message.routing_keys, headers))

    def _kept(self, routed: Routed) -> Sequence[MessageTaker]:
        """Return what gets a message that some exchanges keep."""
        return [
            *(self._queues[name] for name in routed.queues),
            *self.delays.copies(routed.held_by, routed.delay_ms),
        ]

    def _exchange_gone(self, exchange: Exchange) -> None:
        if exchange.type != DELAYED or exchange.name not in self.delays.counts():
            return
        self.delays.drop(exchange.name)
        going = Destination(ResourceKind.EXCHANGE, exchange.name)
        if going not in self._going:
            self._going[going] = []
            self._wait_for_drop(going)

    def _wait_for_drop(self, going: Destination) -> None:
        """Let nobody declare an exchange of a name before what it has kept cannot come back."""

        def durable(error: StoreError | None) -> None:
            if error is not None:
                _log.error("what a deleted exchange has kept may come back", why=str(error))
            if error is None or not is_unwritten(error):
                self._has_gone(going)
            elif not self._is_stopped:
                again = partial(self._wait_for_drop, going)
                self._timers.call_later(RETRY_SECONDS, again)

        self.commits.wait(Waiter(durable))

    def _has_gone(self, what: Destination) -> None:
        for then in self._going.pop(what):
            then()

    def _write(self) -> None:
        self._write_timer = None
        self._write_waiting()
        if self.store.is_flush_due:
            self.upkeep()

    def _write_waiting(self) -> None:
        if self.store.log.waiting_bytes and not self.commits.waiting_count:
            self.commits.wait(Waiter())


def _headers(message: BasicMessage) -> FieldTable:
    held = message.properties
    known = properties.decode(held) if isinstance(held, bytes) else held
    return NO_FIELDS if known.headers is None else known.headers


def _finish(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
