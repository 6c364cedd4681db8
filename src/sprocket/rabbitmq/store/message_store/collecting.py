"""Room given back: files that are all garbage go, two that are more than half become one.

What is left of two neighbours is copied into a new file, durably, which then takes the name of the
left one; after that the right one goes. Unlike RabbitMQ's way, in which a file is written over in
place, a crash at any moment leaves every message whole at least once; a second copy is garbage.

Source: RabbitMQ 3.10.8 `rabbit_msg_store_gc`, for when and what.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from sprocket.base.disk import Disk, File, StepsTo, read_file, remove_if_there, replace_file
from sprocket.base.units import MIB
from sprocket.rabbitmq.codec import checksums
from sprocket.rabbitmq.codec.store import StoreEntry, entries
from sprocket.rabbitmq.store.message_store.message_store import MessageStore, StoreFile

GARBAGE_RATIO = 0.5
"""From that part of all bytes on, files are combined."""
COPY_BYTES = 4 * MIB


@dataclass(frozen=True, slots=True)
class _Kept:
    """An entry that is copied, and where to."""

    entry: StoreEntry
    file: int
    position: int


def is_collect_due(store: MessageStore) -> bool:
    """Say whether `collect_steps` has something to do."""
    return bool(_empty(store) or _pair(store))


def collect_steps(store: MessageStore) -> StepsTo[int]:
    """Remove files of garbage, and combine the first two neighbours that fit into one, if it pays.

    Returns:
        Files that are gone; 0 if there is nothing to do now.

    Raises:
        DiskFull, DiskFailed, StoreFailed: Nothing is lost; some garbage is still there.
    """
    empty = _empty(store)
    pair = None if empty else _pair(store)
    if not empty and pair is None:
        return 0
    yield from store.log.commit_steps()  # whatever made it garbage is durable
    if pair is not None:
        yield from _combine_steps(store, *pair)
        return 1
    yield from store.sums_steps()
    for number in empty:
        del store.files[number]
        store.drop_handle(number)
        yield partial(_remove, store, number)
    yield partial(store.disk.sync_folder, store.layout.root)
    return len(empty)


def _empty(store: MessageStore) -> list[int]:
    """Return the files of which nothing is needed."""
    return [
        number
        for number, file in store.files.items()
        if not file.valid_bytes and number != store.newest and file.file_bytes
    ]


def _pair(store: MessageStore) -> tuple[int, int] | None:
    """Return two neighbours that become one; None if there is not enough garbage."""
    whole = sum(file.file_bytes for file in store.files.values())
    valid = sum(file.valid_bytes for file in store.files.values())
    if whole <= 2 * store.file_bytes or (whole - valid) / whole <= GARBAGE_RATIO:
        return None
    for left, right in pairwise(sorted(store.files)):
        sizes = store.files[left].valid_bytes, store.files[right].valid_bytes
        if right != store.newest and all(sizes) and sum(sizes) <= store.file_bytes:
            return left, right
    return None


def _combine_steps(store: MessageStore, left: int, right: int) -> StepsTo[None]:
    """Put what is left of two files into the left one."""
    yield from store.sums_steps()
    handles = {number: store.handle(number) for number in (left, right)}
    kept: list[_Kept] = []
    end = 0
    for number, file in handles.items():
        found = yield partial(_scan, file, store.files[number].file_bytes)
        for entry in found:
            known = store.messages.get(entry.id)
            if known and (known.file, known.position) == (number, entry.position):
                kept.append(_Kept(entry, number, end))
                end += entry.size
    temporary = store.layout.combined_file
    yield partial(_copy, store.disk, temporary, handles, kept)
    yield partial(_join_sums, store, left, right)
    yield partial(_take_place, store, temporary, left)
    for one in kept:
        known = store.messages.get(one.entry.id)
        if known and (known.file, known.position) == (one.file, one.entry.position):
            known.file, known.position = left, one.position
    for number in handles:
        store.drop_handle(number)
    del store.files[right]
    store.files[left] = StoreFile(end, _valid_bytes(store, kept, left))
    yield partial(_remove, store, right)
    yield partial(store.disk.sync_folder, store.layout.root)


def _valid_bytes(store: MessageStore, kept: Sequence[_Kept], number: int) -> int:
    """Return the bytes of what was copied and is still needed."""
    size = 0
    for one in kept:
        known = store.messages.get(one.entry.id)
        if known and (known.file, known.position) == (number, one.position):
            size += one.entry.size
    return size


def _scan(file: File, size: int) -> list[StoreEntry]:
    found = entries.scan(file.read, size)
    return [one for one in found if isinstance(one, StoreEntry)]


def _copy(disk: Disk, path: str, handles: dict[int, File], kept: Sequence[_Kept]) -> None:
    """Write entries to a new file, blocks of neighbours at once, durably."""
    remove_if_there(disk, path)
    target = disk.open(path, write=True, create=True)
    try:
        for block in _blocks(kept):
            first, last = block[0], block[-1]
            start = first.entry.position
            data = handles[first.file].read(start, last.entry.end - start)
            target.write([data], first.position)
        target.sync()
    finally:
        target.close()


def _blocks(kept: Sequence[_Kept]) -> Iterator[list[_Kept]]:
    """Yield entries that lie one after the other, a few megabytes at a time."""
    block: list[_Kept] = []
    for one in kept:
        if block:
            last = block[-1]
            is_next = (last.file, last.entry.end) == (one.file, one.entry.position)
            if not is_next or one.position - block[0].position >= COPY_BYTES:
                yield block
                block = []
        block.append(one)
    if block:
        yield block


def _join_sums(store: MessageStore, left: int, right: int) -> None:
    """Put the checksums of two files into the left one's."""
    disk, layout = store.disk, store.layout
    data = b"".join(
        read_file(disk, path)
        for path in (layout.sums(left), layout.sums(right))
        if disk.exists(path)
    )
    known = checksums.decode(data)
    replace_file(
        disk, layout.sums(left), b"".join(checksums.encode(*item) for item in known.items())
    )


def _take_place(store: MessageStore, temporary: str, number: int) -> None:
    """Give a new file the name of an old one, durably."""
    store.disk.rename(temporary, store.layout.file(number))
    store.disk.sync_folder(store.layout.root)


def _remove(store: MessageStore, number: int) -> None:
    """Remove a file and its checksums."""
    remove_if_there(store.disk, store.layout.file(number))
    remove_if_there(store.disk, store.layout.sums(number))
