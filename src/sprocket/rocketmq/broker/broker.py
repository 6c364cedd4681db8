"""The broker as a whole: constructs its parts, and runs what must happen now and then.

No part gets this object to reach the other parts; `server/broker_rows` gives each handler the parts
that it needs.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from sprocket.base import log
from sprocket.base.disk import steps
from sprocket.base.errors import StoreError
from sprocket.base.place import Place
from sprocket.rocketmq.broker.admin import Removal, Upkeep
from sprocket.rocketmq.broker.delay import DelayProgress, Delays
from sprocket.rocketmq.broker.delivery import PullHold, PullService, Queries
from sprocket.rocketmq.broker.filters import FilterRules, FilterTurns, MessageBits, SqlFilters
from sprocket.rocketmq.broker.groups import (
    ClientManager,
    ConsumerOffsets,
    Groups,
    Link,
    QueueLocks,
    RequestModes,
)
from sprocket.rocketmq.broker.messages import (
    Commits,
    DelayLevels,
    DurableAppender,
    Recalls,
    ReputRounds,
    RetryLimit,
    RetryService,
    Sender,
    Stamp,
    TimerRequests,
    Waits,
    hide,
    pending_acks,
    refuse_transactional,
)
from sprocket.rocketmq.broker.pop import (
    InFlight,
    Names,
    Orders,
    PopHold,
    PoppedQueue,
    PopService,
    ReviveLog,
    Reviver,
)
from sprocket.rocketmq.broker.rights import LOOK_SECONDS, KnownRights, Rights, RuleReader, Rules
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.timers import TimedMessages
from sprocket.rocketmq.broker.topics import Topics, topics_in
from sprocket.rocketmq.broker.transactions import (
    Ask,
    HalfChecks,
    HalfRecords,
    RecentHalves,
    Transactions,
)
from sprocket.rocketmq.codec.record import ids
from sprocket.rocketmq.model.internal import is_internal_group
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.replication import Slaves
from sprocket.rocketmq.settings import PullSettings, Settings
from sprocket.rocketmq.store.config_table import ConfigTable
from sprocket.rocketmq.store.queue import GroupFilter
from sprocket.rocketmq.store.rights_tables import RightsTables
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.durable_log import DurableLog
from sprocket.runtime.group_commit import FlushMode, GroupCommit, Machine
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.snapshots import Snapshots
from sprocket.runtime.tasks import Tasks

_log = log.get_logger(__name__)

MAINTAIN_SECONDS = 1.0
"""How often the store is kept in order and counters are noted."""

RECHECK_SECONDS = 5.0
"""How often waiting pulls are looked at again, RocketMQ's interval."""

EXPIRE_SECONDS = 10.0
"""How often silent clients are looked for, RocketMQ's interval."""

ORDERS_SECONDS = 0.1
"""How often it is looked whether messages in order come again, RocketMQ's tick."""

REVIVE_LOG_SECONDS = 0.5
"""How often it is looked what has come on RocketMQ's topic of pops."""

WAKES_MAX = 1_000
"""Queues that are looked at in one go, some 10 ms of the loop."""

FILTERS_SECONDS = 10.0
"""How often conditions of groups are written that have changed, RocketMQ's interval."""


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """The folder of a broker, open.

    Attributes:
        place: Where it lies, and the clock for everything that has a time.
        store: The broker closes it.
        reads: Reads of it on the loop; the broker stops them.
        subscriptions: What the store tries messages on; the broker fills it.
        rights: Users and what they may do, or the rules of RocketMQ 4 for that; None if everybody
            may do everything.
    """

    place: Place
    store: Store
    reads: ColdReads
    subscriptions: dict[str, Sequence[GroupFilter]]
    rights: RightsTables | RuleReader | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Callbacks:
    """What a broker has others do.

    Attributes:
        notify: Tells a consumer that its group changed.
        ask: Asks a producer how a transaction ended.
        topics_changed: Told of topics that are new or differ, with none if one was removed.
    """

    notify: Callable[[Link, str], None]
    ask: Ask
    topics_changed: Callable[[list[TopicConfig]], None]


class Broker:
    """Everything that one broker is made of.

    Args:
        folder: What it keeps.
        settings: All groups; each part gets its own.
        store_host: The advertised address, as records hold it.
        callbacks: What it has others do.
        pressure: Told how much waits for the disk.
        slaves: Have the log as well; None if this broker waits for none.
    Threads: event loop only.
    """

    def __init__(
        self,
        folder: OpenFolder,
        settings: Settings,
        store_host: bytes,
        callbacks: Callbacks,
        pressure: Pressure,
        slaves: Slaves | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        place, store, reads = folder.place, folder.store, folder.reads
        rights, clock = folder.rights, place.clock
        self.place = place
        self.store = store
        self.reads = reads
        self.store_host = store_host
        self.stats = Stats(clock)
        has_light = settings.store.light_queues
        self.topics = Topics(
            place,
            settings.broker,
            settings.topics,
            callbacks.topics_changed,
            in_store=lambda: topics_in(store),
            light_queues=has_light,
        )
        self.offsets = ConsumerOffsets(place, light_queues=has_light)
        self.offsets.set_back(store)
        self.groups = Groups(
            place, settings.groups, with_offsets=self.offsets.groups(), light_queues=has_light
        )
        if self.offsets.are_lost and any(not is_internal_group(g.name) for g in self.groups.all()):
            _log.warning("no group has committed an offset; all go on as groups that are new")
        self.request_modes = RequestModes(place.disk, place.folder)
        self.locks = QueueLocks(clock)
        self.filter_turns = FilterTurns(loop)
        sql_filters = SqlFilters(self.filter_turns)
        self.filter_rules = FilterRules(
            place,
            store.log_clock,
            sql_filters,
            self.filter_turns,
            settings.pull,
            MessageBits(settings.store, folder.subscriptions, is_certain=store.report.clean),
        )
        self.members = ClientManager(
            clock,
            settings.members.expiry_ms / 1000,
            callbacks.notify,
            self.groups.notifies_members,
            self.filter_rules,
        )
        self.hold = PullHold(loop, settings.pull)
        self.thread = DiskThread()
        self.rights = Rights(rights, self.thread) if isinstance(rights, RightsTables) else None
        self._rules = Rules(rights, self.thread) if isinstance(rights, RuleReader) else None
        # A sync waits for no other work of the disk, and none of that for a sync that stalls.
        self._sync_thread = DiskThread("sprocket-sync")
        self.in_flight = InFlight(place, self.offsets, store.written)
        self.orders = Orders(place, self.offsets, store.log_clock)
        self.pop_hold = PopHold(loop)
        self.delay_progress = DelayProgress(place, store, is_whole=not store.report.damage)
        self._tables: dict[str, ConfigTable[tuple[object, ...]]] = {
            "topics": self.topics.table,
            "groups": self.groups.table,
            "offsets": self.offsets.table,
            "delays": self.delay_progress.table,
            "pops": self.in_flight.table,
            "ordered pops": self.orders.table,
        }
        self.snapshots = Snapshots(
            self.thread,
            self._sync_thread,
            self._tables,
            durable=[self.topics.table, self.groups.table],
        )
        self._pop_snapshots = Snapshots(
            self.thread, self._sync_thread, {}, durable=[self.in_flight.table]
        )
        self._order_snapshots = Snapshots(
            self.thread,
            self._sync_thread,
            {},
            durable=[self.in_flight.table, self.orders.table, self.offsets.table],
        )
        self._is_sync = settings.store.flush == "sync"
        self._rounds = ReputRounds(store, loop, clock, (self.hold, self.pop_hold), self.stats)
        self.commits: Commits = GroupCommit(
            DurableLog(store, self.snapshots.begin_sync),
            pending_acks,
            Machine(loop, clock, self.thread, self._sync_thread, self.stats.syncs),
            flush_mode(settings),
            pressure,
            self._rounds,
            slaves,
        )
        self.slaves = slaves
        self._is_slave = settings.replication.is_slave
        if self._is_slave:
            why = "this broker is a slave: its messages come from its master alone"
            store.follow(why, self._rounds.beside_writes(self.thread))
        self.durable = DurableAppender(store, self.commits, pressure, self._rounds.refused)
        levels = DelayLevels(settings.store.delay_levels)
        timers = settings.timers
        self.timed = TimedMessages(
            place,
            store,
            reads,
            self.durable,
            self.thread.drive,
            store_host,
            loop,
            precision_ms=timers.precision_ms,
            roll_ms=timers.roll_slots * timers.precision_ms,
        )
        self.upkeep = Upkeep(
            store,
            self.thread,
            settings.retention,
            lambda: {**self.topics.reserve_hours(), **self.timed.reserve_hours()},
            lambda: self.refusal,
        )
        timer_requests = TimerRequests(
            clock, store.log_clock, timers, self.timed.expect, self.timed.waiting_count
        )
        waits = Waits(levels, timer_requests)
        topics, groups = self.topics, self.groups
        self.recalls = Recalls(
            topics,
            timer_requests,
            timers,
            settings.broker.name,
            store_host,
            clock.now_ms,
            store.log_clock,
        )
        self.sender = Sender(
            topics,
            waits,
            [
                RetryLimit(topics, groups, self.locks).divert_sent,
                hide if settings.transactions.enabled else refuse_transactional,
                waits.divert_sent,
            ],
            Stamp(store_host, settings.broker.cluster, ids.UniqueIds(clock, store_host[:-4]).next),
        )
        self.send_back = RetryService(store, topics, groups, levels, store_host)
        self.delays = Delays(
            store, reads, self.durable, self.delay_progress, levels, store_host, loop
        )
        halves = HalfRecords(waits, store_host, clock.now_ms, settings.store.message_bytes_max)
        self.recent_halves = RecentHalves()
        self.transactions = Transactions(
            store, self.durable, self.offsets, halves, self.recent_halves, settings.transactions
        )
        self.half_checks = HalfChecks(
            self.transactions,
            halves,
            reads,
            store.log_clock,
            loop,
            self.members,
            callbacks.ask,
            settings.transactions,
            keep_ms=settings.retention.keep_hours * 3_600_000,
            make_topic=topics.make_internal,
        )
        self._check_seconds = settings.transactions.check_interval_ms / 1000
        self._compaction = settings.compaction
        self._is_compacting = False
        self.puller = PullService(
            store,
            topics,
            groups,
            self.members,
            self.offsets,
            settings.pull,
            sql_filters,
            self.filter_rules,
            self.filter_turns,
        )
        self.pops = PopService(
            store,
            topics,
            groups,
            self.members,
            self.offsets,
            self.puller,
            self.filter_turns,
            self.in_flight,
            self.orders,
            store.log_clock.now_ms,
            settings.pull,
        )
        self.reviver = Reviver(
            store, reads, self.durable, self.in_flight, topics, store_host, store.log_clock, loop
        )
        self.revive_log = ReviveLog(
            store,
            reads,
            topics,
            self.offsets,
            self.in_flight,
            timer_requests,
            store.log_clock,
            Names(settings.broker.cluster, settings.broker.name, store_host),
        )
        self._leaves_pops = slaves is None and settings.timers.enabled and not self._is_slave
        self.queries = Queries(store, settings.store)
        self.removal = Removal(
            store,
            self.upkeep,
            topics,
            groups,
            self.offsets,
            self.stats,
            self.hold,
            self.in_flight,
            self.orders,
        )
        self._flush_seconds = settings.offsets.flush_ms / 1000
        self._tasks = Tasks("broker")

    def start(self) -> None:
        """Finish what a crash cut off, then begin what happens now and then."""
        self.upkeep.start()
        self.removal.finish()
        self.take_kinds()
        self.commits.start()
        self._rounds.start()
        if self.slaves is not None:
            self.slaves.start(self.commits.replicated)
        if not self._is_slave:
            self._start_sending()
        for seconds, work, name in (
            (MAINTAIN_SECONDS, self.maintain, "maintain"),
            (RECHECK_SECONDS, self.recheck, "recheck"),
            (EXPIRE_SECONDS, self.expire, "expire"),
            (ORDERS_SECONDS, self.wake_ordered, "ordered pops"),
            (self._flush_seconds, self.snapshots.begin, "snapshots"),
            (FILTERS_SECONDS, self._flush_filters, "filters"),
            (self._compaction.interval_ms / 1000, self.compact, "compaction"),
        ):
            self._tasks.repeat(seconds, work, name)
        if self._rules is not None:
            self._tasks.repeat(LOOK_SECONDS, self._rules.look, "rules")

    def _start_sending(self) -> None:
        """Begin what sends messages by itself: of all with the same log only the master does."""
        self.delays.start()
        self.timed.start()
        self.reviver.start()
        self._tasks.repeat(REVIVE_LOG_SECONDS, self.revive_log.look, "revive log")
        self._tasks.repeat(self._check_seconds, self.check_halves, "check halves")

    @property
    def known_rights(self) -> KnownRights | None:
        """What requests are checked by; None if everybody may do everything."""
        return self.rights or self._rules

    @property
    def refusal(self) -> str | None:
        """Why nothing is stored now: after a failed sync until a restart, else until it can be."""
        failed = self.commits.failed_write
        return self.store.refusal or (None if failed is None else str(failed))

    def next_due_ms(self) -> int | None:
        """Return how long until a message that waits is due, or is looked for; None without any.

        Raises:
            StoreError: What waits cannot be read.
        """
        now_ms = self.store.log_clock.furthest_ms()
        popped = [
            max(0, at_ms - now_ms)
            for at_ms in (self.in_flight.next_due_at_ms(), self.orders.next_free_at_ms())
            if at_ms is not None
        ]
        waits = self.delays.next_due_ms(), self.timed.next_due_ms(), *popped
        return min((one for one in waits if one is not None), default=None)

    def take_kinds(self) -> None:
        """Give topics that were new when a crash came the kinds of queues that they are to have."""
        for topic in self.topics.all():
            try:
                if topic.takes_batches:
                    self.store.take_batches(topic.name)
                if topic.is_compacted:
                    self.store.take_compaction(topic.name)
            except StoreError as error:
                _log.error(
                    "a topic has not the queues that it says", topic=topic.name, why=str(error)
                )

    def popped_to(self, topic: str, group: str, queue_id: int) -> int:
        """Return up to where a group has popped from a queue, if some of it is in flight; or 0."""
        key = PoppedQueue(topic, group, queue_id)
        ordered = self.orders.get(key)
        behind = 0 if ordered is None or ordered.is_settled else ordered.offsets[-1] + 1
        return max(behind, self.in_flight.next_offset(key) or 0)

    def keep_pops(self, is_ordered: bool, done: Callable[[StoreError | None], None]) -> None:
        """Call `done` when what was noted of pops is as safe as the flush mode asks.

        Ordered pops also commit offsets; for other pops the offset is derived from the journal.
        """
        if self._is_sync:
            (self._order_snapshots if is_ordered else self._pop_snapshots).when_durable(done)
        else:
            done(None)

    def settings_users(self) -> dict[str, Callable[[Settings], None]]:
        """Return what takes up new settings while the broker runs, by the name of their group."""
        return {
            "topics": lambda changed: self.topics.use(changed.topics),
            "groups": lambda changed: self.groups.use(changed.groups),
            "pull": lambda changed: self._use_pull(changed.pull),
            "members": lambda changed: self.members.use(changed.members),
            "retention": lambda changed: self.upkeep.use(changed.retention),
        }

    def _use_pull(self, settings: PullSettings) -> None:
        self.puller.use(settings)
        self.filter_rules.use(settings)
        self.hold.use(settings)

    def _flush_filters(self) -> None:
        self.thread.drive(self.filter_rules.flush_steps(), _filters_flushed)

    def left(self, link: Link) -> None:
        """Forget a connection that closed."""
        self.hold.drop(link)
        self.pop_hold.drop(link)
        self.members.drop(link)

    @property
    def tables_version(self) -> int:
        """A number that rises with each change of topics, groups, offsets and the like."""
        return sum(table.journal.sequence for table in self._tables.values())

    async def quiesce(self) -> None:
        """Answer everything that waits: held pulls now, sends when they are synced."""
        self.delays.stop()
        self.timed.stop()
        self.half_checks.stop()
        self.reviver.stop()
        self.hold.end_all()
        self.pop_hold.end_all()
        await self.commits.settle()

    async def stop(self) -> None:
        """End everything and close the store: what was answered is on the disk after this."""
        await self._tasks.close()
        if self.slaves is not None:
            self.slaves.stop()
        self.delays.stop()
        self.timed.stop()
        self.reviver.stop()
        await self.reads.stop()
        self.commits.close()
        await self._sync_thread.stop()
        await self.thread.stop()
        self.upkeep.close()
        with ExitStack() as last:
            last.callback(self.store.close)
            for table in self._tables.values():
                last.callback(table.close)
            if not self._is_slave:
                last.callback(self.timed.close)
            last.callback(lambda: steps.run(self.filter_rules.flush_steps()))
            if self._leaves_pops:
                self._leave_pops()
            self.store.sync()  # so that the progress of delays is safe to note, and of transactions
            if not self._is_slave:
                self.transactions.note_progress()
                self.transactions.note_progress()

    def _leave_pops(self) -> None:
        """Leave what is in flight where RocketMQ looks for it."""
        try:
            self.revive_log.leave()
        except StoreError as error:
            _log.error("RocketMQ will not know what is in flight in this folder", why=str(error))

    def maintain(self) -> None:
        """Take samples, flush what piled up and let the store keep what it has; every second."""
        self.stats.sample()
        if self.offsets.wants_flush:
            self.snapshots.begin_one("offsets")
        self.upkeep.begin()
        if not self._is_slave:
            self.timed.keep()

    def recheck(self) -> None:
        """Look whether messages came for those who wait; every five seconds."""
        if self.hold.count:
            self.hold.recheck(lambda topic, queue: self.store.queue_range(topic, queue).max)

    def wake_ordered(self) -> None:
        """Wake who waits for queues whose messages in order come again; ten times a second."""
        for key in self.orders.take_free(WAKES_MAX):
            self.pop_hold.wake(*key)

    def check_halves(self) -> None:
        """Ask how transactions ended of which nobody says it; every half minute."""
        self.transactions.note_progress()
        self.half_checks.begin()

    def compact(self) -> None:
        """Drop what newer messages of compaction topics replaced; every quarter of an hour."""
        if not self._is_compacting:
            self._is_compacting = True
            work = self.store.compact_steps(self._compaction.keys_bytes_max)
            self.thread.drive(work, self._compacted)

    def _compacted(self, error: BaseException | None) -> None:
        self._is_compacting = False
        if isinstance(error, StoreError):
            _log.error("a queue could not be compacted; trying again", why=str(error))
        elif error is not None:
            raise error

    def expire(self) -> None:
        """Forget clients that have gone silent, and what they held; every ten seconds."""
        self.members.expire()
        self.locks.expire()


def flush_mode(settings: Settings) -> FlushMode:
    """Return when senders are answered."""
    durability = settings.durability
    return FlushMode(
        is_sync=settings.store.flush == "sync",
        wait_seconds_max=durability.sync_wait_ms_max / 1000,
        timeout_seconds=durability.sync_timeout_ms / 1000,
        look_seconds=settings.store.flush_interval_ms / 1000,
        replica_seconds=settings.replication.ack_timeout_ms / 1000,
    )


def _filters_flushed(error: BaseException | None) -> None:
    if isinstance(error, StoreError):
        _log.error("conditions of groups could not be written; trying again", why=str(error))
    elif error is not None:
        raise error
