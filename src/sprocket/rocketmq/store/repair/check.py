"""Checking a store: reports each broken rule of its files, and changes nothing.

The log is read once, in rounds; queues and index are compared along the way (`agreement`), so
memory is limited by a round and by the number of findings. `Rule` lists what is checked. If a store
is open or was not closed, its latest moments are not checked: a broker may not have finished them.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial

from sprocket.base.disk import Disk, OpenFiles, SegmentFiles, read_file
from sprocket.base.errors import DiskFailed, FileMissing, WireError
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.geometry import Geometry, QueueGeometry
from sprocket.rocketmq.store import clean_note, committed_offsets, topic_table
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.agreement import (
    BatchCheck,
    CheckedLog,
    Finding,
    IndexCheck,
    LogCheck,
    QueueCheck,
    Rule,
    StoredUnits,
    UnitCheck,
    UnitFiles,
    Units,
    log_segments,
    queues_in,
)
from sprocket.rocketmq.store.clean_note import CleanNote
from sprocket.rocketmq.store.layout import StoreLayout, require_store
from sprocket.rocketmq.store.queue import (
    Extension,
    QueueFiles,
    QueueKey,
    Queues,
    UnitAssigner,
    engines,
)
from sprocket.rocketmq.store.recovery import CHECKPOINT_BYTES, Deletions, load_to_read

_CHECKPOINT_FIELDS = 5


def is_open(disk: Disk, folder: str) -> bool:
    """Say whether a store is open, or was not closed the last time."""
    return disk.exists(StoreLayout(folder).abort)


def check(
    disk: Disk, folder: str, geometry: Geometry | None = None, *, step: Step = unwatched
) -> Iterator[Finding]:
    """Give what is wrong with a store, as it is found.

    Args:
        disk: Where it lies.
        folder: Its folder.
        geometry: Sizes of its files; None takes those it was made with.
        step: Is told how many bytes of the log of how many are done.

    Raises:
        ForeignStore: The folder holds no store, or one whose geometry cannot be told.
        DiskFailed: A folder or a file cannot be looked into; what is in files is told instead.
    Cost: the log is read once, with all checksums; queues and index are read once.
    """
    layout = require_store(disk, folder)
    settled = geometries.settle(disk, layout, geometry)
    segments, findings = log_segments(disk, layout.commitlog, settled.log.segment_bytes)
    yield from findings
    progress = partial(step, "checking")
    log = LogCheck(segments, is_open=is_open(disk, folder), progress=progress)
    offsets = committed_offsets.read_sound(
        disk, layout
    )  # before the log, which goes on if a broker runs
    with closing(log), closing(StoredQueues(disk, layout, settled.queue)) as stored:
        yield from _check_messages(disk, layout, settled, log, stored)
        yield from offset_findings(layout, offsets, log.next_offsets, stored)
    yield from checkpoint_findings(disk, layout.checkpoint)
    yield from table_findings(disk, layout)


class StoredQueues:
    """The queues of a store, as they are on its disk.

    Args:
        disk: Where the store lies.
        layout: Its paths.
        geometry: Sizes of the files of its queues.
    """

    def __init__(self, disk: Disk, layout: StoreLayout, geometry: QueueGeometry) -> None:
        self._disk = disk
        self._layout = layout
        self._geometry = geometry
        self._open_files = OpenFiles()
        self._extensions: list[Extension] = []
        self._engine: Queues | None = None

    def take_up(self, findings: list[Finding]) -> Iterator[tuple[QueueKey, Units]]:
        """Give every queue.

        Args:
            findings: Gets what is wrong with names and lengths of files.
        """
        if self._geometry.engine != "files":
            for key, queue in self._loaded().by_key.items():
                yield key, StoredUnits(queue, self._folder(key))
            return
        folder, size = self._layout.consumequeue, self._geometry.file_bytes
        for key, path, segments in queues_in(self._disk, folder, size, findings):
            yield key, UnitFiles(path, segments, extension=self._extension(key))

    def units(self, key: QueueKey) -> Units:
        """Return what there is of one queue, without a look at the others where they are files."""
        if self._geometry.engine != "files":
            queue = self._loaded().by_key.get(key)
            return self.absent(key) if queue is None else StoredUnits(queue, self._folder(key))
        topic, queue_id = key
        if "/" in topic or topic in ("", ".", "..") or queue_id < 0:
            return self.absent(key)  # such a folder is no queue's
        segments, _wrong = log_segments(self._disk, self._folder(key), self._geometry.file_bytes)
        return UnitFiles(self._folder(key), segments, extension=self._extension(key))

    def absent(self, key: QueueKey) -> Units:
        """Return what there is of a queue that is not there."""
        return UnitFiles(self._folder(key))

    def _loaded(self) -> Queues:
        """Return the queues of an engine that has no files of its own for each."""
        if self._engine is None:
            self._engine = engines.make(self._disk, self._layout, self._geometry, write=False)
            names = [name for name in self._disk.list(self._layout.commitlog) if name.isdigit()]
            first = int(names[0]) if names else 0
            load_to_read(self._engine, Deletions(self._disk, self._layout, write=False), first)
        return self._engine

    def _folder(self, key: QueueKey) -> str:
        return f"{self._layout.consumequeue}/{key[0]}/{key[1]}"

    def _extension(self, key: QueueKey) -> Extension | None:
        folder = f"{self._layout.extension}/{key[0]}/{key[1]}"
        if not self._disk.is_folder(folder):
            return None
        size, opened = self._geometry.extension_bytes, self._open_files
        files = QueueFiles(SegmentFiles(self._disk, folder, size, write=False, open_files=opened))
        extension = Extension(files)
        files.load()
        extension.end = files.end
        self._extensions.append(extension)
        return extension

    def close(self) -> None:
        """Close what was opened."""
        if self._engine is not None:
            self._engine.close()
        for extension in self._extensions:
            extension.files.close()


def _check_messages(
    disk: Disk, layout: StoreLayout, geometry: Geometry, log: LogCheck, stored: StoredQueues
) -> Iterator[Finding]:
    """Walk over the log, and hold queues and index against it."""
    note = closing_note(disk, layout)
    batches = BatchCheck(disk, layout.batch_queues, geometry.queue, log)
    queues = QueueCheck(
        log,
        lambda key: None if key[0] in batches.topics else stored.absent(key),
        topics=known_topics(disk, layout),
    )
    assigner = UnitAssigner(deleted=Deletions(disk, layout, write=False).ends)
    units = UnitCheck(log.entry_at, queues.units, assigner)
    is_off = note is not None and note.index_end < 0
    index = IndexCheck(disk, layout.index, geometry.index, log, is_off=is_off)
    failed: set[object] = set()

    def guarded(part: object, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Give what a part finds, up to a file that cannot be read; no more of the part then."""
        try:
            if part not in failed:
                yield from findings
        except FileMissing:
            raise
        except DiskFailed as error:
            failed.add(part)
            yield unread(error.path, error, "; no other file of its kind is looked at")

    def told() -> Iterator[Finding]:
        """Give what is wrong with the log, once."""
        yield from log.findings
        log.findings.clear()

    def started() -> Iterator[Finding]:
        """Take up the queues."""
        findings: list[Finding] = []
        for key, units in stored.take_up(findings):
            queues.add(key, units)
        yield from findings

    def in_queues(found: RecordBatch) -> Iterator[Finding]:
        """Check the units of some records."""
        for key, run, findings in units.runs(found):
            yield from queues.take(key, run)
            yield from findings

    yield from guarded(queues, started())
    yield from guarded(batches, batches.start())
    yield from guarded(index, index.start())
    for found in log.rounds():
        yield from told()
        yield from guarded(queues, in_queues(found))
        yield from guarded(batches, batches.take(found))
        yield from guarded(index, index.take(found))
    yield from told()
    yield from short_log(note, log, log.where(log.end))
    yield from guarded(queues, queues.finish())
    yield from guarded(batches, batches.finish())
    yield from guarded(index, index.finish())


def short_log(note: CleanNote | None, log: CheckedLog, where: tuple[str, int]) -> Iterator[Finding]:
    """Give what is wrong if a log does not reach as far as it did when it was closed.

    Args:
        note: What the stop left.
        log: The log, walked over to its end.
        where: The file that has the end, and the position in it.
    """
    if note is not None and not log.is_open and note.log_end > log.end:
        expected = f"records up to {note.log_end}, where the log was closed"
        yield Finding(Rule.LOG_RECORD, *where, expected, f"its end at {log.end}", log.end)


def unread(path: str, error: DiskFailed, more: str = "") -> Finding:
    """Return what a file that cannot be read is told as."""
    return Finding(Rule.FILE_READ, path, 0, "what was written", f"{error}{more}")


def closing_note(disk: Disk, layout: StoreLayout) -> CleanNote | None:
    """Return what the last clean stop of ours left."""
    try:
        return clean_note.decode(read_file(disk, layout.clean))
    except DiskFailed:
        return None  # what cannot be read is told with the other tables


def known_topics(disk: Disk, layout: StoreLayout) -> frozenset[str] | None:
    """Return the names in the table of topics, None if there is none that can be read."""
    found = topic_table.read(disk, layout)
    return None if found is None else frozenset(found)


def offset_findings(
    layout: StoreLayout,
    offsets: Mapping[str, Mapping[int, int]],
    next_offsets: Mapping[QueueKey, int],
    stored: StoredQueues,
) -> Iterator[Finding]:
    """Give the committed offsets that lie behind the ends of their queues.

    Args:
        layout: Whose they are.
        offsets: By `topic@group` and queue.
        next_offsets: Where queues end of which the log has a record.
        stored: Says where the others end.
    """

    def end_of(topic: str, queue_id: int) -> int:
        end = next_offsets.get((topic, queue_id))
        return stored.units((topic, queue_id)).data_end() if end is None else end

    for one in committed_offsets.beyond_ends(offsets, end_of):
        expected = f"at most {one.end} for {one.group} in {one.topic}/{one.queue_id}"
        yield Finding(Rule.OFFSET_BEYOND, layout.consumer_offsets, 0, expected, str(one.offset))


def checkpoint_findings(disk: Disk, path: str) -> Iterator[Finding]:
    """Give what is wrong with the checkpoint, which need not be there."""
    try:
        data = read_file(disk, path)
    except FileMissing:
        return
    except DiskFailed as error:
        yield unread(path, error)
        return
    fields = [
        int.from_bytes(data[at : at + 8], "big", signed=True)
        for at in range(0, min(len(data), 8 * _CHECKPOINT_FIELDS), 8)
    ]
    for number, value in enumerate(fields):
        if value < 0:
            yield Finding(Rule.CHECKPOINT, path, 8 * number, "a time or a place", str(value))
    rest = data[8 * _CHECKPOINT_FIELDS :]
    if len(data) != CHECKPOINT_BYTES or any(rest):
        zeros = len(rest) - len(rest.lstrip(b"\0"))
        position = min(len(data), 8 * _CHECKPOINT_FIELDS + zeros)
        expected = f"{CHECKPOINT_BYTES} bytes, zeros behind the fifth number"
        found = f"{len(data)} bytes" + (", others than zeros" if any(rest) else "")
        yield Finding(Rule.CHECKPOINT, path, position, expected, found)


def table_findings(disk: Disk, layout: StoreLayout) -> Iterator[Finding]:
    """Read every table of the configuration, the old ones too; an empty one counts as missing."""
    for name in disk.list(layout.config):
        path = f"{layout.config}/{name}"
        is_table = name.removesuffix(".bak").endswith(".json") and path != layout.queue_ends
        if not is_table or disk.is_folder(path):
            continue
        try:
            data = read_file(disk, path)
            if data and not isinstance(fastjson.read_large(data), dict):
                raise WireError("a JSON object was expected")
        except WireError as error:
            yield Finding(Rule.CONFIG, path, 0, "a table", str(error))
        except FileMissing:
            continue  # a broker replaced it just now
        except DiskFailed as error:
            yield unread(path, error)
