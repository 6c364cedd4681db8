"""Recovery of the queues' indexes after a crash, RabbitMQ's or ours.

What journal.jif and the write-ahead log have is brought into the segments, transient and lost
messages are acknowledged there, everything else counts as delivered. Afterwards the segments alone
say what each queue has, journals are empty and the log is gone. Unlike RabbitMQ it starts from
whatever the files hold; each thing that should not be there is reported.

The order, so that recovery can be cut short at any moment and begun anew:

1. For some queues at a time the log is told what will be appended to which segment, and synced;
   then it is appended, behind what is whole.
2. When all of that is durable, segments without messages are removed, durably.
3. The log says RECOVERED: from now on neither it nor a journal.jif counts.
4. Journals are emptied, durably, and the log's files removed, the oldest first.
5. A segment with something in it that RabbitMQ would not start with is replaced by one without.

Source: RabbitMQ 3.10.8 `rabbit_queue_index`, its dirty recovery.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, remove_if_there, replace_file, steps
from sprocket.base.units import KIB, MIB
from sprocket.rabbitmq.codec.write_ahead import EntryKind, SegmentAppend
from sprocket.rabbitmq.store.layout import QueueLayout, VhostLayout
from sprocket.rabbitmq.store.queue_index.loading import IndexDamage, LoadedIndex, load, sound
from sprocket.rabbitmq.store.queue_index.queue_index import KnownSegment, cut_file
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadContents, WriteAheadLog

AT_ONCE_BYTES = 64 * MIB
"""Of what is to be appended, so much is held in memory."""
AT_ONCE_QUEUES = 256
LOG_FILE_BYTES = 64 * KIB
"""Of recovery's own part of the log: an append takes 24 bytes there."""


@dataclass(slots=True)
class RecoveredIndex:
    """One queue after recovery.

    Attributes:
        segments: What it has.
        message_count: Messages left.
        lost_count: Persistent ones that the message store should have had.
        damage: What should not have been in its files.
    """

    segments: dict[int, KnownSegment] = field(default_factory=dict)
    message_count: int = 0
    lost_count: int = 0
    damage: list[IndexDamage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Append:
    path: str
    file_bytes: int
    whole_bytes: int
    data: bytes


@dataclass(slots=True)
class _Plan:
    """What is to be done for one queue, as far as it is held in memory."""

    layout: QueueLayout
    origin: Origin
    appends: list[_Append] = field(default_factory=list)
    told: list[SegmentAppend] = field(default_factory=list)


class IndexRecovery:
    """See the head of the module.

    Args:
        disk: Where the files lie.
        layout: The virtual host's paths.
        entry_count: Entries of a segment.
        contents: What `read_log` gave; damage in it is for its reader to tell.
        folders: Names of the queues' folders, all of them; one need not exist.
    """

    def __init__(
        self,
        disk: Disk,
        layout: VhostLayout,
        entry_count: int,
        contents: WriteAheadContents,
        folders: Sequence[str],
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._entry_count = entry_count
        self._contents = contents
        self._folders = folders
        self._journals: list[str] = []
        self._dead: list[str] = []
        self._unsound: list[tuple[str, dict[int, KnownSegment], int]] = []

    def stored_ids(self) -> Iterator[bytes]:
        """Yield, for each reference to the persistent store, the message's id; changes nothing.

        Raises:
            DiskFailed: A file cannot be read.
        """
        for folder in self._folders:
            loaded = self._load(folder)
            for segment in loaded.segments():
                yield from segment.stored_ids()

    def _load(self, folder: str) -> LoadedIndex:
        contents = self._contents
        return load(
            self._disk,
            self._layout.queue(folder),
            self._entry_count,
            contents.tails.get(folder),
            is_journal_void=contents.are_journals_void,
        )

    def run(self, has_stored: Callable[[bytes], bool]) -> dict[str, RecoveredIndex]:
        """Recover all queues; return them by the names of their folders.

        Args:
            has_stored: Says whether the persistent store has a message.

        Raises:
            DiskFull, DiskFailed, StoreFailed: Nothing is lost; it may be begun anew.
        Durability: on return all is durable.
        """
        contents, root = self._contents, self._layout.root
        number = max(contents.numbers, default=-1) + 1
        log = WriteAheadLog(self._disk, root, LOG_FILE_BYTES, number, contents.next_sequence)
        try:
            found = {}
            plans: list[_Plan] = []
            size = 0
            for folder in self._folders:
                tail = contents.tails.get(folder)
                if tail is not None and tail.is_gone:
                    self._disk.remove_tree(self._layout.queue(folder).root)
                plan = _Plan(self._layout.queue(folder), Origin(folder))
                plans.append(plan)
                found[folder] = result = RecoveredIndex()
                for added in self._plan(folder, plan, result, has_stored):
                    size += added
                    if size > AT_ONCE_BYTES:
                        self._append(log, plans)
                        size = 0
                if len(plans) >= AT_ONCE_QUEUES:
                    self._append(log, plans)
                    plans, size = [], 0
            self._append(log, plans)
            self._finish(log)
        finally:
            log.close()
        return found

    def _plan(
        self,
        folder: str,
        plan: _Plan,
        result: RecoveredIndex,
        has_stored: Callable[[bytes], bool],
    ) -> Iterator[int]:
        """Find what is to be done for a queue; yield the bytes that a segment adds to the plan."""
        loaded = self._load(folder)
        plan.origin.journal_bytes = loaded.journal_counts
        if loaded.journal_file_bytes:
            self._journals.append(plan.layout.journal)
        for segment in loaded.segments():
            result.lost_count += segment.settle(has_stored)
            path = plan.layout.segment(segment.number)
            count = int(segment.is_live.sum())
            if not count:
                if segment.number in loaded.in_files:
                    self._dead.append(path)
                continue
            if not segment.is_sound:
                self._unsound.append((path, result.segments, segment.number))
            data = segment.missing()
            result.message_count += count
            result.segments[segment.number] = KnownSegment(count, segment.whole_bytes + len(data))
            if data or segment.whole_bytes < segment.file_bytes:
                plan.appends.append(_Append(path, segment.file_bytes, segment.whole_bytes, data))
                plan.told.append(
                    SegmentAppend(segment.number, segment.whole_bytes, len(data), crc32(data))
                )
                yield len(data)
        result.damage = loaded.damage

    def _append(self, log: WriteAheadLog, plans: Sequence[_Plan]) -> None:
        """Tell the log what is planned, and do it."""
        for plan in plans:
            if plan.told:
                log.note_appends(plan.origin, plan.told)
        log.commit()
        for plan in plans:
            if plan.appends:
                self._disk.make_folder(plan.layout.root, durable=False)
            for one in plan.appends:
                file = self._disk.open(one.path, write=True, create=True)
                try:
                    if one.file_bytes > one.whole_bytes:
                        file.resize(one.whole_bytes)
                    file.write([one.data], one.whole_bytes)
                finally:
                    file.close()
            plan.appends, plan.told = [], []

    def _finish(self, log: WriteAheadLog) -> None:
        """Do steps 2 to 5."""
        disk, root = self._disk, self._layout.root
        disk.sync_tree(root)
        for path in self._dead:
            remove_if_there(disk, path)
        if self._dead:
            disk.sync_tree(root)
        steps.run(log.end_steps(EntryKind.RECOVERED))
        for path in self._journals:
            cut_file(disk, path, 0)
        if self._journals:
            disk.sync_tree(root)
        log.remove_all()
        for path, segments, number in self._unsound:
            data = sound(read_file(disk, path), self._entry_count)
            replace_file(disk, path, data)
            segments[number] = KnownSegment(segments[number].unacked, len(data))
