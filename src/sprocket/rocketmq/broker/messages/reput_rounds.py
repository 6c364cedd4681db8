"""From the log to queues and index in rounds, while group commit writes the log.

A round pays if it has much to do. So units and entries wait for more of them, but for so long at
most that nobody notices; units before which a consumer waits are written at once. A large round is
done in two halves, one for the queues and one for the index, and where the loop waits for a sync
one of them is done meanwhile.

Consumers see a record only after its answer was queued; see `Store.dispatch`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import StoreError
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.store.log import KEPT_BYTES_MAX, RunWrite
from sprocket.rocketmq.store.reput import Arrival
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.timers import Timer, Timers

_log = log.get_logger(__name__)

DISPATCH_SECONDS = 0.1
"""How long queue units and index entries may wait for more of them: a round costs some 0.2 ms even
if little is in it. Of a client's sends that go one at a time, fewer than one in a hundred meet one
then. A read first dispatches what is due."""

DISPATCH_ENOUGH, DISPATCH_BYTES_ENOUGH = 2048, KEPT_BYTES_MAX // 2
"""With so many records, or bytes of the log, a round waits no longer; it takes about 2 ms. Its half
for the index waits until the next answers are sent: otherwise it would make the longest waits of
clients that send one message at a time. What the log's tail has dropped by then, after twice so
many bytes, has to be read again."""

QUEUES_AT_ONCE = 32
"""Queues that are written before the clock is looked at: 0.4 ms, or 2 if all are new."""

DISPATCH_HOLD_SECONDS = 0.003
"""How long units are written before others have their turn. For 2,000 queues in one round they take
25 ms, and 120 where the queues are new."""

FOLLOWED_HOLD_SECONDS = 0.02
"""The same where another log is followed: what comes meanwhile waits in the socket, so that the
queues keep up with the log while its tail has what they need."""

BESIDE_SECONDS = DISPATCH_SECONDS / 2
"""What waits for so long already is put into the queues while the loop waits for a sync, and into
the index while it waits for the next: who sends one message at a time would wait for it later."""

FOLLOWED_BACK_BYTES = 64 * MIB
"""Pages that are given back at once where another log is followed: it may come much faster than
messages from senders, and nobody waits for an answer meanwhile. That takes 3 ms."""

BESIDE_WRITE_BYTES_MIN = MIB
"""Of such a write another thread makes the calls: 0.4 ms a MiB, in which the loop dispatches."""

FOLLOWED_SECONDS = DISPATCH_SECONDS / 2
"""How long what was followed waits for the next such write, to be dispatched beside it."""

INDEX_ROUND = 4096
"""Records indexed in one go; bounds how long the loop is away (about 2 ms)."""


class Hold(Protocol):
    """Consumers that wait for messages; `broker.delivery.PullHold` is one."""

    @property
    def count(self) -> int:
        """How many wait."""

    def arrived(self, arrival: Arrival, /) -> None:
        """Wake who waits for it."""


class ReputRounds:
    """What follows the log of a store; a `Follower` of its group commit.

    Threads: event loop only.
    """

    def __init__(
        self, store: Store, timers: Timers, clock: Clock, holds: Sequence[Hold], stats: Stats
    ) -> None:
        self._store = store
        self._timers = timers
        self._clock = clock
        self._holds = holds
        self._stats = stats
        self._undispatched, self._round_to = 0, store.written
        self._is_index_due = self._is_rest_due = False
        self._round_timer: Timer | None = None
        self._rest_timer: Timer | None = None
        self._round_begun_at: float | None = None
        self._is_closed = False

    def start(self) -> None:
        """Dispatch what recovery left."""
        self._begin_round()

    def close(self) -> None:
        """Do nothing more; what is left is dispatched when the store is closed."""
        self._is_closed = True
        for timer in (self._round_timer, self._rest_timer):
            if timer is not None:
                timer.cancel()

    def wrote(self, count: int) -> None:
        """Count records that were written."""
        self._stats.put += count
        self._undispatched += count

    def refused(self, count: int) -> None:
        """Count records that could not be."""
        self._stats.refused += count

    def answered(self, *, waits_for_syncs: bool) -> None:
        """Give consumers what has just become theirs, and keep memory prepared."""
        if self._store.is_following:
            # Not now: before, the next sync begins, so that the disk works meanwhile.
            if self._someone_waits:
                self._dispatch_soon()
            elif self._rest_timer is None and self._is_round_enough():
                self._rest_timer = self._timers.call_later(FOLLOWED_SECONDS, self._dispatch_rest)
            self._begin_round()
            return
        self._store.page_cache.give_back()
        if not waits_for_syncs:  # else it is done beside the next sync
            self._index()
        if self._is_round_enough(times=2 if waits_for_syncs else 1):
            self._half_round()
        elif self._someone_waits:
            self._dispatch()
        self._begin_round()

    def work_beside(self) -> Callable[[], None] | None:
        """Return what to do while the loop waits for a sync: half of a round, if one is due."""
        if self._is_index_due:
            return self._index
        waits_since = self._round_begun_at
        is_due = waits_since is not None and (
            self._clock.monotonic() - waits_since >= BESIDE_SECONDS or self._is_round_enough()
        )
        return self._half_round if is_due else None

    def beside_writes(self, thread: DiskThread) -> RunWrite:
        """Return what makes the calls of writes to a log that follows another.

        Args:
            thread: Makes them where much is written, unless it has other work; and gives back the
                pages that are to go.
        """

        def run(call: Callable[[], int], size: int) -> int:
            if size < BESIDE_WRITE_BYTES_MIN or not thread.is_idle:
                return call()
            old = self._store.page_cache.take_old(FOLLOWED_BACK_BYTES)

            def job() -> int:
                wrote = call()
                for file, position, room in old:
                    file.give_back(position, room)
                return wrote

            return thread.run_beside(job, self._dispatch_rest)

        return run

    @property
    def _someone_waits(self) -> bool:
        return any(hold.count for hold in self._holds)

    def _is_round_enough(self, times: int = 1) -> bool:
        """Say whether so many records wait for queues and index that they wait no longer."""
        fresh = self._store.written - self._round_to
        return (
            self._undispatched >= times * DISPATCH_ENOUGH or fresh >= times * DISPATCH_BYTES_ENOUGH
        )

    def _dispatch(self) -> None:
        """Write queue units, for some milliseconds; what is left comes in the next turns."""
        is_following = self._store.is_following
        seconds = FOLLOWED_HOLD_SECONDS if is_following else DISPATCH_HOLD_SECONDS
        until = self._clock.monotonic() + seconds
        while True:
            try:
                fresh = self._store.dispatch(
                    someone_waits=self._someone_waits, max_queues=QUEUES_AT_ONCE
                )
            except StoreError as error:
                _log.error("queues could not be written; trying again", why=str(error))
                return
            for put in fresh.puts:
                self._stats.arrived(put)
            for arrival in fresh.arrivals:
                for hold in self._holds:
                    hold.arrived(arrival)
            if self._store.is_dispatched:
                return
            if self._clock.monotonic() >= until:
                break
        self._dispatch_soon()

    def _dispatch_soon(self) -> None:
        if not self._is_rest_due:
            self._is_rest_due = True
            self._timers.call_soon(self._dispatch_rest)

    def _dispatch_rest(self) -> None:
        self._is_rest_due = False
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None
        if self._is_closed:
            return
        if self._store.is_following:
            self._store.page_cache.give_back(FOLLOWED_BACK_BYTES)
            self._index()
        self._half_round()
        self._begin_round()

    def _begin_round(self) -> None:
        if self._round_timer is None:
            self._round_begun_at = self._clock.monotonic()
            self._round_timer = self._timers.call_later(DISPATCH_SECONDS, self._round)

    def _round(self) -> None:
        """Write queue units and index entries of what waits for them."""
        if self._store.is_following:
            self._store.page_cache.give_back(FOLLOWED_BACK_BYTES)
        self._half_round()
        self._index()

    def _half_round(self) -> None:
        """Write queue units; the index is due next."""
        if self._round_timer is not None:
            self._round_timer.cancel()
            self._round_timer = self._round_begun_at = None
        self._undispatched, self._round_to = 0, self._store.written
        if not self._is_closed:
            self._is_index_due = True
            self._dispatch()

    def _index(self) -> None:
        if not self._is_index_due or self._is_closed:
            return
        self._is_index_due = False
        try:
            if self._store.dispatch_index(INDEX_ROUND) >= INDEX_ROUND:
                self._begin_round()
        except StoreError as error:
            _log.error("the index could not be written; trying again", why=str(error))
