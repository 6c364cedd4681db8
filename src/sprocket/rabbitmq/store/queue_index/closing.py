"""A clean stop: each queue's journal.jif gets what RabbitMQ's would have, and the log goes.

The order, so that a crash at any moment loses nothing: journals, and names that are missing, are
written and synced; the log says that they count (CLOSED); its files are removed, the oldest first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sprocket.base.disk import Steps, sync_file
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.write_ahead import EntryKind
from sprocket.rabbitmq.store.layout import QueueLayout, VhostLayout
from sprocket.rabbitmq.store.queue_index import sums
from sprocket.rabbitmq.store.queue_index.queue_index import (
    SYNC_EACH_MAX,
    QueueIndex,
    flush_steps,
    write_name,
)
from sprocket.rabbitmq.store.write_ahead import (
    QueueTail,
    WriteAheadContents,
    WriteAheadLog,
    read_log,
)


def close_steps(log: WriteAheadLog, layout: VhostLayout, indexes: Sequence[QueueIndex]) -> Steps:
    """Leave the files of a virtual host's queues as RabbitMQ does when it stops.

    Args:
        log: The virtual host's; it is closed and gone afterwards.
        layout: Its paths.
        indexes: Of all its queues; flushes that have failed are tried again. Void files are gone.

    Raises:
        DiskFull, DiskFailed, StoreFailed: The log is there, and nothing is lost.
    Memory: as much as the log has of records that were not flushed.
    """
    assert not any(one.has_void_files for one in indexes), "what was purged would come back"
    begun = [one for one in indexes if one.is_flushing]
    if begun:
        yield from flush_steps(log, begun)
    yield from log.commit_steps()
    contents = yield lambda: read_log(log.disk, log.folder)
    left = [_Left.of(one, layout, contents) for one in indexes]
    yield lambda: _write(log, layout, left)
    yield from log.end_steps(EntryKind.CLOSED)
    yield log.remove_all


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left to be written of a queue: the end of its journal.jif, and its .queue_name."""

    paths: QueueLayout
    tail: QueueTail
    name: bytes

    @classmethod
    def of(cls, one: QueueIndex, layout: VhostLayout, contents: WriteAheadContents) -> "_Left":
        """Look at what a queue has."""
        folder = one.origin.folder
        return cls(layout.queue(folder), contents.tail(folder), one.missing_name)


def _write(log: WriteAheadLog, layout: VhostLayout, left: Sequence[_Left]) -> None:
    """Put records after what each journal.jif has, and the names that are missing, durably."""
    disk = log.disk
    there = set(disk.folders(layout.queues))
    written: list[_Left] = []
    for one in left:
        paths, tail = one.paths, one.tail
        if tail.records:
            disk.make_folder(paths.root)
            file = disk.open(paths.journal, write=True, create=True)
            try:
                file.resize(tail.journal_bytes)
                file.write(tail.records, tail.journal_bytes)
            finally:
                file.close()
            told = index.index_sum(b"".join(tail.records), tail.journal_bytes, is_segment=False)
            sums.append(disk, paths.journal, [told])
        elif not (one.name and paths.root.rpartition("/")[2] in there):
            continue
        if one.name:
            write_name(disk, paths, one.name)
        written.append(one)
    if len(written) > SYNC_EACH_MAX:
        disk.sync_tree(log.folder)
        return
    for one in written:
        if one.tail.records:
            sync_file(disk, one.paths.journal)
            sync_file(disk, one.paths.sums(one.paths.journal))
        if one.name:
            sync_file(disk, one.paths.name)
        disk.sync_folder(one.paths.root)
