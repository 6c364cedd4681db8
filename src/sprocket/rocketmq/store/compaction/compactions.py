"""All compaction topics of a store: what is kept of them beside their queues.

A topic with the attribute `cleanup.policy=COMPACTION` has queues like any other. Beside each is a
compacted queue, a copy that loses what newer messages of the same key replace, and stays when the
log is cleaned. The life of a message:

    log, queue → following: copied, synced → rounds: kept, or replaced → swap
                  ↓
    reader: what is copied is read there, what is not yet in queue and log

Until it is copied it holds the log (`safe_end`), so that no step of retention takes a message that
is nowhere else. All of this is derived as long as the log has it, and the only place of a last
value afterwards. So it is never thrown away to be made again, as queues are: `loading` takes up
what a crash left of it.

Threads: one; what may wait for the disk is given as steps.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from sprocket.base import log
from sprocket.base.disk import Disk, OpenFiles, SegmentFiles, Steps
from sprocket.base.errors import (
    DiskFailed,
    DiskRefused,
    FileMissing,
    MessageTooLarge,
    OffsetTooLarge,
    OffsetTooSmall,
    StoreError,
)
from sprocket.rocketmq.codec.record import keyed
from sprocket.rocketmq.geometry import CompactionGeometry
from sprocket.rocketmq.store.compaction import following, loading, positions, rounds
from sprocket.rocketmq.store.compaction.compacted_file import CompactedFile, units_of
from sprocket.rocketmq.store.compaction.compacted_queue import CompactedQueue
from sprocket.rocketmq.store.compaction.loading import LastEnd
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.compaction.rounds import RoundReport
from sprocket.rocketmq.store.layout import StoreLayout, check_topic, trash
from sprocket.rocketmq.store.queue import (
    FILLER_SIZE,
    FILLERS_MAX,
    Queue,
    QueueKey,
    Queues,
    move_away,
)
from sprocket.rocketmq.store.read import LogReader

PARTS_MAX = 16
"""Parts that one call of `follow_steps` copies; upkeep goes on then, and the rest follows."""
READ_TRIES_MAX = 60
"""How often a message is tried that the disk does not read, once a second; the log is kept
meanwhile."""
OPEN_FILES_MAX = 64
"""Files that all compacted queues have open together."""

_log = log.get_logger(__name__)


class Compactions:
    """See the head of the module.

    Args:
        disk: Where the store lies.
        layout: Its paths.
        geometry: Lengths of the files.
        write: Whether anything may be changed on the disk.

    Attributes:
        topics: Those that are compacted.
        by_key: What is kept of each of their queues, if anything.
    """

    def __init__(
        self, disk: Disk, layout: StoreLayout, geometry: CompactionGeometry, *, write: bool
    ) -> None:
        self.topics: set[str] = set()
        self.by_key: dict[QueueKey, CompactedQueue] = {}
        self._disk = disk
        self._layout = layout
        self._geometry = geometry
        self._write = write
        self._open_files = OpenFiles(OPEN_FILES_MAX)
        self._sources: dict[QueueKey, Queue] = {}
        self._sources_of = -1  # so many queues there were when these were looked for

    # Opening.

    def load(self, topics: Iterable[str], last: LastEnd) -> None:
        """Take up what is kept of topics, before anything else of the store changes.

        Raises:
            ForeignStore: A file has another length than the geometry says.
            DiskFull, DiskRefused: It can be tried again.
        """
        if self._write:
            self._disk.remove_tree(trash(self._layout.compaction))
        at = positions.read(self._disk, self._layout)
        for topic in sorted(topics):
            self.topics.add(topic)
            folder = f"{self._layout.compaction_log}/{check_topic(topic)}"
            for name in self._disk.folders(folder):
                if not (name.isascii() and name.isdigit() and name == str(int(name))):
                    continue
                queue = self._make((topic, int(name)))
                try:
                    queue.files = self._loaded(queue, last)
                except (FileMissing, DiskRefused):
                    raise
                except DiskFailed as error:
                    queue.unreadable = queue.refusal = str(error)
                    _log.error(
                        "what was kept of a queue cannot be read",
                        topic=topic,
                        queue=queue.queue_id,
                        why=queue.refusal,
                    )
                queue.followed_to = queue.max_offset
                queue.position = min(at.get(positions.name_of(queue.key), -1), queue.max_offset - 1)

    def _loaded(self, queue: CompactedQueue, last: LastEnd) -> list[CompactedFile]:
        if self._write:
            return loading.load(self._disk, queue.folders, queue.key, last)
        return loading.load_to_read(self._disk, queue.folders, queue.key)

    def agree_with(self, queues: Queues, read: LogReader, deleted: Iterable[str]) -> None:
        """Bring what is kept and the queues into agreement, once both were taken up.

        What is kept of other messages than a queue has at the same offsets, or of a topic whose
        deletion a crash cut off, is removed. A queue that ends before what is kept goes on behind
        it: the end of the log is lost, and its offsets are taken.
        """
        for topic in deleted:
            is_old = not any(name == topic for name, _ in queues.by_key)
            if is_old and self._write:
                remove = self.delete_topic(topic)
                if remove is not None:
                    remove()
        for key, kept in [*self.by_key.items()]:
            source = queues.by_key.get(key)
            if source is not None and not self._is_of(kept, source, read):
                _log.warning("what was kept is of another topic", topic=key[0], queue=key[1])
                self._drop(kept)
            elif self._write and kept.files:
                ahead = kept.max_offset - (0 if source is None else source.max_offset)
                if source is not None and ahead > FILLERS_MAX:
                    kept.unreadable = kept.refusal = f"{key[0]}/{key[1]}: {ahead} messages ahead"
                    _log.error("what is kept does not fit its queue", why=kept.refusal)
                elif source is None:
                    queues.begin(*key, kept.max_offset)
                elif source.max_offset < kept.max_offset:
                    queues.fill_to(*key, kept.max_offset)

    def cut(self, queues: Queues) -> None:
        """Forget what is kept behind the ends of queues, whose log was cut; before `agree_with`.

        A queue that the log has from its beginning is copied anew. Of another one only that part is
        removed; if a round has seen it, older values that it replaced are gone, which is reported.
        """
        for key, kept in [*self.by_key.items()]:
            source = queues.by_key.get(key)
            end = 0 if source is None else source.max_offset
            if not kept.files or kept.max_offset <= end:
                continue
            if source is None or source.min_offset <= kept.files[0].first:
                self._drop(kept)
                continue
            if kept.position >= end:
                _log.error(
                    "values that were compacted away by messages which were cut off are lost",
                    topic=key[0],
                    queue=key[1],
                    compacted_to=kept.position,
                    end=end,
                )
            kept.close()
            kept.files = loading.cut(self._disk, kept.folders, kept.files, end)
            kept.followed_to = end
            kept.position = min(kept.position, end - 1)

    def _is_of(self, kept: CompactedQueue, source: Queue, read: LogReader) -> bool:
        """Say whether the last message that both have is the same, as far as it can be read."""
        own = kept.last_unit_before(source.max_offset)
        if own is None or own[0] < source.min_offset:
            return True
        try:
            _, place, size, _, _ = source.units(own[0], 1)[0]
            if size == FILLER_SIZE:
                return True
            return keyed.is_same(kept.slice(own[1], own[2]), read.slice(place, size))
        except (OffsetTooSmall, OffsetTooLarge, DiskFailed):
            return True

    def _drop(self, kept: CompactedQueue) -> None:
        """Remove what is kept of one queue."""
        del self.by_key[kept.key]
        kept.close()
        if self._write:
            layout, topic = self._layout, kept.topic
            folders = (f"{layout.compaction_units}/{topic}", f"{layout.compaction_log}/{topic}")
            name = str(kept.queue_id)
            remove = move_away(self._disk, folders, name, trash(layout.compaction))
            if remove is not None:
                remove()

    def _make(self, key: QueueKey) -> CompactedQueue:
        folders = QueueFolders.of(self._layout, self._geometry, key)
        queue = CompactedQueue(
            self._disk, key, folders, self._open_files, makes_at_once=not self._write
        )
        self.by_key[key] = queue
        return queue

    # Topics.

    def take_topic(self, topic: str) -> None:
        """Have a topic compacted from now on.

        Raises:
            CorruptRecord: It cannot be a folder's name.
            DiskFull, DiskFailed: It is not compacted.
        """
        if topic in self.topics:
            return
        remove = self.delete_topic(topic)  # what RocketMQ left of another one
        if remove is not None:
            remove()
        self.topics.add(topic)

    def delete_topic(self, topic: str) -> Callable[[], None] | None:
        """Forget what is kept of a topic, so that one of its name begins anew.

        Returns:
            What removes the files, on any thread; None if there are none.
        Durability: on the disk on return.
        """
        for key in [key for key in self.by_key if key[0] == topic]:
            queue = self.by_key.pop(key)
            queue.is_dropped = True
            queue.close()
        self.topics.discard(topic)
        self._sources_of = -1
        layout = self._layout
        folders = (layout.compaction_units, layout.compaction_log)
        return move_away(self._disk, folders, check_topic(topic), trash(layout.compaction))

    # Following.

    def _find_sources(self, queues: Queues) -> Mapping[QueueKey, Queue]:
        """Return the queues of compaction topics; all queues are looked at when one is new."""
        if self._sources_of != len(queues.by_key):
            self._sources_of = len(queues.by_key)
            topics = self.topics
            self._sources = {k: q for k, q in queues.by_key.items() if k[0] in topics}
        return self._sources

    def is_behind(self, queues: Queues) -> bool:
        """Say whether there are messages that are not copied."""
        return bool(self.topics) and any(
            source.max_offset > self._followed_to(key)
            for key, source in self._find_sources(queues).items()
        )

    def _followed_to(self, key: QueueKey) -> int:
        kept = self.by_key.get(key)
        return 0 if kept is None else kept.followed_to

    def follow_steps(
        self, queues: Queues, files: SegmentFiles, synced: int, parts_max: int = PARTS_MAX
    ) -> Steps:
        """Copy new messages.

        Args:
            queues: Of the store.
            files: Of its log.
            synced: Up to where the disk has that.
            parts_max: How many parts at most.

        Raises:
            DiskFull, DiskFailed: Some are copied; the next call goes on.
        """
        if not self.topics:
            return
        yield from self._unit_steps()
        for key, source in [*self._find_sources(queues).items()]:
            while source.max_offset > self._followed_to(key) and parts_max > 0:
                kept = self.by_key.get(key) or self._make(key)
                if kept.refusal is not None:
                    break
                part = following.next_part(kept, source, files, synced)
                if part is None:
                    break
                parts_max -= 1
                try:
                    copied = yield partial(following.copy, self._disk, part)
                except MessageTooLarge as error:
                    kept.refusal = str(error)
                    _log.error(
                        "a queue is not compacted any more, and holds the log",
                        topic=key[0],
                        queue=key[1],
                        why=kept.refusal,
                    )
                    break
                if copied.left_out:
                    _log.warning(
                        "messages are damaged, or have no key, and are not kept",
                        topic=key[0],
                        queue=key[1],
                        count=copied.left_out,
                    )
                kept.take_copied(copied.files, copied.followed_to)
                if copied.unread is not None:
                    self._note_unread(kept, copied.unread.offset)
                    break

    def _note_unread(self, kept: CompactedQueue, offset: int) -> None:
        """Take note that the disk did not read a message; it is passed over after many tries."""
        _, tries = kept.unread if kept.unread[0] == offset else (offset, 0)
        kept.unread = offset, tries + 1
        if tries + 1 >= READ_TRIES_MAX:
            kept.followed_to = offset + 1
        if tries in (0, READ_TRIES_MAX - 1):
            _log.error(
                "a message of a compaction topic cannot be read"
                + (", and is not kept" if tries else "; trying again"),
                topic=kept.topic,
                queue=kept.queue_id,
                offset=offset,
            )

    def _unit_steps(self) -> Steps:
        """Make units again that readers have found to be damaged."""
        for queue in [one for one in self.by_key.values() if one.damaged]:
            for file in [one for one in queue.files if one.start in queue.damaged]:
                units = yield partial(units_of, self._disk, queue.folders, queue.key, file)
                if file in queue.files:
                    queue.take_units(file, units)
            queue.damaged.clear()

    def safe_end(self, queues: Queues) -> int:
        """Return up to where the log may go: what lies behind is not all copied."""
        end: int = 1 << 62
        for key, source in self._find_sources(queues).items() if self.topics else ():
            offset = max(self._followed_to(key), source.min_offset)
            if offset < source.max_offset:
                try:
                    _, place, size, _, _ = source.units(offset, 1)[0]
                except OffsetTooSmall:
                    continue
                end = min(end, 0 if size == FILLER_SIZE else place)
        return end

    # Rounds.

    def round_steps(self, keys_bytes_max: int) -> Steps:
        """Compact each queue that has something to compact, one after the other.

        Beside `follow_steps` and all else; not beside itself.

        Args:
            keys_bytes_max: Memory for the keys of one queue.

        Raises:
            StoreError: Of the last queue that could not be compacted, which is as it was.
        """
        failed: StoreError | None = None
        for queue in [*self.by_key.values()]:
            if queue.is_dropped or queue.unreadable or not rounds.is_due(queue):
                continue
            report = RoundReport()
            try:
                before = queue.position
                yield from rounds.steps(self._disk, queue, keys_bytes_max, report)
                if queue.position > before:
                    yield partial(positions.save, self._disk, self._layout, self._positions())
                    _log.info(
                        "a queue was compacted",
                        topic=queue.topic,
                        queue=queue.queue_id,
                        messages=report.read,
                        kept=report.kept,
                    )
                if report.damaged:
                    _log.error(
                        "damaged messages of a compacted queue were passed over",
                        topic=queue.topic,
                        queue=queue.queue_id,
                        places=report.damaged,
                    )
            except StoreError as error:
                if not queue.is_dropped:
                    failed = error
        if failed is not None:
            raise failed

    def _positions(self) -> dict[str, int]:
        """Return how far all queues are compacted that are, by their names in the file."""
        return {
            positions.name_of(key): queue.position
            for key, queue in self.by_key.items()
            if queue.position >= 0
        }

    def save_positions(self) -> None:
        """Note how far queues are compacted, as RocketMQ wants to know. Durable on return."""
        if self.by_key:
            positions.save(self._disk, self._layout, self._positions())

    def close(self) -> None:
        """Close all files."""
        for queue in self.by_key.values():
            queue.close()
