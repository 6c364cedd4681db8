"""Recovery of the queues' indexes after a crash, RabbitMQ's or ours.

What journal.jif and the write-ahead log have is brought into the segments, transient and lost
messages are acknowledged there, everything else counts as delivered. Afterwards the segments alone
say what each queue has, journals and the log are gone. But where it is little for a
queue, and whoever goes on has the log, it is carried: it comes into the log's next file, all of it
with one write and one sync, while folders and files for ten thousand queues take seconds; a flush
will bring it into segments. Unlike RabbitMQ it starts from
whatever the files hold; each thing that should not be there is reported.

`dry_run` reads everything once and makes a plan; only what depends on the message store waits for
it, and is read again if it is much. `run` does what is planned.

The order, so that recovery can be cut short at any moment and begun again:

1. For some queues at a time the log is told what will be appended to which segment, and synced;
   then it is appended, after what is whole.
2. When all of that is durable, segments without messages are removed, durably.
3. The log says RECOVERED: from now on neither what it had nor a journal.jif counts. In the same
   batch, which counts whole or not at all, is what is carried.
4. Journals are removed, or set aside if a message in them is not what was stored, durably; of
   version 2 the entries are removed, durably, then the messages. Only then are the log's files
   removed, the oldest first; the newest stays if something is carried.
5. A segment with something in it that RabbitMQ would not start with is replaced by one without.

Source: RabbitMQ 3.10.8 `rabbit_queue_index`, its dirty recovery.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, remove_if_there, replace_file, steps, sync_file
from sprocket.base.errors import CorruptRecord, DiskFailed, FileMissing
from sprocket.base.progress import Step, unwatched
from sprocket.base.units import KIB, MIB
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.index import IndexSum
from sprocket.rabbitmq.codec.write_ahead import EntryKind, SegmentAppend
from sprocket.rabbitmq.store.damage import FileDamage
from sprocket.rabbitmq.store.layout import (
    QueueLayout,
    VhostLayout,
    decode_queue_name,
    encode_queue_name,
)
from sprocket.rabbitmq.store.queue_index import sums
from sprocket.rabbitmq.store.queue_index.carried import FEW_BYTES_MAX, carried
from sprocket.rabbitmq.store.queue_index.loading import (
    LoadedIndex,
    LoadedSegment,
    load,
    sound,
)
from sprocket.rabbitmq.store.queue_index.queue_index import (
    KnownSegment,
    remove_index_file,
    write_name,
)
from sprocket.rabbitmq.store.queue_index.version_2 import FilesV2
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadContents, WriteAheadLog

AT_ONCE_BYTES = 64 * MIB
"""Of what is to be appended, and of what waits for the message store, this much is in memory."""
CARRIED_EACH_BYTES_MAX = 64 * KIB
"""Of one segment: a folder and a file take some 0.3 ms to make, as long as to write more twice."""
LOG_FILE_BYTES = 64 * KIB
"""Of recovery's own part of the log: an append takes 24 bytes there."""
STEP_QUEUES = 64
"""After this many queues the progress is reported."""


@dataclass(slots=True)
class RecoveredIndex:
    """One queue after recovery.

    Attributes:
        segments: What it has.
        message_count: Messages left.
        body_bytes: Of their bodies.
        lost_count: Persistent ones that the message store should have had.
        cut_bytes: Taken off the ends of its segments.
        repaired_count: Segments that RabbitMQ would not start with.
        has_name: There is a .queue_name.
        was_v2: It had files of version 2, whose messages are in its segments now.
        journal: Records that are carried: they come above its segments.
        origin: What has them in the log; None if there are none.
        damage: What should not have been in its files.
    """

    segments: dict[int, KnownSegment] = field(default_factory=dict)
    message_count: int = 0
    body_bytes: int = 0
    lost_count: int = 0
    cut_bytes: int = 0
    repaired_count: int = 0
    has_name: bool = False
    was_v2: bool = False
    journal: bytes = b""
    origin: Origin | None = None
    damage: list[FileDamage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Append:
    path: str
    file_bytes: int
    whole_bytes: int
    data: bytes
    sums: list[IndexSum]


@dataclass(slots=True)
class _Plan:
    """What is to be done for one queue, as far as it is held in memory."""

    folder: str
    layout: QueueLayout
    origin: Origin
    result: RecoveredIndex = field(default_factory=RecoveredIndex)
    appends: list[_Append] = field(default_factory=list)
    announced: list[SegmentAppend] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    """Segments that are still to be resolved, by number."""
    loaded: dict[int, LoadedSegment] = field(default_factory=dict)
    """Those of them that are in memory."""
    has_folder: bool = False


class IndexRecovery:
    """See the head of the module.

    Args:
        disk: Where the files lie.
        layout: The virtual host's paths.
        entry_count: Entries of a segment.
        contents: What `read_log` gave; its reader reports the damage in it.
        folders: Names of the queues' folders, all of them; one need not exist.
        step: Called with the progress.
        carried_bytes_max: So much may be carried, if it is little for each queue.
        are_sums_void: Checksums that are there say nothing; see `sums.are_void`.

    Attributes:
        log: After `run`, the log that has what is carried, to continue with; None if nothing is.
    """

    def __init__(
        self,
        disk: Disk,
        layout: VhostLayout,
        entry_count: int,
        contents: WriteAheadContents,
        folders: Sequence[str],
        step: Step = unwatched,
        carried_bytes_max: int = 0,
        *,
        are_sums_void: bool = False,
    ) -> None:
        self._are_sums_void = are_sums_void
        self.log: WriteAheadLog | None = None
        self._begun_log: WriteAheadLog | None = None
        self._carried_bytes_left = carried_bytes_max
        self._disk = disk
        self._layout = layout
        self._entry_count = entry_count
        self._contents = contents
        self._folders = folders
        self._step = step
        self._plans: list[_Plan] = []
        self._held_bytes = 0
        self._journals: dict[str, bool] = {}
        """Those to be removed, and whether they have damage to be set aside."""
        self._dead: list[str] = []
        self._unsound: list[tuple[str, dict[int, KnownSegment], int]] = []
        self._version_2: list[FilesV2] = []

    def stored_ids(self) -> Iterator[bytes]:
        """Yield, for each reference to the persistent store, the message's id; changes nothing.

        Called once, before `dry_run` or `run`, which else do it.

        Raises:
            DiskFailed: A file cannot be read.
        """
        there = set(self._disk.folders(self._layout.queues))
        for done, folder in enumerate(self._folders):
            if done % STEP_QUEUES == 0:
                self._step("queues looked at", done, len(self._folders))
            if folder not in there and (plan := self._carried(folder)) is not None:
                self._plans.append(plan)
                continue
            loaded = self._load(folder)
            tail = loaded.tail
            origin = Origin(folder, loaded.journal_counts, tail.queue_name)
            plan = _Plan(folder, loaded.layout, origin)
            plan.has_folder = folder in there and not tail.is_gone
            plan.result.has_name = loaded.has_name and self._is_named(plan)
            if loaded.has_name and not plan.result.has_name and not tail.queue_name:
                self._dead.append(plan.layout.name)  # a crash has torn it; a flush makes it anew
            if loaded.journal_file_bytes:
                self._journals[plan.layout.journal] = bool(loaded.journal.checked.damaged)
            self._plans.append(plan)
            for segment in loaded.segments():
                found = segment.stored_ids()
                if not found and self._held_bytes <= AT_ONCE_BYTES:
                    self._held_bytes += self._resolve(plan, segment, _nowhere)
                    continue
                yield from found
                plan.waiting.append(segment.number)
                size = segment.whole_bytes + len(segment.journal.data)
                if self._held_bytes + size <= AT_ONCE_BYTES:
                    self._held_bytes += size
                    plan.loaded[segment.number] = segment
            plan.result.damage = loaded.damage
            if loaded.version_2 is not None:
                plan.result.was_v2 = True
                plan.result.damage = [*loaded.version_2.damage, *loaded.damage]
                self._version_2.append(loaded.version_2)

    def _carried(self, folder: str) -> _Plan | None:
        """Plan a queue that only the log has, if all that is left of it is to be carried."""
        tail = self._contents.tail(folder)
        if not tail.has_records_only:
            return None
        data = b"".join(tail.records)
        if len(data) + len(tail.queue_name) > min(FEW_BYTES_MAX, self._carried_bytes_left):
            return None
        found = carried(data, self._entry_count)
        if found is None or len(found.journal) > self._carried_bytes_left:
            return None
        self._carried_bytes_left -= len(found.journal) + len(tail.queue_name)
        plan = _Plan(folder, self._layout.queue(folder), Origin(folder, 0, tail.queue_name))
        plan.result.journal, plan.result.body_bytes = found.journal, found.body_bytes
        plan.result.message_count = sum(found.counts.values())
        plan.result.segments = {n: KnownSegment(count, 0) for n, count in found.counts.items()}
        return plan

    def _load(self, folder: str) -> LoadedIndex:
        return load(
            self._disk,
            self._layout.queue(folder),
            self._entry_count,
            self._contents.tail(folder),
            are_sums_void=self._are_sums_void,
        )

    def _is_named(self, plan: _Plan) -> bool:
        """Say whether a .queue_name is one; over a bad sector it is left as it is."""
        try:
            decode_queue_name(read_file(self._disk, plan.layout.name), plan.folder)
        except DiskFailed:
            return True
        except CorruptRecord:
            return False
        return True

    def dry_run(self, has_stored: Callable[[bytes], bool]) -> dict[str, RecoveredIndex]:
        """Return what `run` would, and change nothing.

        Args:
            has_stored: Says whether the persistent store has a message.

        Raises:
            DiskFailed: A file cannot be read.
        """
        self._begin()
        for plan in self._plans:
            for _ in self._rest(plan, has_stored):
                plan.appends, plan.announced = [], []
        return {plan.folder: plan.result for plan in self._plans}

    def _begin(self) -> None:
        """Run `stored_ids`, if that was not done."""
        if not self._plans:
            for _ in self.stored_ids():
                pass

    def _new_log(self) -> WriteAheadLog:
        contents, root = self._contents, self._layout.root
        return WriteAheadLog(
            self._disk, root, LOG_FILE_BYTES, contents.next_number, contents.next_sequence
        )

    def decide(self) -> None:
        """Say in the log, durably, that what was read of it counts, and nothing after that.

        From now on whatever that rests on may be changed.

        Raises:
            DiskFull, DiskFailed, StoreFailed: It may be begun again.
        """
        self._begun_log = log = self._new_log()
        try:
            log.decide()
            log.commit()
        except BaseException:
            log.close()
            raise

    def run(self, has_stored: Callable[[bytes], bool]) -> dict[str, RecoveredIndex]:
        """Recover all queues; return them by the names of their folders.

        Args:
            has_stored: Says whether the persistent store has a message.

        Raises:
            DiskFull, DiskFailed, StoreFailed: Nothing is lost; it may be begun again.
        Durability: on return all is durable.
        """
        self._begin()
        contents = self._contents
        log, self._begun_log = self._begun_log or self._new_log(), None
        try:
            for folder, tail in contents.tails.items():
                if tail.is_gone:
                    self._disk.remove_tree(self._layout.queue(folder).root)
            begun: list[_Plan] = []
            for plan in self._plans:
                begun.append(plan)
                for size in self._rest(plan, has_stored):
                    self._held_bytes += size
                    if self._held_bytes > AT_ONCE_BYTES:
                        self._append(log, begun)
                        self._held_bytes = 0
            self._append(log, begun)
            self._finish(log)
        except BaseException:
            log.close()
            raise
        return {plan.folder: plan.result for plan in self._plans}

    def _rest(self, plan: _Plan, has_stored: Callable[[bytes], bool]) -> Iterator[int]:
        """Resolve what has waited for the store; yield what each segment adds to the plan."""
        again: LoadedIndex | None = None
        for number in plan.waiting:
            segment = plan.loaded.pop(number, None)
            if segment is None:
                again = again or self._load(plan.folder)
                segment = again.segment(number)
            yield self._resolve(plan, segment, has_stored)
        plan.waiting = []

    def _resolve(
        self, plan: _Plan, segment: LoadedSegment, has_stored: Callable[[bytes], bool]
    ) -> int:
        """Plan what is to be done for a segment; return how many bytes that is."""
        result = plan.result
        result.lost_count += segment.resolve(has_stored)
        path = plan.layout.segment(segment.number)
        count = segment.message_count
        if not count:
            if segment.has_file:
                self._dead.append(path)
            return 0
        result.cut_bytes += segment.file_bytes - segment.whole_bytes
        if not segment.is_sound:
            result.repaired_count += 1
            self._unsound.append((path, result.segments, segment.number))
        result.message_count += count
        result.body_bytes += segment.body_bytes
        whole = segment.whole_bytes
        if self._carry(result, segment, count):
            return 0
        data = segment.missing()
        result.segments[segment.number] = KnownSegment(count, whole + len(data))
        added = _sums(segment, data)
        if added:
            plan.appends.append(_Append(path, segment.file_bytes, whole, data, added))
        if data or whole < segment.file_bytes:
            plan.announced.append(SegmentAppend(segment.number, whole, len(data), crc32(data)))
        return len(data)

    def _carry(self, result: RecoveredIndex, segment: LoadedSegment, count: int) -> bool:
        """Let the log carry what a segment lacks, if it is little and the file is in order."""
        if not self._carried_bytes_left or not segment.is_sound:
            return False
        if segment.has_file and not 0 < segment.whole_bytes == segment.file_bytes:
            return False
        if segment.covered_bytes < segment.whole_bytes and not segment.has_damage:
            return False  # it is to get checksums
        if segment.summed_bytes > segment.whole_bytes:
            return False  # they are to say where it was cut
        records = segment.missing_records(segment.number * self._entry_count)
        if not 0 < len(records) <= min(CARRIED_EACH_BYTES_MAX, self._carried_bytes_left):
            return False
        self._carried_bytes_left -= len(records)
        result.journal += records
        result.segments[segment.number] = KnownSegment(count, segment.whole_bytes)
        return True

    def _append(self, log: WriteAheadLog, plans: list[_Plan]) -> None:
        """Tell the log what is planned, and do it; there are no plans then."""
        for plan in plans:
            if plan.announced:
                log.note_appends(plan.origin, plan.announced)
        log.commit()
        for done, plan in enumerate(plans):
            if done % STEP_QUEUES == 0:
                self._step("queues written", done, len(plans))
            if plan.appends:
                self._disk.make_folder(plan.layout.root, durable=False)
                plan.has_folder = True
            if plan.has_folder and plan.origin.queue_name and not plan.result.has_name:
                write_name(self._disk, plan.layout, plan.origin.queue_name)
                plan.result.has_name = True
            for one in plan.appends:
                file = self._disk.open(one.path, write=True, create=True)
                try:
                    if one.file_bytes > one.whole_bytes:
                        file.resize(one.whole_bytes)
                    file.write([one.data], one.whole_bytes)
                finally:
                    file.close()
                sums.append(self._disk, one.path, one.sums)
            plan.appends, plan.announced = [], []
        del plans[:-1]  # the last one may go on

    def _finish(self, log: WriteAheadLog) -> None:
        """Do steps 2 to 5."""
        disk, root = self._disk, self._layout.root
        disk.sync_tree(root)
        for path in self._dead:
            remove_index_file(disk, path)
        if self._dead:
            disk.sync_tree(root)
        carried = [plan for plan in self._plans if plan.result.journal]
        for plan in carried:
            plan.result.origin = Origin(plan.folder, 0, plan.origin.queue_name)
            log.append(plan.result.origin, plan.result.journal)
        steps.run(log.end_steps(EntryKind.RECOVERED))
        for path, has_damage in self._journals.items():
            if has_damage:
                disk.rename(path, QueueLayout.set_aside(path))
            remove_index_file(disk, path)
        if self._journals:
            disk.sync_tree(root)
        self._remove_version_2()
        if carried:
            log.remove_older()
            self.log = log
        else:
            log.remove_all()
        for path, segments, number in self._unsound:
            size = self._make_sound(path)
            segments[number] = KnownSegment(segments[number].unacked, size)

    def _make_sound(self, path: str) -> int:
        """Replace a segment by one that is right; return its size."""
        disk = self._disk
        checked = sums.read_checked(disk, path)
        data = checked.data if checked.repaired is None else checked.repaired
        if checked.repaired is not None:
            replace_file(disk, path, data)
        if (
            checked.damaged
            or not index.states(index.read_segment(data), self._entry_count).findings
        ):
            return len(data)
        data = sound(data, self._entry_count)
        remove_if_there(disk, QueueLayout.sums(path))  # they are about what is replaced
        disk.sync_folder(path.rpartition("/")[0])
        replace_file(disk, path, data)
        sums.append(disk, path, [index.index_sum(data, 0, is_segment=True)])
        sync_file(disk, QueueLayout.sums(path))
        disk.sync_folder(path.rpartition("/")[0])
        return len(data)

    def _remove_version_2(self) -> None:
        """Take away files of version 2, whose messages are elsewhere by now, durably."""
        if not self._version_2:
            return
        disk, root = self._disk, self._layout.root
        for one in self._version_2:
            _rename_as_version_1(disk, one.layout)
            one.remove_entries()
        disk.sync_tree(root)
        for one in self._version_2:
            one.remove_messages()
        disk.sync_tree(root)


def _sums(segment: LoadedSegment, data: bytes) -> list[IndexSum]:
    """Return what the log says of a segment to which some data is appended."""
    whole, covered = segment.whole_bytes, segment.covered_bytes
    found: list[IndexSum] = []
    if covered < whole and not segment.has_damage and segment.is_sound:
        old = bytes(segment.records.data[covered:whole])
        found.append(index.index_sum(old, covered, is_segment=True))
    if data or whole < max(segment.file_bytes, segment.summed_bytes):
        # An entry of no bytes says where it was cut.
        found.append(index.index_sum(data, whole, is_segment=True))
    return found


def _rename_as_version_1(disk: Disk, layout: QueueLayout) -> None:
    """Write into a .queue_name that the queue is of version 1, if it can be read."""
    try:
        data = read_file(disk, layout.name)
        name = encode_queue_name(decode_queue_name(data, layout.root.rpartition("/")[2]))
    except (CorruptRecord, FileMissing):
        return
    if data != name:
        replace_file(disk, layout.name, name)


def _nowhere(_: bytes) -> bool:
    """Say of a message that the store has it not: nobody asks about a segment without any."""
    return False
