"""From records to who waits for them to be stored, and is told.

What is appended goes to group commit together with whoever waits for it, and comes back with what
became of it; this module is group commit's `Responder`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import DiskFailed, DiskFull, StoreError, StoreFailed
from sprocket.rocketmq.model.message import NewBatch, NewRecord
from sprocket.rocketmq.store.log import AppendedBatch, StoredRecords
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.driver import Buffer
from sprocket.runtime.group_commit import GroupCommit
from sprocket.runtime.pressure import Pressure

_log = log.get_limited_logger(__name__)

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

Release: TypeAlias = Callable[[], None]
"""Tells those who waited what they were to be told; called once, when it is certain."""


class OutgoingAnswer(Struct, frozen=True, eq=False):
    """A release that sends bytes, which go out together with others for the same place.

    Attributes:
        send: Sends them; two that are equal lead to the same place.
        buffers: The bytes.
    """

    send: Callable[[Sequence[Buffer]], None]
    buffers: Sequence[Buffer]

    def __call__(self) -> None:
        """Send them by themselves."""
        self.send(self.buffers)


Told: TypeAlias = Callable[[Sequence[A], AppendedBatch | None, StoreError | None], Release | None]
"""Prepares what is to be told, given what was asked for, what was stored of each, or why nothing
was; with both when only their sync is late. None if nobody listens. It has no effect of its own,
since it is called before the sync is over and once more if that fails."""


class Waiting(Protocol):
    """Those who wait for records that were appended together; every `PendingAcks` is one."""

    @property
    def records(self) -> int:
        """How many records that are."""

    @property
    def waiting_count(self) -> int:
        """How many answers are due."""

    @property
    def stored_at_ms(self) -> int | None:
        """Their store time; None if nothing was stored."""

    def prepared(self, error: StoreError | None, *, is_stored: bool) -> Release | None:
        """Return what tells them."""


class PendingAcks(Struct, Generic[A_co], frozen=True, eq=False):
    """Those who wait for records that were appended together.

    Attributes:
        told: Prepares what they are told.
        asked: What it gets of each.
        stored: What was appended; None if nothing was.
        records: How many that were.
    """

    told: Told[A_co]
    asked: Sequence[A_co]
    stored: AppendedBatch | None
    records: int

    @property
    def waiting_count(self) -> int:
        """How many answers are due."""
        return len(self.asked)

    @property
    def stored_at_ms(self) -> int | None:
        """Their store time; None if nothing was stored."""
        return None if self.stored is None else self.stored.stored_at_ms

    def prepared(self, error: StoreError | None, *, is_stored: bool) -> Release | None:
        """Return what tells them.

        Args:
            error: Why they may not be acknowledged; None if they may.
            is_stored: Whether the records are still what was appended.
        """
        return self.told(self.asked, self.stored if is_stored else None, error)


def longest_ms(groups: Sequence[Waiting], now_ms: int) -> int:
    """Return for how long those of some groups have waited at most; 0 if there are none.

    Args:
        groups: The oldest first.
        now_ms: The time by the store's clock.
    """
    for group in groups[:1]:
        if group.stored_at_ms is not None:
            return max(0, now_ms - group.stored_at_ms)
    return 0


def ready(
    group: Iterable[Waiting], error: StoreError | None, *, is_stored: bool = True
) -> list[Release]:
    """Prepare what a group is told; one that fails does not keep the others waiting."""
    found: list[Release] = []
    for each in group:
        try:
            release = each.prepared(error, is_stored=is_stored)
        except Exception:
            _log.exception("an answer could not be given")
        else:
            if release is not None:
                found.append(release)
    return found


def send(releases: Iterable[Release]) -> None:
    """Tell everybody; who is told several things is told them at once."""
    outgoing: dict[Callable[[Sequence[Buffer]], None], list[Buffer]] = {}
    for release in releases:
        if isinstance(release, OutgoingAnswer):
            outgoing.setdefault(release.send, []).extend(release.buffers)
        else:
            release()
    for send_now, buffers in outgoing.items():
        send_now(buffers)


def refuse(group: Iterable[Waiting], error: StoreError) -> None:
    """Answer everybody with why nothing was stored."""
    send(ready(group, error, is_stored=False))


def _followed(
    asked: Sequence[Callable[[StoreError | None], None]],
    _: AppendedBatch | None,
    error: StoreError | None,
) -> Release:
    (done,) = asked
    return partial(done, error)


_OF_THE_DISK = DiskFull, DiskFailed, StoreFailed
"""Why a store takes nothing, whatever it is; counted like what a write could not store."""

Commits: TypeAlias = GroupCommit[Waiting, list[Release]]


class DurableAppender:
    """The way of every record into the store.

    Args:
        store: Where they go.
        commits: Writes and syncs them.
        pressure: How much waits for a sync; for those who may refuse to add to it.
        refused: Told how many records a store has refused that takes none now.

    Threads: event loop only.
    """

    def __init__(
        self,
        store: Store,
        commits: Commits,
        pressure: Pressure,
        refused: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._refused = refused
        self._wait = commits.wait
        self.enqueue = commits.enqueue
        self.append_now = commits.append_now
        self.pressure = pressure

    def append(self, records: Sequence[NewRecord], told: Told[A], asked: Sequence[A]) -> None:
        """Append records, each by itself; each is answered once, when it may be or is refused.

        Args:
            records: What to append, in order.
            told: Prepares what those who wait are told.
            asked: What `told` gets of each; only passed on, as a closure would cost three times
                as much.

        Durability: as the flush mode says, see `GroupCommit.wait`.
        """
        try:
            stored = self._store.append_all(records)
        except StoreError as error:
            if len(records) == 1:
                if isinstance(error, _OF_THE_DISK):
                    self._refused(1)
                refuse([PendingAcks(told, asked, None, 1)], error)
                return
            for number in range(len(records)):
                part = slice(number, number + 1)
                self.append(records[part], told, asked[part])
            return
        self._wait(PendingAcks(told, asked, stored, len(records)))

    def append_together(
        self, records: Sequence[NewRecord], told: Told[A], asked: Sequence[A]
    ) -> AppendedBatch:
        """Append records as one piece of the log: a crash leaves a first part of them, or all.

        Returns:
            Where they will be.

        Raises:
            StoreError: Nothing was appended, and nobody is told.
        Durability: as `append`.
        """
        stored = self._store.append_all(records, together=True)
        self._wait(PendingAcks(told, asked, stored, len(records)))
        return stored

    def append_stored(
        self, stored: StoredRecords, done: Callable[[StoreError | None], None]
    ) -> None:
        """Append records as the log has them that this one follows.

        Args:
            stored: What follows the end of this log.
            done: Told once that they are as safe as the flush mode asks, or why not.

        Raises:
            StoreError: Nothing was appended, and nobody is told.
        """
        self._store.append_stored(stored)
        self._wait(PendingAcks(_followed, [done], None, stored.count))

    def append_batch(self, batch: NewBatch, told: Told[A], asked: Sequence[A]) -> None:
        """Append messages as one: all of them are stored, at consecutive offsets, or none.

        There is one that waits, of whom `told` gets the only element of `asked`.
        """
        try:
            stored = self._store.append_batch(batch)
        except StoreError as error:
            if isinstance(error, _OF_THE_DISK):
                self._refused(len(batch.bodies))
            refuse([PendingAcks(told, asked, None, 1)], error)
            return
        self._wait(PendingAcks(told, asked, stored, len(stored)))
