"""Runs a store through random operations on a simulated disk and crashes it at random calls.

Everything follows from one seed. A crash is taken just before a call that changes the disk, so it
may fall into any operation, recovery included.
"""

import contextlib
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from msgspec import structs
from tests.crash import invariants
from tests.stores import batch_of, maintain

from sprocket.base.disk import Steps, advance, steps
from sprocket.base.errors import DiskFailed, DiskFull, MessageTooLarge, StoreError, StoreFailed
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import RetentionSettings, StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.log import Appended
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

ROOT = "/store"
TOPICS = ("one", "two", "%RETRY%three")
GEOMETRY = Geometry.small()
HOST = bytes([127, 0, 0, 1, 0, 0, 48, 57])


class Lost(AssertionError):
    """An acknowledged message is not there, or a store does not agree with itself."""


_Sent = tuple[tuple[str, int, int], int, bytes]
"""Topic, queue and offset of a message, its place in the log, and its body."""


@dataclass
class History:
    """What was sent and what was acknowledged so far.

    Attributes:
        sent: Every body that was ever given a place, by topic, queue and offset.
        acknowledged: Those whose sync finished.
        cleaned_to: Up to where the log may have been deleted.
        deleted: Where the log ended when a topic was deleted; its queues have nothing from before.
        had_damage: A recovery told of damage: places of lost messages may be kept at the ends of
            queues from then on.
    """

    sent: dict[tuple[str, int, int], set[bytes]] = field(default_factory=dict)
    acknowledged: dict[tuple[str, int, int], tuple[bytes, int]] = field(default_factory=dict)
    cleaned_to: int = 0
    deleted: dict[str, int] = field(default_factory=dict)
    had_damage: bool = False

    def copy(self) -> "History":
        """Return what was known up to now."""
        sent = {place: set(bodies) for place, bodies in self.sent.items()}
        return History(
            sent, dict(self.acknowledged), self.cleaned_to, dict(self.deleted), self.had_damage
        )

    def cut(self, log_end: int) -> None:
        """Note that a crash has made the log shorter: what comes behind its end is new."""
        self.deleted = {topic: min(end, log_end) for topic, end in self.deleted.items()}

    def forget(self, topic: str) -> None:
        """Rely on nothing more that a topic had: its deletion begins, and may get anywhere."""
        for place in [place for place in self.acknowledged if place[0] == topic]:
            del self.acknowledged[place]


class Life:
    """A store from one opening to the next crash.

    Args:
        disk: Where it lies.
        history: What was sent before; it goes on here.
        random: Decides everything.
        now_ms: When it is opened.
        settings: How; random by default.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        history: History,
        random: Random,
        now_ms: int,
        settings: StoreSettings | None = None,
    ) -> None:
        self.disk = disk
        self.history = history
        self.random = random
        self.clock = FakeClock(now_ms)
        self.settings = settings or StoreSettings(
            flush=random.choice(("sync", "sync", "async")),
            crc_tail=random.random() < 0.7,
            message_bytes_max=2048,
            fill_ahead_bytes=random.choice((0, 2048, 6000)),
        )
        self._unsynced: list[_Sent] = []
        self.start()
        history.cut(self.store.end)
        self._counter = 0
        self._body_bytes = random.choice((0, 0, 0, 300))  # of one size they take each other's place

    def start(self) -> None:
        """Open the store; what was not written before that is not there."""
        self.is_open = False
        self._turn: list[_Sent] = []
        self._opened = opening.to_write(self.disk, ROOT, self.settings, self.clock, GEOMETRY)
        self.store = Store(self._opened)
        self.history.had_damage |= bool(self.store.report.damage)
        self.is_open = True

    def forget_unsynced(self) -> None:
        """Wait no more for what was not acknowledged yet."""
        self._turn, self._unsynced = [], []

    def step(self) -> None:
        """Do one random operation."""
        operations: list[tuple[int, Callable[[], object]]] = [
            (30, self.append),
            (8, self.append_batch),
            (20, self.write),
            (14, self.sync),
            (8, self.dispatch),
            (4, self.store.dispatch_index),
            (5, self.maintain),
            (2, self.clean),
            (2, self.delete_topic),
            (6, self.fill),
            (3, self.fault),
            (2, self.reopen),
            (2, self.kill),
            (4, lambda: self.clock.advance(self.random.choice((1, 900, 5000)))),
            (1, lambda: self.clock.step_wall(-self.random.choice((1, 5000)))),
        ]
        weights = [weight for weight, _ in operations]
        (_, operation), *_ = self.random.choices(operations, weights)
        operation()

    def _record(self) -> tuple[NewRecord, bytes]:
        random = self.random
        self._counter += 1
        size = self._body_bytes or (
            random.choice((0, 1, 40, 200, 430, 900, 1900)) + random.randrange(30)
        )
        body = f"{self.clock.now_ms()}:{self._counter}:".encode().ljust(size, b"%")
        name = f"{random.getrandbits(64):016X}"
        keys = tuple(random.sample(("a", "b", "c"), random.randrange(3)))
        pairs = {"UNIQ_KEY": name, "TAGS": "T"}
        if keys:
            pairs["KEYS"] = " ".join(keys)
        return NewRecord(
            topic=random.choice(TOPICS),
            queue_id=random.randrange(2),
            body=body,
            properties=properties.encode(pairs),
            born_host=HOST,
            store_host=HOST,
            born_at_ms=self.clock.now_ms(),
            sys_flag=random.choice((0, 0, 0, 0, 0, 0, 4, 8, 12)),
        ), body

    def _note(self, new: NewRecord, appended: Appended, body: bytes) -> None:
        if new.queueable:
            place = new.topic, new.queue_id, appended.queue_offset
            self._turn.append((place, appended.physical_offset, body))
            self.history.sent.setdefault(place, set()).add(body)

    def append(self) -> None:
        """Append one record."""
        new, body = self._record()
        self._note(new, self.store.append(new), body)

    def append_batch(self) -> None:
        """Append a few at once; as a batch they may be too many for a file."""
        made = [self._record() for _ in range(self.random.randrange(1, 5))]
        records = [new for new, _ in made]
        try:
            if self._counter % 3:
                appended = self.store.append_all(records, together=self._counter % 3 == 1)
            else:
                records = [_alike(records[0], new) for new in records]
                appended = self.store.append_batch(batch_of(records))
        except MessageTooLarge:
            return
        for new, (_, body), one in zip(records, made, appended, strict=True):
            self._note(new, one, body)

    def write(self) -> None:
        """Write the turn; without space it is taken back."""
        turn, self._turn = self._turn, []
        try:
            self.store.write()
        except (DiskFull, DiskFailed):  # refused: they must not come back
            for place, _, body in turn:
                self.history.sent[place].discard(body)
            return
        self._unsynced += turn

    def sync(self) -> None:
        """Sync what is written, perhaps writing more while the sync is under way."""
        job = self.store.begin_sync()
        if job is None:
            return
        covered, self._unsynced = self._unsynced, []
        meanwhile = None
        if self.random.random() < 0.3:
            try:
                self.append()
                self.write()
            except StoreError as error:
                meanwhile = error
        try:
            job.run()
        except (DiskFull, DiskFailed) as error:
            job.finish(error)
            return
        job.finish(None)
        if self.store.synced >= job.target:
            self._acknowledge(covered)
        if meanwhile is not None:
            raise meanwhile

    def _acknowledge(self, covered: Sequence[_Sent]) -> None:
        for place, physical_offset, body in covered:
            self.history.acknowledged[place] = body, physical_offset

    def dispatch(self) -> None:
        """Fill the queues, as far as the disk lets."""
        with contextlib.suppress(DiskFull, DiskFailed):
            self.store.dispatch()

    def maintain(self) -> None:
        """What a broker does every second."""
        try:
            if self.random.random() < 0.5:
                maintain(self.store)
            else:
                self._interleave(self.store.maintain_steps())
        except StoreFailed:
            raise
        except StoreError:
            return
        if self.store.synced == self.store.written:
            covered, self._unsynced = self._unsynced, []
            self._acknowledge(covered)

    def clean(self) -> None:
        """What a broker does every ten seconds; the disk is full, or all is expired."""
        count = self.random.randrange(1, 4)
        self.disk.used = self.random.choice((0.5, 0.87))
        end = self.store.first + count * GEOMETRY.log.segment_bytes
        self.history.cleaned_to = max(self.history.cleaned_to, end)
        settings = RetentionSettings(keep_hours=0, round_files_max=count)
        with contextlib.suppress(DiskFull, DiskFailed):
            self._interleave(self.store.clean_steps(settings, at_once=True))

    def delete_topic(self) -> None:
        """Delete a topic, which may be made again at once."""
        topic = self.random.choice(TOPICS)
        self.write()
        end = self.store.end
        self.history.forget(topic)
        self._unsynced = [one for one in self._unsynced if one[0][0] != topic]

        def gone() -> None:
            self.history.deleted[topic] = end

        with contextlib.suppress(DiskFull, DiskFailed):
            steps.run(self.store.delete_topic_steps(topic, gone))

    def _interleave(self, work: Steps) -> None:
        """Do work in steps, and other things in between, as a broker's loop does."""
        call = advance(work)
        while call is not None:
            for other in self.random.sample((self.append, self.write, self.sync, self.dispatch), 2):
                if self.random.random() < 0.2:
                    other()
            result, error = None, None
            try:
                result = call()
            except StoreError as failed:
                error = failed
            call = advance(work, result, error)

    def fill(self) -> None:
        """One step of zeros ahead."""
        job = self.store.begin_fill()
        if job is None:
            return
        error = None
        try:
            job.run()
        except (DiskFull, DiskFailed) as failed:
            error = failed
        job.finish(error)

    def fault(self) -> None:
        """Make one of the coming calls fail."""
        call = self.random.choice(("write", "write", "create", "sync_folder", "remove", "sync"))
        if call == "sync" and self.random.random() < 0.7:
            return
        error = self.random.choice((errno.ENOSPC, errno.EIO))
        self.disk.fail(call, self.random.randrange(1, 6), error)

    def reopen(self) -> None:
        """Stop cleanly and start again."""
        self.write()
        self.is_open = False
        try:
            self.store.close()
        except StoreError:
            self._unsynced = []
        else:
            covered, self._unsynced = self._unsynced, []
            self._acknowledge(covered)
        self.start()

    def kill(self) -> None:
        """The process dies and is started again: what was written is there, and now for good."""
        written = self.store.written
        self.is_open = False
        assert self._opened.lock is not None
        self._opened.lock.release()  # as the system does
        self.start()
        assert self.store.end >= written, f"{written} bytes were written, {self.store.end} found"
        covered, self._unsynced = self._unsynced, []
        self._acknowledge(covered)


def _alike(first: NewRecord, new: NewRecord) -> NewRecord:
    """Return a record with all but body and properties as another one has it."""
    return structs.replace(first, body=new.body, properties=new.properties)


def check(
    disk: SimulatedDisk,
    history: History,
    now_ms: int,
    *,
    deep: bool = True,
    invented: int = -1,
) -> None:
    """Open what a crash left and see that all of it is in order.

    Args:
        disk: What was left.
        history: What was sent and acknowledged before.
        now_ms: When it is opened.
        deep: Check every file and go on writing, too.
        invented: Where a record may lie that nobody sent: its bytes were changed on the disk.

    Raises:
        Lost: It is not; the text says what.
    """
    settings = StoreSettings(flush="sync", message_bytes_max=2048, fill_ahead_bytes=0)
    try:
        store = Store.open(disk, ROOT, settings, FakeClock(now_ms), GEOMETRY)
        history.cut(store.end)
        history.had_damage |= bool(store.report.damage)
        _check_messages(store, history, invented)
        _check_deleted(store, history)
        if deep:
            _check_files(disk, store, history)
    except (AssertionError, StoreError, KeyError) as error:
        raise Lost(f"{type(error).__name__}: {error}") from error


def _check_messages(store: Store, history: History, invented: int) -> None:
    assert store.first <= history.cleaned_to, f"the log begins at {store.first}"
    for (topic, queue_id, offset), (body, physical_offset) in history.acknowledged.items():
        if physical_offset < store.first:
            low = store.queue_range(topic, queue_id).min
            assert low > offset, f"{topic}/{queue_id} begins at {low}, {offset} is gone"
            continue
        place = f"{topic}/{queue_id}/{offset} at {physical_offset}"
        got = store.get_messages(topic, queue_id, offset, max_count=1)
        assert got.status is GetStatus.FOUND, f"{place}: {got.status.name}, {store.report}"
        message = record.decode(got.records[0])
        assert (message.queue_offset, message.physical_offset) == (offset, physical_offset), place
        assert message.stored_body == body, place
        assert message.unique_key is not None
        found = store.find(topic, message.unique_key).offsets
        assert found == [physical_offset], f"{place}: by key {found}"
    for offset, data in store.records():
        message = record.decode(data)
        if record.entry(data).queueable and offset != invented:
            at = message.topic, message.queue_id, message.queue_offset
            assert message.stored_body in history.sent.get(at, ()), f"{at} at {offset} is invented"


def _check_deleted(store: Store, history: History) -> None:
    """What was deleted does not come back, and the store has not forgotten that it was."""
    for topic, end in history.deleted.items():
        known = store.deletions.ends.get(topic, store.first)
        assert known >= end or end <= store.first, f"{topic} was deleted at {end}, not at {known}"
    for topic, queue_id, found in store.queues():
        oldest = store.get_messages(topic, queue_id, found.min, max_count=1)
        for data in oldest.records:
            place = record.decode(data).physical_offset
            assert place >= history.deleted.get(topic, 0), f"{topic}/{queue_id}: {place} is back"


def _queued(store: Store, entries: list[record.Entry]) -> list[record.Entry]:
    """Return the entries that are not of topics that were deleted after them."""
    ends = store.deletions.ends
    return [one for one in entries if one.physical_offset >= ends.get(one.topic, 0)]


def _check_files(disk: SimulatedDisk, store: Store, history: History) -> None:
    entries, end = invariants.log(disk, ROOT, GEOMETRY)
    assert end == store.end, f"the log ends at {end}, the store says {store.end}"
    invariants.queues(disk, ROOT, _queued(store, entries), GEOMETRY)
    for topic, queue_id, found in store.queues():
        offsets = [
            e.queue_offset
            for e in _queued(store, entries)
            if (e.topic, e.queue_id) == (topic, queue_id) and e.queueable
        ]
        following = max(offsets, default=-1) + 1
        assert found.max >= following, (topic, queue_id)
        for offset in range(following, found.max) if offsets else ():
            place = topic, queue_id, offset
            assert history.had_damage, f"{place} is kept, but nothing was ever damaged"
            assert history.sent.get(place), f"{place} is kept, but nobody ever had it"
    new = NewRecord("one", 0, b"after", b"", HOST, HOST)
    appended = store.append(new)
    history.sent.setdefault(("one", 0, appended.queue_offset), set()).add(b"after")
    store.write()
    store.sync()
    store.close()
    entries, end = invariants.log(disk, ROOT, GEOMETRY)
    assert entries[-1].physical_offset == appended.physical_offset
    invariants.queues(disk, ROOT, _queued(store, entries), GEOMETRY)
    invariants.index(disk, ROOT, [e for e in entries if e.sys_flag & 12 != 12], GEOMETRY)
