"""ConsumeQueues in files: where each message of each queue lies in the log.

A queue (`file_queue`) is a row of units; see `docs/formats/consume-queue.md`.

Theory of operation. Units come in the order of the log, in rounds (`put_round`); all units of one
queue and round are written at once. They are derived from the log: after a crash the owner
truncates them to what is certain and puts the rest of the log again, and units that are there
already are ignored. Nothing here is durable before `flush`.

Invariants

1. The unit of queue offset n is at n * 20. A unit that would have to stand elsewhere is an error,
   never a shifted unit (RocketMQ logs the gap and shifts everything after it).
2. Physical offsets grow from unit to unit, fillers left out. A unit that breaks this, or that is
   absent (offset below 0 or size not above 0), ends the queue when it is loaded.
3. What lies behind the end of a queue is zero, so that RocketMQ's recovery finds the same end.
4. At most `OPEN_FILES_MAX` files are open at a time; none is opened before it is needed, and no
   more of one is read than was asked for.
"""

import os
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import msgspec

from sprocket.base.checksum import crc32
from sprocket.base.disk import (
    Disk,
    OpenFiles,
    SegmentFiles,
    Steps,
    read_file,
    replace_file,
    segment_name,
    steps,
)
from sprocket.base.errors import FileMissing, ForeignStore
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import BATCH_UNIT_BYTES, QueueGeometry
from sprocket.rocketmq.model.internal import LIGHT_PREFIX
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.layout import check_topic, trash
from sprocket.rocketmq.store.queue import queue_files, runs
from sprocket.rocketmq.store.queue.batch_queue import BatchQueue
from sprocket.rocketmq.store.queue.engine import in_steps
from sprocket.rocketmq.store.queue.extension import Extension
from sprocket.rocketmq.store.queue.file_queue import Ends, FileQueue
from sprocket.rocketmq.store.queue.queue import UNIT_BYTES, LastUnit, QueueKey
from sprocket.rocketmq.store.queue.queue_files import QueueFiles, move_away, sync_all
from sprocket.rocketmq.store.queue.runs import Run, UnitBatch


@dataclass(frozen=True, slots=True)
class OtherKinds:
    """Where queues lie that are not plain ones, and which are not.

    Attributes:
        extension_folder: The folder `consumequeue_ext` of the store.
        batch_folder: The folder `batchconsumequeue` of the store.
        extend: New units are extended ones; if not, only where there are some already.
        batch_topics: Topics whose queues are batch queues. Whoever owns it may add to it.
    """

    extension_folder: str
    batch_folder: str
    extend: bool = False
    batch_topics: set[str] = field(default_factory=set)


_Note = dict[str, dict[int, Ends]]
"""By topic and queue id. In the file, as JSON behind a line with its CRC-32 in decimal."""


class FileQueues:
    """All queues of a store.

    Args:
        disk: Where they lie.
        folder: The folder `consumequeue` of the store.
        geometry: How many units a file has.
        note: A file for `seal` to say in where the queues end; None leaves no note.
        write: Whether anything may be changed on the disk.
        others: Extended and batch queues; None if there are none.
    Threads: event loop only.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        geometry: QueueGeometry,
        *,
        note: str | None = None,
        write: bool = True,
        others: OtherKinds | None = None,
    ) -> None:
        self._note = note
        self._disk = disk
        self._folder = folder
        self._geometry = geometry
        self._write = write
        self._others = others
        self._extends = False
        self._open_files = OpenFiles(queue_files.OPEN_FILES_MAX)
        self.by_key: dict[QueueKey, FileQueue | BatchQueue] = {}
        self._dirty: dict[FileQueue | BatchQueue, None] = {}  # in order, as a set has none
        self._is_unsure = False

    def load(
        self, *, clean: bool = False, certain: int = ANYWHERE, step: Step = unwatched
    ) -> dict[QueueKey, LastUnit]:
        """Take up every queue that is on the disk and find its end; see `engine.Queues.load`.

        Folders whose name is not a number are not queues. After a clean stop a queue is as the note
        of `seal` has it, if its first and last files are there and are older than the note; nobody
        wrote to it since then. Such a queue costs 10 µs, another one some reads.
        """
        self.by_key.clear()
        self._dirty.clear()
        self._is_unsure = not clean
        if self._write:
            self._disk.remove_tree(trash(self._folder))
        others = self._others
        if others is not None:
            self._extends = others.extend or self._disk.is_folder(others.extension_folder)
            others.batch_topics.update(self._disk.list(others.batch_folder))
        noted, noted_at_ms = self._read_note() if clean else ({}, 0)
        lasts: dict[QueueKey, LastUnit] = {}
        for queue, ends in self._found(noted, noted_at_ms):
            step("queues found", len(self.by_key))
            if ends is not None and isinstance(queue, FileQueue):
                queue.resume(ends)
                continue
            last = queue.load(clean=clean, certain=certain)
            if last is not None:
                lasts[queue.topic, queue.queue_id] = last
        return lasts

    @property
    def _folders(self) -> list[str]:
        """All that may hold something of a queue."""
        others = self._others
        more = [] if others is None else [others.extension_folder, others.batch_folder]
        return [self._folder, *more]

    def _found(
        self, noted: _Note, noted_at_ms: int
    ) -> Iterator[tuple[FileQueue | BatchQueue, Ends | None]]:
        """Give every queue that is on the disk, with its ends if they are as noted."""
        batches = [] if self._others is None else [self._others.batch_folder]
        for folder in [*batches, self._folder]:
            for topic in self._disk.folders(folder):
                place = f"{folder}/{topic}"
                known = noted.get(topic, {}) if folder == self._folder else {}
                if known and self._is_older(place, noted_at_ms):
                    ids = list(known)  # no queue came or went since
                else:
                    names = self._disk.folders(place)
                    ids = [int(name) for name in names if _is_queue_id(name)]
                for queue_id in ids:
                    queue = self._make(topic, queue_id)
                    path = f"{place}/{queue_id}"
                    if queue.files.folder != path:
                        raise ForeignStore(
                            f"{path}: expected {queue.files.folder}, by the topic's kind"
                        )
                    ends = known.get(queue_id)
                    is_noted = ends is not None and self._is_as_noted(path, ends, noted_at_ms)
                    yield queue, ends if is_noted else None

    def _read_note(self) -> tuple[_Note, int]:
        """Return the note, if it is there and whole, and when it was written."""
        if self._note is None or not self._disk.exists(self._note):
            return {}, 0
        crc, _, content = read_file(self._disk, self._note).partition(b"\n")
        if crc != b"%d" % crc32(content):
            return {}, 0
        at_ms = self._disk.modified_at_ms(self._note)
        return msgspec.json.decode(content, type=_Note), at_ms

    def _is_as_noted(self, folder: str, ends: Ends, at_ms: int) -> bool:
        """Say whether a queue's files are there, its first and last one older than the note.

        Of several files one may have been deleted; then the folder is younger.
        """
        if not self._is_older(f"{folder}/{segment_name(ends.last_file)}", at_ms):
            return False
        if ends.first_file == ends.last_file:
            return True
        first = f"{folder}/{segment_name(ends.first_file)}"
        return self._is_older(folder, at_ms) and self._is_older(first, at_ms)

    def _is_older(self, path: str, at_ms: int) -> bool:
        """Say whether something is there and was last changed before a time."""
        try:
            return self._disk.modified_at_ms(path) < at_ms
        except FileMissing:
            return False

    def _make(self, topic: str, queue_id: int) -> FileQueue | BatchQueue:
        others, geometry = self._others, self._geometry
        place = f"{check_topic(topic)}/{queue_id}"
        queue: FileQueue | BatchQueue
        if others is not None and topic in others.batch_topics:
            size = geometry.batch_units_per_file * BATCH_UNIT_BYTES
            queue = BatchQueue(topic, queue_id, self._open(f"{others.batch_folder}/{place}", size))
        else:
            size = geometry.units_per_file * UNIT_BYTES
            files = self._open(f"{self._folder}/{place}", size)
            extension = None
            if others is not None and self._extends and not topic.startswith(LIGHT_PREFIX):
                folder = f"{others.extension_folder}/{place}"
                extension = Extension(self._open(folder, geometry.extension_bytes))
            queue = FileQueue(topic, queue_id, files, geometry.units_per_file, extension)
        self.by_key[topic, queue_id] = queue
        return queue

    def _open(self, folder: str, segment_bytes: int) -> QueueFiles:
        files = SegmentFiles(
            self._disk, folder, segment_bytes, write=self._write, open_files=self._open_files
        )
        return QueueFiles(files)

    @property
    def end(self) -> PhysicalOffset:
        """Physical end of the last message that any queue has; -1 without one."""
        return max((queue.end for queue in self.by_key.values()), default=PhysicalOffset(-1))

    @property
    def last(self) -> tuple[PhysicalOffset, int, int] | None:
        """The unit of the message that lies last in the log, of those in queues."""
        queue = max(self.by_key.values(), key=lambda queue: queue.end, default=None)
        return None if queue is None else queue.last_unit()

    def put_round(self, entries: Iterable[Entry]) -> int:
        """Put the units of records that follow each other; see `engine.Queues.put_round`."""
        return runs.put(entries, self._queue_for, self._put)

    def put_batch(self, batch: UnitBatch, step: Step = unwatched) -> int:
        """Put the units of a batch; see `engine.Queues.put_batch`."""
        return self._put(batch.runs(self._queue_for, step))

    def _queue_for(self, key: QueueKey) -> FileQueue | BatchQueue:
        return self.by_key.get(key) or self._make(*key)

    def _put(self, found: Iterable[Run[FileQueue | BatchQueue]]) -> int:
        """Write what queues lack; return how many units that is."""
        count = 0
        for run in found:
            self._dirty[run.queue] = None
            count += run.queue.append(run)
        return count

    def fill_to(self, topic: str, queue_id: int, offset: int) -> int:
        """Put fillers for messages that are lost; see `engine.Queues.fill_to`."""
        queue = self.by_key.get((topic, queue_id))
        if queue is None:
            return 0
        self._dirty[queue] = None
        return queue.fill_to(offset)

    def begin(self, topic: str, queue_id: int, offset: int) -> None:
        """Make an empty queue that goes on at `offset`; do nothing if it is there."""
        if (topic, queue_id) not in self.by_key:
            queue = self._make(topic, queue_id)
            queue.begin(offset)
            self._dirty[queue] = None

    def correct_min(self, min_physical: PhysicalOffset, step: Step = unwatched) -> None:
        """Raise each queue's minimum to the first message that the log still has."""
        for queue in self._watched(step, "queues whose first message was looked for"):
            queue.correct_min(min_physical)

    def between(
        self, topics: Container[str], start: PhysicalOffset, end: PhysicalOffset
    ) -> Iterator[Callable[[], bool]]:
        """Return questions; see `engine.Queues`."""
        for part in in_steps(q for q in self.by_key.values() if q.topic in topics):
            yield partial(_any_between, [queue.copy() for queue in part], start, end)

    def clean_steps(self, min_physical: PhysicalOffset) -> Steps:
        """Raise each queue's minimum to what the log still has; delete files that lie before it.

        The newest file of a queue stays: it says where the queue goes on.
        """
        for part in in_steps(self.by_key.values()):
            minima = yield partial(_minima, [queue.copy() for queue in part], min_physical)
            for queue, min_offset in zip(part, minima, strict=True):
                yield from queue.clean_steps(min_offset)

    def truncate(
        self, physical_offset: PhysicalOffset, step: Step = unwatched
    ) -> dict[QueueKey, LastUnit]:
        """Take away the units of messages at `physical_offset` or later; return the last ones."""
        lasts = {}
        for queue in self._watched(step, "queues cut"):
            last = queue.truncate(physical_offset)
            if last is not None:
                self._dirty[queue] = None
                lasts[queue.topic, queue.queue_id] = last
        return lasts

    def wipe_behind_ends(self, step: Step = unwatched) -> None:
        """Zero what lies behind the end of each queue; see `FileQueue.wipe_behind_end`."""
        for queue in self._watched(step, "queues whose ends were wiped"):
            if queue.wipe_behind_end():
                self._dirty[queue] = None

    def _watched(self, step: Step, what: str) -> Iterator[FileQueue | BatchQueue]:
        """Give every queue, telling how far it is."""
        for number, queue in enumerate(self.by_key.values()):
            step(what, number, len(self.by_key))
            yield queue

    def remove(self, topic: str, queue_id: int) -> None:
        """Delete a queue with its files."""
        queue = self.by_key.pop((topic, queue_id), None)
        if queue is not None:
            self._dirty.pop(queue, None)
            _close(queue)
            for files in queue.all_files:
                self._disk.remove_tree(files.folder)

    def hide_topic(self, topic: str) -> None:
        """Forget the queues of a topic; see `engine.Queues.hide_topic`."""
        for key in [key for key in self.by_key if key[0] == topic]:
            del self.by_key[key]

    def delete_topic(self, topic: str) -> Callable[[], None] | None:
        """Delete all queues of a topic; see `engine.Queues.delete_topic`.

        Their folders are moved away, so that new ones can be made at once. Durable on return.
        """
        for key in [key for key in self.by_key if key[0] == topic]:
            queue = self.by_key.pop(key)
            self._dirty.pop(queue, None)
            _close(queue)
        if self._others is not None:
            self._others.batch_topics.discard(topic)
        return move_away(self._disk, self._folders, check_topic(topic), trash(self._folder))

    def take_batches(self, topic: str) -> None:
        """Give a topic that has no queue yet batch queues. Durable on return.

        Its folder says so after a crash, before any of its queues is there.
        """
        assert self._others is not None, "a store that is written to knows its other kinds"
        self._others.batch_topics.add(topic)
        self._disk.make_folder(f"{self._others.batch_folder}/{check_topic(topic)}")

    def flush(self) -> None:
        """Do `flush_steps` here and now; what a crash left first, all of it by one call."""
        if self._is_unsure:
            for folder in filter(self._disk.is_folder, self._folders):
                self._disk.sync_tree(folder)
                self._disk.sync_folder(os.path.dirname(folder))
            for queue in self._dirty:
                for files in queue.all_files:
                    files.take_unsynced()
            self._dirty.clear()
            self._is_unsure = False
        steps.run(self.flush_steps())

    def flush_steps(self) -> Steps:
        """Make durable every unit that was put before this begins; see `engine.Queues`."""
        for part in in_steps(self._dirty):
            taken = [(files, files.take_unsynced()) for q in part for files in q.all_files]
            for queue in part:
                self._dirty.pop(queue, None)
            try:
                yield partial(sync_all, self._disk, [unsynced for _, unsynced in taken])
            except BaseException:
                self._dirty.update(dict.fromkeys(part))
                for files, unsynced in taken:
                    files.give_back(unsynced)
                raise

    def seal(self) -> None:
        """Flush, then note where each queue ends."""
        self.flush()
        if self._note is not None:
            note: _Note = {}
            for (topic, queue_id), queue in self.by_key.items():
                if isinstance(queue, FileQueue):
                    note.setdefault(topic, {})[queue_id] = queue.ends()
            content = msgspec.json.encode(note)
            replace_file(self._disk, self._note, b"%d\n%b" % (crc32(content), content))

    def close(self) -> None:
        """Close every handle; nothing is flushed."""
        for queue in self.by_key.values():
            _close(queue)


def _close(queue: FileQueue | BatchQueue) -> None:
    for files in queue.all_files:
        files.close()


def _is_queue_id(name: str) -> bool:
    return name.isascii() and name.isdigit() and name == str(int(name))


def _minima(
    copies: Iterable[FileQueue | BatchQueue], min_physical: PhysicalOffset
) -> list[QueueOffset]:
    """Return the first offset of each queue whose message the log still has."""
    minima = []
    for queue in copies:
        try:
            queue.correct_min(min_physical)
            minima.append(queue.min_offset)
        finally:
            _close(queue)
    return minima


def _any_between(
    copies: Iterable[FileQueue | BatchQueue], start: PhysicalOffset, end: PhysicalOffset
) -> bool:
    """Return whether a queue has a message in a part of the log."""
    for queue in copies:
        try:
            queue.correct_min(start)
            first = queue.min_offset
            if first < queue.max_offset and start <= queue.unit(first)[0] < end:
                return True
        finally:
            _close(queue)
    return False
