"""Delivers messages at the time that they say, to the millisecond.

Theory of operation

A message that says a time waits in queue 0 of the wheel topic. Three pieces of work take turns on
the loop, each in batches; what they read is read on another thread if only the disk has it:

    the topic → follower → timer log and wheel → reader → due messages → deliveries → a copy

`topic_follower` puts what is new in the topic into the slot of its time (`store.timer`).
`slot_reader` reads each slot a second before its time into `due_messages`. `due_deliveries` appends
copies of what is due. `polling` says when they have something to do, `progress_keeper` writes down
how far they are, and `recovery` reads that.

A message is due when as much time has passed since it was stored as it asked for, by the log's
clock: setting the machine's clock brings none early and delays none. The wait for what was read is
measured on the monotonic clock.

The checkpoint says up to which slot everything is delivered and stored, up to where the timer log
has the topic, and from where on the log may have copies of what is in later slots. After a crash
those copies are looked for, and what has one is not delivered again.

Invariants

1. Every message of the topic before the follower's offset has a record in the timer log, in a slot
   that was not before the present one.
2. A slot before the reader's next one was read, and is open as long as something of it is not
   delivered or something may yet come.
3. The checkpoint is true of what the disk has: it waits for the log that it speaks of.
4. A message counts as delivered only after its copy is stored as the flush mode says.

Source: RocketMQ `TimerMessageStore`.
"""

from collections.abc import Callable, Mapping

from sprocket.base.disk import Steps
from sprocket.base.errors import StoreError
from sprocket.base.place import Place
from sprocket.rocketmq.broker.messages import DurableAppender
from sprocket.rocketmq.broker.timers import recovery
from sprocket.rocketmq.broker.timers.due_deliveries import DueDeliveries
from sprocket.rocketmq.broker.timers.due_messages import DueMessages
from sprocket.rocketmq.broker.timers.first_copies import FirstCopies
from sprocket.rocketmq.broker.timers.polling import POLL_SECONDS_MAX, Polling
from sprocket.rocketmq.broker.timers.progress_keeper import ProgressKeeper
from sprocket.rocketmq.broker.timers.slot_reader import SlotReader
from sprocket.rocketmq.broker.timers.topic_follower import TopicFollower
from sprocket.rocketmq.broker.timers.waiting_counts import TimerFigures, WaitingCounts
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import TimerCheckpoint, TimerCounts, TimerFiles
from sprocket.runtime.cold_reads import Reads
from sprocket.runtime.timers import Timers

_HOUR_MS = 3_600_000


class TimedMessages:
    """The delivery of all timed messages.

    Args:
        place: The store's.
        store: The open store, just recovered.
        reads: Asks the disk for what is not in memory.
        durable: The way into the store.
        drive: Does work in steps, its calls on the disk thread.
        store_host: The broker's address, as records hold it.
        timers: The event loop's.
        precision_ms: What a slot of the wheel takes.
        roll_ms: What waits longer than this comes into the topic again in between.
        files: The files of the store, opened; None opens them.

    Threads: event loop only.
    """

    def __init__(
        self,
        place: Place,
        store: Store,
        reads: Reads,
        durable: DurableAppender,
        drive: Callable[[Steps, Callable[[BaseException | None], None]], None],
        store_host: bytes,
        timers: Timers,
        *,
        precision_ms: int,
        roll_ms: int,
        files: TimerFiles | None = None,
    ) -> None:
        files = files or TimerFiles(
            store.disk, StoreLayout(place.folder), precision_ms, is_whole=store.report.clean
        )
        offset = recovery.next_offset(store, files)
        delivered = recovery.find(store, files)
        found = files.checkpoint
        first = (found.read_at_ms or store.log_clock.now_ms()) // precision_ms
        self._clock = store.log_clock
        self._roll_ms = roll_ms
        self._files = files
        self._waiting = DueMessages()
        self._counts = WaitingCounts(place.clock, files.counts, delivered.since)
        self._polling = Polling(self._poll, reads, place.clock.monotonic, timers)
        first_copies = FirstCopies(store, first, found.deliveries_from)
        self._reader = SlotReader(store, files, self._waiting, first_copies, self._polling, first)
        self._follower = TopicFollower(
            store, files, self._reader, self._polling, self._counts, offset, delivered, roll_ms
        )
        self._deliveries = DueDeliveries(
            store,
            files,
            self._waiting,
            durable,
            self._polling,
            self._counts,
            delivered,
            store_host,
        )
        self._progress = ProgressKeeper(
            store,
            files,
            self._follower,
            self._reader,
            self._deliveries,
            first_copies,
            self._counts,
            drive,
        )

    def start(self) -> None:
        """Begin to deliver, where the last process stopped."""
        self._polling.soon()

    def stop(self) -> None:
        """Begin nothing more; group commit, when it stops, answers what is under way."""
        self._polling.stop()

    def expect(self) -> None:
        """Look for new messages soon: one was sent."""
        self._polling.expect()

    def next_due_ms(self) -> int | None:
        """Return how long until something is to be done, at most 0 if it is now; None if nothing.

        That is when the next message is due, or when the next slot is read.

        Raises:
            StoreError: Topic or wheel cannot be read.
        """
        if self._follower.is_busy or self._reader.is_busy or self._deliveries.is_busy:
            return 0
        if self._reader.is_behind or self._follower.is_behind:
            return 0
        due_ms = self._waiting.next_ms()
        if due_ms is not None:
            due_ms -= self._polling.now_ms(up=False)
        waits = due_ms, self._reader.next_used_ms()
        return min((one for one in waits if one is not None), default=None)

    def waiting_count(self, due_at_ms: int) -> int:
        """Return how many messages wait in the slot of a time."""
        return self._files.slot(due_at_ms // self._files.precision_ms).waiting

    @property
    def checkpoint(self) -> TimerCheckpoint:
        """How far everything is, durably; of a store without timed messages, what time it is."""
        found = self._files.checkpoint
        if found.version:
            return found
        return TimerCheckpoint(read_at_ms=self._reader.oldest() * self._files.precision_ms)

    def counts(self) -> TimerCounts:
        """Return how many messages wait, by the topic where they are to go."""
        return self._counts.snapshot()

    def figures(self) -> TimerFigures:
        """Return what is told of the delivery."""
        late_ms = self._clock.now_ms() - self._reader.oldest() * self._files.precision_ms
        try:
            behind = self._follower.behind_count
        except StoreError:
            behind = 0  # a disk that is full takes no units of queues either
        return TimerFigures(
            late_ms=late_ms if late_ms >= self._files.precision_ms else 0,
            behind=behind,
            waiting=self._counts.total,
            come=self._counts.come,
            gone=self._counts.gone,
        )

    def reserve_hours(self) -> Mapping[str, int]:
        """Return for how long the messages of the wheel topic are needed, by that topic.

        That is the longest that one waits in the wheel, and by how much the delivery is late; none
        if none waits.
        """
        oldest = self._reader.oldest()
        if not self._follower.is_behind and self._follower.last_slot < oldest:
            return {}
        late_ms = self._clock.now_ms() - oldest * self._files.precision_ms
        return {TIMER_TOPIC: (late_ms + self._roll_ms) // _HOUR_MS + 2}

    def keep(self) -> None:
        """Begin to make durable how far everything is; wanted about once a second."""
        self._counts.sample()
        if not self._polling.is_stopped:
            self._progress.begin()

    def close(self) -> None:
        """Note how far everything is, and close the files; the store is synced, and open.

        Raises:
            StoreError: It could not be noted; the next process delivers from the last note on.
        """
        self._progress.close()

    def _poll(self) -> float:
        """Begin what can be; return how many seconds the next look may wait."""
        if not self._polling.is_paused:
            self._follower.begin()
            self._reader.begin()
        self._deliveries.begin()
        wait = min(POLL_SECONDS_MAX, self._reader.next_ms() / 1000)
        due_ms = self._waiting.next_ms()
        if due_ms is not None and not self._deliveries.is_busy:
            wait = min(wait, self._polling.seconds_until(due_ms))
        return wait
