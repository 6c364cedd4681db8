"""Checking a store: reports each broken rule of its files, and changes nothing.

The log is read once, in rounds; queues and index are compared along the way (`agreement`), so
memory is limited by a round and by the number of findings. `Rule` lists what is checked. If a store
is open or was not closed, its latest moments are not checked: a broker may not have finished them.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import msgspec

from sprocket.base.disk import Disk, OpenFiles, SegmentFiles, read_file
from sprocket.base.errors import DiskFailed, FileMissing, ForeignStore, WireError
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.geometry import Geometry, QueueGeometry
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store import topic_table
from sprocket.rocketmq.store.agreement import (
    BatchCheck,
    Finding,
    IndexCheck,
    LogCheck,
    QueueCheck,
    Rule,
    StoredUnits,
    UnitFiles,
    Units,
    log_segments,
    queues_in,
)
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import (
    Extension,
    QueueFiles,
    QueueKey,
    Queues,
    UnitAssigner,
    engines,
)
from sprocket.rocketmq.store.recovery import CHECKPOINT_BYTES, CleanNote, Deletions

_CHECKPOINT_FIELDS = 5


def is_open(disk: Disk, folder: str) -> bool:
    """Say whether a store is open, or was not closed the last time."""
    return disk.exists(StoreLayout(folder).abort)


def check(
    disk: Disk,
    folder: str,
    geometry: Geometry | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Finding]:
    """Give what is wrong with a store, as it is found.

    Args:
        disk: Where it lies.
        folder: Its folder.
        geometry: Sizes of its files; None takes those it was made with.
        progress: Is told how many bytes of the log of how many are done.

    Raises:
        ForeignStore: The folder holds no store, or one whose geometry cannot be told.
        DiskFailed: A folder or a file cannot be looked into; what is in files is told instead.
    Cost: the log is read once, with all checksums; queues and index are read once.
    """
    layout = StoreLayout(folder)
    if not disk.is_folder(layout.commitlog):
        raise ForeignStore(f"{folder}: there is no store, {layout.commitlog} is missing")
    settled = geometries.settle(disk, layout, geometry)
    segments, findings = log_segments(disk, layout.commitlog, settled.log.segment_bytes)
    yield from findings
    log = LogCheck(segments, is_open=is_open(disk, folder), progress=progress)
    with closing(log), closing(_StoredQueues(disk, layout, settled.queue)) as stored:
        yield from _check_messages(disk, layout, settled, log, stored)
    yield from _check_checkpoint(disk, layout.checkpoint)
    yield from _check_tables(disk, layout)


class _StoredQueues:
    """The queues of a store, as they are on its disk."""

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
            self._engine = engines.make(self._disk, self._layout, self._geometry, write=False)
            self._engine.load(clean=True)
            for key, queue in self._engine.by_key.items():
                yield key, StoredUnits(queue, self._folder(key))
            return
        folder, size = self._layout.consumequeue, self._geometry.file_bytes
        for key, path, segments in queues_in(self._disk, folder, size, findings):
            yield key, UnitFiles(path, segments, extension=self._extension(key))

    def absent(self, key: QueueKey) -> Units:
        """Return what there is of a queue that is not there."""
        return UnitFiles(self._folder(key))

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
    disk: Disk, layout: StoreLayout, geometry: Geometry, log: LogCheck, stored: _StoredQueues
) -> Iterator[Finding]:
    """Walk over the log, and hold queues and index against it."""
    note = _note(disk, layout)
    batches = BatchCheck(disk, layout.batch_queues, geometry.queue, log)
    queues = QueueCheck(
        log,
        lambda key: None if key[0] in batches.topics else stored.absent(key),
        UnitAssigner(deleted=Deletions(disk, layout, write=False).ends),
        topics=_topics(disk, layout),
    )
    is_off = note is not None and note.index_end < 0
    index = IndexCheck(disk, layout.index, geometry.index, log, is_off=is_off)
    parts: tuple[QueueCheck | BatchCheck | IndexCheck, ...] = (queues, batches, index)
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
            yield _unread(error.path, error, "; no other file of its kind is looked at")

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

    yield from guarded(queues, started())
    yield from guarded(batches, batches.start())
    yield from guarded(index, index.start())
    for found in log.rounds():
        yield from told()
        for part in parts:
            yield from guarded(part, part.take(found))
    yield from told()
    if note is not None and not log.is_open and note.log_end > log.end:
        expected = f"records up to {note.log_end}, where the log was closed"
        end = f"its end at {log.end}"
        yield Finding(Rule.LOG_RECORD, *log.where(log.end), expected, end, log.end)
    for part in parts:
        yield from guarded(part, part.finish())


def _unread(path: str, error: DiskFailed, more: str = "") -> Finding:
    return Finding(Rule.FILE_READ, path, 0, "what was written", f"{error}{more}")


def _note(disk: Disk, layout: StoreLayout) -> CleanNote | None:
    """Return what the last clean stop of ours left."""
    try:
        return msgspec.json.decode(read_file(disk, layout.clean), type=CleanNote)
    except (DiskFailed, msgspec.DecodeError, UnicodeDecodeError):
        return None  # what cannot be read is told with the other tables


def _topics(disk: Disk, layout: StoreLayout) -> frozenset[str] | None:
    """Return the names in the table of topics, None if there is none that can be read."""
    found = topic_table.read(disk, layout)
    return None if found is None else frozenset(found)


def _check_checkpoint(disk: Disk, path: str) -> Iterator[Finding]:
    try:
        data = read_file(disk, path)
    except FileMissing:
        return
    except DiskFailed as error:
        yield _unread(path, error)
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


def _check_tables(disk: Disk, layout: StoreLayout) -> Iterator[Finding]:
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
            yield _unread(path, error)
