"""The start after a clean stop of ours: trusted if all that can be checked is right, or not at all.

`sprocket.clean` must be whole and of the same stop as recovery.dets and as what the message store
has left, by their checksums; there must be no log, and the folders must have the files that it
says, of the sizes that it says; each journal.jif must have its checksum. If not, `recovery` looks
at everything.
"""

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, remove_if_there
from sprocket.base.errors import CorruptRecord, FileMissing
from sprocket.base.progress import Step, unwatched
from sprocket.rabbitmq.codec import clean_summary
from sprocket.rabbitmq.codec.clean_summary import CleanQueue, CleanSummary
from sprocket.rabbitmq.codec.store import recovery_terms
from sprocket.rabbitmq.store import delayed, message_store
from sprocket.rabbitmq.store.delayed import DelayedContents
from sprocket.rabbitmq.store.layout import SEGMENT, VhostLayout, numbers, write_ahead_files
from sprocket.rabbitmq.store.message_store import StoreContents
from sprocket.rabbitmq.store.queue_index import KnownSegment
from sprocket.rabbitmq.store.recovery.report import RecoveredQueue, RecoveredVhost, VhostReport

STEP_QUEUES = 256


def open_clean(
    disk: Disk, layout: VhostLayout, entry_count: int, step: Step = unwatched
) -> RecoveredVhost | None:
    """Return what a clean stop of ours left; None if there was none, or anything is wrong with it.

    Args:
        disk: Where the folder lies.
        layout: Its paths.
        entry_count: Entries of a segment.
        step: Called with the progress.

    Raises:
        DiskFailed: A file cannot be read or removed.
    Durability: when it returns a `RecoveredVhost` the files that say so are gone.
    """
    queues = _read(disk, layout, step)
    if queues is None:
        return None
    forget(disk, layout)
    store = message_store.open_clean(disk, layout.persistent, _references(queues))
    if store is None:
        return None
    return _recovered(queues, store, delayed.open_clean(disk, layout.delayed), entry_count)


def dry_run_clean(
    disk: Disk, layout: VhostLayout, entry_count: int, step: Step = unwatched
) -> RecoveredVhost | None:
    """Return what `open_clean` would, and change nothing; its arguments, and its errors."""
    queues = _read(disk, layout, step)
    if queues is None:
        return None
    store = message_store.dry_run_clean(disk, layout.persistent, _references(queues))
    if store is None:
        return None
    return _recovered(queues, store, delayed.dry_run(disk, layout.delayed, ()), entry_count)


def _references(queues: dict[str, RecoveredQueue]) -> list[bytes]:
    return [one.reference for one in queues.values() if one.reference is not None]


def _recovered(
    queues: dict[str, RecoveredQueue],
    store: StoreContents,
    later: DelayedContents,
    entry_count: int,
) -> RecoveredVhost:
    counts = {folder: one.message_count for folder, one in queues.items() if one.message_count}
    report = VhostReport(
        clean_stop=True,
        segment_entries=entry_count,
        queues=len(queues),
        messages=sum(counts.values()),
        body_bytes=sum(one.body_bytes for one in queues.values()),
        stored=len(store.messages),
        delayed=later.count,
        damage=[*later.damage],
        messages_by_folder=counts,
    )
    return RecoveredVhost(queues, store, later, report)


def forget(disk: Disk, layout: VhostLayout) -> None:
    """Remove what says that the last stop was a clean one, durably.

    It must be gone before the log has its first file: see `write_ahead.reading`.
    """
    remove_if_there(disk, layout.recovery_terms)  # alone it would say that a RabbitMQ has run
    remove_if_there(disk, layout.clean)
    disk.sync_folder(layout.root)


def disbelieved(disk: Disk, layout: VhostLayout) -> list[str]:
    """Say why a clean stop of ours is not believed; nothing if it is, or if there was none.

    Raises:
        DiskFailed: A file cannot be read.
    """
    try:
        terms = read_file(disk, layout.recovery_terms)
        clean = read_file(disk, layout.clean)
    except FileMissing:
        return []
    if not recovery_terms.is_ours(terms):
        return []  # a RabbitMQ has run since
    try:
        said = clean_summary.decode(clean)
    except CorruptRecord as error:
        return [f"{layout.clean}: {error}; everything was looked at"]
    if said.terms_crc != crc32(terms):
        what = "it is not as we have left it; everything was looked at"
        return [f"{layout.recovery_terms}: {what}"]
    try:
        is_right = message_store.clean_crc(disk, layout.persistent) == said.store_crc
    except FileMissing:
        return []
    if is_right:
        return []
    what = "what a stop has left is not as we have left it; every file was looked at"
    return [f"{layout.persistent.root}: {what}"]


def _read(disk: Disk, layout: VhostLayout, step: Step) -> dict[str, RecoveredQueue] | None:
    """Return what a clean stop says of each queue, if it is right."""
    try:
        said = clean_summary.decode(read_file(disk, layout.clean))
        terms_crc = crc32(read_file(disk, layout.recovery_terms))
        store_crc = message_store.clean_crc(disk, layout.persistent)
    except (CorruptRecord, FileMissing):
        return None
    if terms_crc != said.terms_crc or store_crc != said.store_crc:
        return None
    if write_ahead_files(disk.list(layout.root)):
        return None
    folders = set(disk.folders(layout.queues))
    if not folders <= said.queues.keys():
        return None
    queues = {}
    for done, (folder, queue) in enumerate(said.queues.items()):
        if done % STEP_QUEUES == 0:
            step("queues opened", done, len(said.queues))
        sizes = disk.sizes(layout.queue(folder).root) if folder in folders else {}
        found = _queue(disk, layout, folder, queue, sizes)
        if found is None:
            return None
        queues[folder] = found
    return queues


def _queue(
    disk: Disk, layout: VhostLayout, folder: str, said: CleanQueue, sizes: dict[str, int]
) -> RecoveredQueue | None:
    """Return one queue, if its folder has the files that it should."""
    paths = layout.queue(folder)
    files = {number: sizes[f"{number}{SEGMENT}"] for number in numbers(sizes, SEGMENT)}
    expected = {number: one.file_bytes for number, one in said.segments.items() if one.file_bytes}
    journal_bytes = sizes.get(paths.journal.rpartition("/")[2], 0)
    if files != expected or journal_bytes != said.journal_bytes:
        return None
    journal = read_file(disk, paths.journal) if journal_bytes else b""
    if journal_bytes and crc32(journal) != said.journal_crc:
        return None
    return RecoveredQueue(
        segments={
            number: KnownSegment(one.unacked, one.file_bytes)
            for number, one in said.segments.items()
        },
        next_seq_id=said.next_seq_id,
        next_deliver_seq_id=said.next_deliver_seq_id,
        message_count=said.message_count,
        body_bytes=said.body_bytes,
        reference=said.persistent_ref,
        journal=journal,
        has_name=paths.name.rpartition("/")[2] in sizes,
    )


def clean_file(terms: bytes, store_crc: int, queues: dict[str, CleanQueue]) -> bytes:
    """Return the content of `sprocket.clean`.

    Args:
        terms: The recovery.dets that is written with it.
        store_crc: Of what the message store has left, as `message_store.clean_crc` says.
        queues: All of them.
    """
    return clean_summary.encode(
        CleanSummary(terms_crc=crc32(terms), store_crc=store_crc, queues=queues)
    )
