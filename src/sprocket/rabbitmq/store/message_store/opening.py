"""How a message store is opened and left.

A clean stop leaves RabbitMQ's three files: how full each file is, where each message lies, and
which queues used the store, written last. `open_clean` takes them if they agree with the queues and
with the files that are there; whatever is wrong with them, `recover` looks at every file. The three
are removed as soon as they are read.

What `recover` keeps: each message that a queue needs, at the last whole entry of it in a file. An
entry whose checksum is in the write-ahead log is read whole and compared, as the crash may have
torn it; of older ones only both ends are looked at, as they are compared whenever they are read.

Source: RabbitMQ 3.10.8 `rabbit_msg_store`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, File, Steps, read_file, remove_if_there, replace_file
from sprocket.base.errors import CorruptRecord, FileMissing
from sprocket.rabbitmq.codec import checksums
from sprocket.rabbitmq.codec.checksums import TermSum
from sprocket.rabbitmq.codec.store import (
    FileSummary,
    Gap,
    MessageLocation,
    StoreEntry,
    clean_stop,
    entries,
    saved_tables,
)
from sprocket.rabbitmq.store.damage import FileDamage
from sprocket.rabbitmq.store.layout import (
    COMPACTED_FILE,
    STORE_FILE,
    MessageStoreLayout,
    numbers,
)
from sprocket.rabbitmq.store.message_store.message_store import (
    KeptMessage,
    MessageStore,
    StoreContents,
    StoreFile,
)


@dataclass(frozen=True, slots=True)
class RecoveredStore:
    """A store after recovery.

    Attributes:
        contents: What it has.
        damage: What should not have been in its files; what is after the last message that some
            queue needs may be anything after a crash.
        lost: Ids of messages that queues need and no file has.
        last: The file that has that message; none after it has any.
        cut_bytes: After that message in its file.
    """

    contents: StoreContents
    damage: list[FileDamage] = field(default_factory=list)
    lost: frozenset[bytes] = frozenset()
    last: int = 0
    cut_bytes: int = 0


def close_steps(store: MessageStore, references: Sequence[bytes]) -> Steps:
    """Leave what the next start needs, after the last message.

    Args:
        store: It is closed afterwards.
        references: Of all queues, as their recovery terms have them; 16 bytes each.

    Raises:
        DiskFull, DiskFailed, StoreFailed: The next start looks at every file.
    """
    yield from store.log.commit_steps()
    yield from store.sums_steps(also_newest=True)
    order = sorted(store.files)
    neighbours = [None, *order, None]
    summary = [
        FileSummary(
            number,
            store.files[number].valid_bytes,
            neighbours[at],
            neighbours[at + 2],
            store.files[number].file_bytes,
        )
        for at, number in enumerate(order)
    ]
    locations = [
        MessageLocation(key, one.references, one.file, one.position, one.entry_bytes)
        for key, one in store.messages.items()
    ]
    disk, layout = store.disk, store.layout
    store.handle(store.newest)  # it exists, though it may be empty
    for path, data in (
        (layout.summary, saved_tables.encode_summary(summary)),
        (layout.index, saved_tables.encode_locations(locations)),
        (layout.clean, clean_stop.encode_clean(references)),
    ):
        yield partial(replace_file, disk, path, data)
    store.close()


def open_clean(
    disk: Disk, layout: MessageStoreLayout, references: Sequence[bytes]
) -> StoreContents | None:
    """Return what a clean stop left, None if it is not there or anything is wrong with it.

    Args:
        disk: Where it lies.
        layout: Its paths.
        references: Of all queues, by their recovery terms, in any order.

    Raises:
        DiskFailed: A file cannot be read or removed.
    Durability: when this returns the files that say so are gone, so that a crash is not taken for
        a clean stop.
    """
    found = dry_run_clean(disk, layout, references)
    _forget_clean(disk, layout)
    return found


def dry_run_clean(
    disk: Disk, layout: MessageStoreLayout, references: Sequence[bytes]
) -> StoreContents | None:
    """Return what `open_clean` would, and change nothing."""
    try:
        return _read_clean(disk, layout, references)
    except (CorruptRecord, FileMissing):
        return None


def _read_clean(
    disk: Disk, layout: MessageStoreLayout, references: Sequence[bytes]
) -> StoreContents | None:
    clean = clean_stop.decode_clean(read_file(disk, layout.clean))
    summary = saved_tables.decode_summary(read_file(disk, layout.summary))
    locations = saved_tables.decode_locations(read_file(disk, layout.index))
    sizes = disk.sizes(layout.root)
    if sorted(clean) != sorted(references) or numbers(sizes, COMPACTED_FILE):
        return None
    files = {one.file: StoreFile(one.file_bytes) for one in summary}
    there = {number: sizes[f"{number}{STORE_FILE}"] for number in numbers(sizes, STORE_FILE)}
    if there != {number: file.file_bytes for number, file in files.items()}:
        return None
    sums = _sums(disk, layout, files)
    messages = {}
    for one in locations:
        term_size = one.size - entries.OVERHEAD_BYTES
        file = files.get(one.file)
        if file is None or term_size < 0 or one.position + one.size > file.file_bytes:
            return None
        if not one.ref_count:
            continue  # garbage, until its file is collected
        file.valid_bytes += one.size
        crc = _crc(sums, one.id, term_size)
        messages[one.id] = KeptMessage(one.ref_count, one.file, one.position, term_size, crc)
    if {one.file: one.valid_bytes for one in summary} != {
        n: f.valid_bytes for n, f in files.items()
    }:
        return None
    return StoreContents(messages, files)


def clean_crc(disk: Disk, layout: MessageStoreLayout) -> int:
    """Return the CRC-32 of what a clean stop has left, all of it together.

    Raises:
        FileMissing: There was none.
        DiskFailed: It cannot be read.
    """
    found = 0
    for path in (layout.summary, layout.index, layout.clean):
        found = crc32(read_file(disk, path), found)
    return found


def _forget_clean(disk: Disk, layout: MessageStoreLayout) -> None:
    for path in (layout.clean, layout.summary, layout.index):
        remove_if_there(disk, path)
    if disk.is_folder(layout.root):
        disk.sync_folder(layout.root)


def _crc(sums: dict[bytes, TermSum], message_id: bytes, term_size: int) -> int | None:
    known = sums.get(message_id)
    return known.crc if known is not None and known.size == term_size else None


def _sums(
    disk: Disk, layout: MessageStoreLayout, files: dict[int, StoreFile]
) -> dict[bytes, TermSum]:
    """Return the checksums beside some files."""
    found: dict[bytes, TermSum] = {}
    for number in files:
        path = layout.sums(number)
        if disk.exists(path):
            found |= checksums.decode(read_file(disk, path))
    return found


def dry_run(
    disk: Disk, layout: MessageStoreLayout, wanted: Counter[bytes], log_sums: bytes = b""
) -> RecoveredStore:
    """Return what `recover` would find, and change nothing; its arguments, and its errors."""
    found = _look(disk, layout, wanted, checksums.decode(log_sums))
    lost = set(wanted) - set(found.contents.messages)
    for number in numbers(disk.list(layout.root), COMPACTED_FILE) if lost else ():
        file = disk.open(layout.compacted_file(number))
        try:
            entry_ids = {
                one.id
                for one in entries.scan(file.read, file.size())
                if isinstance(one, StoreEntry)
            }
        finally:
            file.close()
        lost -= entry_ids
    return replace(found, lost=frozenset(lost))


def recover(
    disk: Disk, layout: MessageStoreLayout, wanted: Counter[bytes], log_sums: bytes = b""
) -> RecoveredStore:
    """Look at every file, and keep what some queue needs.

    Args:
        disk: Where it lies.
        layout: Its paths; the folder is made if it is missing.
        wanted: How many queues need a message, by its id.
        log_sums: Checksums that the write-ahead log has, in the form of `codec.checksums`.

    Raises:
        DiskFull, DiskFailed: It may be begun again.
    Durability: on return all is durable.
    """
    disk.make_folder(layout.root)
    _forget_clean(disk, layout)
    remove_if_there(disk, layout.combined_file)
    _take_compacted(disk, layout)
    recent = checksums.decode(log_sums)
    found = _look(disk, layout, wanted, recent)
    contents = found.contents
    order = sorted(contents.files)
    if found.cut_bytes:
        end = contents.files[found.last].file_bytes - found.cut_bytes
        _cut(disk, layout.file(found.last), end)
        contents.files[found.last].file_bytes = end
    _keep_sums(disk, layout, contents, recent)
    for number in order:
        if number != found.last and not contents.files[number].valid_bytes:
            del contents.files[number]
            remove_if_there(disk, layout.file(number))
            remove_if_there(disk, layout.sums(number))
    disk.sync_tree(layout.root)
    return replace(found, lost=frozenset(wanted) - frozenset(contents.messages))


def _look(
    disk: Disk, layout: MessageStoreLayout, wanted: Counter[bytes], recent: dict[bytes, TermSum]
) -> RecoveredStore:
    """Look at every file, and find what some queue needs."""
    found = RecoveredStore(StoreContents({}, {}))
    contents = found.contents
    order = numbers(disk.list(layout.root), STORE_FILE)
    sums = _sums(disk, layout, dict.fromkeys(order, StoreFile())) | recent
    ends: dict[int, int] = {}
    for number in order:
        file = disk.open(layout.file(number))
        try:
            contents.files[number] = StoreFile(file.size())
            ends[number] = _recover_file(file, number, wanted, recent, sums, found)
        finally:
            file.close()
    for one in contents.messages.values():
        contents.files[one.file].valid_bytes += one.entry_bytes
    if not order:
        return found
    # What is after the last message that is kept may never have been durable: it is not damage.
    last = max((number for number in order if ends[number]), default=order[0])
    later = {layout.file(number) for number in order if number > last}
    damage = [
        one
        for one in found.damage
        if one.path not in later and (one.path != layout.file(last) or one.position < ends[last])
    ]
    cut_bytes = contents.files[last].file_bytes - ends[last]
    return RecoveredStore(contents, damage, last=last, cut_bytes=cut_bytes)


def _recover_file(
    file: File,
    number: int,
    wanted: Counter[bytes],
    recent: dict[bytes, TermSum],
    sums: dict[bytes, TermSum],
    found: RecoveredStore,
) -> int:
    """Take what is wanted from one file; return the end of the last entry that is kept."""
    end = 0
    for one in entries.scan(file.read, file.size()):
        if isinstance(one, Gap):
            found.damage.append(FileDamage(file.path, one.start, one.why))
            continue
        known = found.contents.messages.get(one.id)
        if one.id not in wanted or (known is not None and known.file != number):
            continue
        if one.id in recent and not _is_whole(file, one, recent[one.id]):
            what = f"message {one.id.hex()} has another checksum"
            found.damage.append(FileDamage(file.path, one.position, what))
            continue
        crc = _crc(sums, one.id, one.term_size)
        found.contents.messages[one.id] = KeptMessage(
            wanted[one.id], number, one.position, one.term_size, crc
        )
        end = one.end
    return end


def _is_whole(file: File, entry: StoreEntry, known: TermSum) -> bool:
    """Say whether an entry's term is the one that was stored."""
    if entry.term_size != known.size:
        return False
    return crc32(file.read(entry.term_position, known.size)) == known.crc


def _take_compacted(disk: Disk, layout: MessageStoreLayout) -> None:
    """Append to each file what a compaction of RabbitMQ's wrote beside it, if it may lack that."""
    for number in numbers(disk.list(layout.root), COMPACTED_FILE):
        source = layout.compacted_file(number)
        data = read_file(disk, source)
        file = disk.open(layout.file(number), write=True, create=True)
        try:
            file.write([data], file.size())
            file.sync()
        finally:
            file.close()
        disk.sync_folder(layout.root)
        disk.remove(source)
        disk.sync_folder(layout.root)


def _cut(disk: Disk, path: str, size: int) -> None:
    file = disk.open(path, write=True)
    try:
        file.resize(size)
        file.sync()
    finally:
        file.close()


def _keep_sums(
    disk: Disk, layout: MessageStoreLayout, contents: StoreContents, recent: dict[bytes, TermSum]
) -> None:
    """Put checksums that only the log had beside the files that have the messages."""
    parts: dict[int, list[bytes]] = {}
    for message_id, known in recent.items():
        message = contents.messages.get(message_id)
        if message is not None:
            parts.setdefault(message.file, []).append(checksums.encode(message_id, known))
    for number, records in parts.items():
        path = layout.sums(number)
        file = disk.open(path, write=True, create=True)
        try:
            size = file.size()
            file.write(records, size - size % checksums.RECORD_BYTES)
            file.sync()
        finally:
            file.close()
