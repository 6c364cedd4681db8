"""A store's folder opened to be looked at: nothing is locked, trusted or changed."""

from collections.abc import Iterator, Mapping

from sprocket.base.disk import Disk, OpenFiles, SegmentFiles, read_file
from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.geometry import Geometry, QueueGeometry
from sprocket.rocketmq.store import clean_note, committed_offsets, topic_table
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.clean_note import CleanNote
from sprocket.rocketmq.store.consistency import (
    BatchCheck,
    CheckedLog,
    Finding,
    IndexCheck,
    IndexFolder,
    IndexRun,
    QueueCheck,
    StoredUnits,
    UnitFiles,
    Units,
    log_segments,
    queues_in,
)
from sprocket.rocketmq.store.layout import StoreLayout, require_store
from sprocket.rocketmq.store.queue import (
    Extension,
    QueueFiles,
    QueueKey,
    Queues,
    UnitAssigner,
    engines,
)
from sprocket.rocketmq.store.recovery import Deletions, load_to_read


class StoreFiles:
    """What there is of a store, and what its small files say.

    Args:
        disk: Where it lies.
        folder: Its folder.
        geometry: Sizes of its files; None takes those it was made with.

    Attributes:
        segments: The files of the log.
        wrong: What is wrong with their names and lengths.
        is_open: The store is open, or was not closed the last time.
        queues: Its queues.
        index: Its index.
        batch_topics: Those that have batch queues.
    """

    def __init__(self, disk: Disk, folder: str, geometry: Geometry | None = None) -> None:
        """Look at the files of the log.

        Raises:
            ForeignStore: The folder holds no store, or one whose geometry cannot be told.
            DiskFailed: A folder cannot be looked into.
        """
        self.disk = disk
        self.layout = require_store(disk, folder)
        self.geometry = geometries.resolve(disk, self.layout, geometry)
        log = self.layout.commitlog
        self.segments, self.wrong = log_segments(disk, log, self.geometry.log.segment_bytes)
        self.is_open = disk.exists(self.layout.abort)
        self.queues = StoredQueues(disk, self.layout, self.geometry.queue)
        self.index = IndexFolder(disk, self.layout.index, self.geometry.index)
        self.batch_topics = frozenset(disk.list(self.layout.batch_queues))

    def queue_check(self, log: CheckedLog) -> QueueCheck:
        """Return what compares runs of units with all queues; see `QueueCheck`."""

        def units_of(key: QueueKey) -> Units | None:
            return None if key[0] in self.batch_topics else self.queues.absent(key)

        return QueueCheck(log, units_of, self.queues.each, topics=self.topics())

    def batch_check(self, log: CheckedLog) -> BatchCheck:
        """Return what compares the batch queues with a log that is scanned."""
        return BatchCheck(self.disk, self.layout.batch_queues, self.geometry.queue, log)

    def index_check(self, log: CheckedLog, before: IndexRun | None = None) -> IndexCheck:
        """Return what compares the index; see `IndexCheck`."""
        return IndexCheck(self.index, log, is_off=self.keeps_no_index(), before=before)

    def note(self) -> CleanNote | None:
        """Return what the last clean stop of ours left."""
        try:
            return clean_note.decode(read_file(self.disk, self.layout.clean))
        except DiskFailed:
            return None  # what cannot be read is told with the other tables

    def keeps_no_index(self) -> bool:
        """Say whether the last clean stop was one of a store that keeps no index."""
        note = self.note()
        return note is not None and note.index_end < 0

    def topics(self) -> frozenset[str] | None:
        """Return the names in the table of topics, None if there is none that can be read."""
        found = topic_table.read(self.disk, self.layout)
        return None if found is None else frozenset(found)

    def offsets(self) -> Mapping[str, Mapping[int, int]]:
        """Return the committed offsets by `topic@group` and queue, as far as they can be read."""
        return committed_offsets.read_sound(self.disk, self.layout)

    def assigner(self) -> UnitAssigner:
        """Return what says which units records get."""
        return UnitAssigner(deleted=Deletions(self.disk, self.layout, write=False).ends)

    def close(self) -> None:
        """Close what was opened."""
        self.queues.close()
        for segment in self.segments:
            segment.release()


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

    def each(self, findings: list[Finding]) -> Iterator[tuple[QueueKey, Units]]:
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
            return self.absent(key)  # such a folder is not a queue's
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
