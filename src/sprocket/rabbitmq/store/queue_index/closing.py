"""A clean stop: each queue's journal.jif gets what RabbitMQ's would have, and the log goes.

The order, so that a crash at any moment loses nothing: journals are written and synced; the log
says that they count (CLOSED); its files are removed, the oldest first.
"""

from collections.abc import Sequence

from sprocket.base.disk import Steps, sync_file
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.write_ahead import EntryKind
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.queue_index import sums
from sprocket.rabbitmq.store.queue_index.queue_index import SYNC_EACH_MAX, QueueIndex, flush_steps
from sprocket.rabbitmq.store.write_ahead import QueueTail, WriteAheadLog, read_log


def close_steps(log: WriteAheadLog, layout: VhostLayout, indexes: Sequence[QueueIndex]) -> Steps:
    """Leave the files of a virtual host's queues as RabbitMQ does when it stops.

    Args:
        log: The virtual host's; it is closed and gone afterwards.
        layout: Its paths.
        indexes: Of all its queues; flushes that have failed are tried again.

    Raises:
        DiskFull, DiskFailed, StoreFailed: The log is there, and nothing is lost.
    Memory: as much as the log has of records that were not flushed.
    """
    begun = [one for one in indexes if one.is_flushing]
    if begun:
        yield from flush_steps(log, begun)
    yield from log.commit_steps()
    contents = yield lambda: read_log(log.disk, log.folder)
    mine = {one.origin.folder for one in indexes}
    tails = {name: one for name, one in contents.tails.items() if one.records and name in mine}
    yield lambda: _write_journals(log, layout, tails)
    yield from log.end_steps(EntryKind.CLOSED)
    yield log.remove_all


def _write_journals(log: WriteAheadLog, layout: VhostLayout, tails: dict[str, QueueTail]) -> None:
    """Put the records behind what each journal.jif has, durably."""
    disk = log.disk
    for folder, tail in tails.items():
        paths = layout.queue(folder)
        disk.make_folder(paths.root)
        file = disk.open(paths.journal, write=True, create=True)
        try:
            file.resize(tail.journal_bytes)
            file.write(tail.records, tail.journal_bytes)
        finally:
            file.close()
        told = index.index_sum(b"".join(tail.records), tail.journal_bytes, is_segment=False)
        sums.append(disk, paths.journal, [told])
    if len(tails) > SYNC_EACH_MAX:
        disk.sync_tree(log.folder)
        return
    for folder in tails:
        paths = layout.queue(folder)
        sync_file(disk, paths.journal)
        sync_file(disk, paths.sums(paths.journal))
        disk.sync_folder(paths.root)
