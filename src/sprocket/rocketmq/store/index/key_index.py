"""The key index: which records of the log have a key, by its hash.

The index is a row of files, each named by the time of its creation; only the newest is written (see
`index_file`). Different keys with the same hash are not distinguished here: callers compare topic
and key of the records, as RocketMQ's clients do.

Theory of operation. Records are put in rounds in the order of the log; a record before the last one
that was put is there already and is ignored. `flush` makes durable what was put up to then. After a
crash `recover` removes what the disk may not have, and says from which record on the log has to be
put again. That record may then be in the index twice, which a search hides.

Unlike in RocketMQ, the index is truncated together with the log. So a record that was written where
another one was before the crash is found.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import takewhile
from operator import mul
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, Steps, gather, remove_if_there, steps
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.rocketmq.codec.columns import Ints, RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import IndexGeometry
from sprocket.rocketmq.model.hashes import abs_hash, hash32
from sprocket.rocketmq.model.message import is_indexable
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.index.index_file import IndexFile, IndexHeader

_Words: TypeAlias = npt.NDArray[np.uint32]

ARRAY_KEYS_MIN = 44
"""From this many keys in a round on numpy is quicker than plain Python."""

CLOCK_SLACK_MS = 60_000
"""How far the wall clock may have gone back without a query by time missing a message."""

_FILES_AT_ONCE = 8
"""Files that a query has opened together: each that it opens alone is a way to another thread."""

_SECOND_MS = 1000
_NAMED_MS_MAX = 253_370_764_800_000
"""The year 9999 begins; later times have no name."""
_WORD = 0xFFFF_FFFF
_POWERS_MAX = 512
_POWERS = tuple(pow(31, n, 1 << 32) for n in range(_POWERS_MAX))
_POWERS_DOWN = _POWERS[::-1]


def key_string(topic: str, key: str) -> str:
    """Return what is hashed for a key of a topic."""
    return f"{topic}#{key}"


@lru_cache(maxsize=4096)
def _topic_hash(topic: str) -> int:
    """Return the hash of `topic#`, on which those of its keys go on; not below 0."""
    return hash32(key_string(topic, "")) & _WORD


def _units_of(key: str) -> bytes | memoryview:
    """Return the UTF-16 units of a key."""
    if key.isascii():
        return key.encode()
    return memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H")


def _key_hash(topic_hash: int, key: str) -> int:
    """Return `abs_hash` of the whole key string, given the hash of its first part."""
    units = _units_of(key)
    count = len(units)
    if count >= _POWERS_MAX:
        value = topic_hash
        for unit in units:
            value = (31 * value + unit) & _WORD
    else:
        powers = _POWERS_DOWN[_POWERS_MAX - count :]
        value = (topic_hash * _POWERS[count] + sum(map(mul, units, powers))) & _WORD
    return abs_hash(value - (1 << 32) if value >> 31 else value)


def _key_hashes(topic_hashes: Ints, keys: Sequence[str]) -> Ints:
    """Return what `_key_hash` does for each pair, as an i64 array; `topic_hashes` is one too.

    Keys lie in the rows of a matrix, padded with zeros behind. Its product with the powers of 31
    is off by a power that says how long the padding is; that is odd, so it has an inverse.
    """
    counts = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    width = int(counts.max())
    if width >= _POWERS_MAX or not "".join(keys).isascii():
        pairs = zip(topic_hashes.tolist(), keys, strict=True)
        return np.array([_key_hash(one, key) for one, key in pairs], dtype=np.int64)
    units = np.array(keys, dtype=f"S{width}").view(np.uint8).reshape(len(keys), width)
    powers = _powers()
    sums = np.einsum("ij,j->i", units.astype(np.uint32), powers[:width][::-1])
    sums *= _inverse_powers()[width - counts]
    sums += topic_hashes.astype(np.uint32) * powers[counts]
    return _absolute(sums)


def _absolute(hashes: _Words) -> Ints:
    """Return `abs_hash` of u32 hashes, as i64."""
    absolute: Ints = np.abs(hashes.view(np.int32).astype(np.int64))
    absolute[absolute == 1 << 31] = 0
    return absolute


@lru_cache(maxsize=2)
def _powers(count: int = _POWERS_MAX) -> _Words:
    """Return the first powers of 31, as u32."""
    return np.array([pow(31, n, 1 << 32) for n in range(count)], dtype=np.uint32)


@lru_cache(maxsize=1)
def _inverse_powers() -> _Words:
    return np.array([pow(power, -1, 1 << 32) for power in _POWERS], dtype=np.uint32)


def batch_hashes(batch: RecordBatch, start: int) -> "tuple[Ints, Ints]":
    """Return what the index has of the records of a batch that lie at `start` or behind it.

    Returns:
        For each key, in the order in which they are put: number of its record, and `abs_hash`.
    """
    row, hashes, units = batch.keys
    keep = (batch.indexable & (batch.physical_offset >= start))[row]
    if not keep.all():
        row, hashes, units = row[keep], hashes[keep], units[keep]
    if not len(row):
        return row, hashes.astype(np.int64)
    topics = [_topic_hash(topic) for topic in batch.topic_names]
    topic_hashes = np.array(topics, np.uint32)[batch.topic_number[row]]
    powers = _powers(max(_POWERS_MAX, int(units.max()) + 1))
    return row, _absolute(hashes + topic_hashes * powers[units])


def file_name(at_ms: int, newest: str = "") -> str:
    """Return the local time to the millisecond in 17 digits, but a later one than the newest name.

    Args:
        at_ms: Milliseconds since 1970.
        newest: The name of the file before, empty if there is none.
    """
    at = datetime.fromtimestamp(min(max(at_ms, 0), _NAMED_MS_MAX) / 1000, UTC).astimezone()
    name = int(f"{at:%Y%m%d%H%M%S}{at.microsecond // 1000:03d}")
    return f"{max(name, int(newest) + 1) if newest else name:017d}"


class Indexes:
    """The index files of a store.

    Args:
        disk: Where they lie.
        folder: The folder `index` of the store.
        geometry: How many slots and units a file has.
        clock: Names new files.
        write: Whether anything may be changed on the disk.
        is_behind: Whether slots on the disk may lack units, and the index records of the log, as
            of a store that another process has open, or that was killed; for reading only.
    Threads: event loop only.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        geometry: IndexGeometry,
        clock: Clock,
        *,
        write: bool = True,
        is_behind: bool = False,
    ) -> None:
        assert not (write and is_behind), "recovery repairs what is behind"
        self._disk = disk
        self._folder = folder
        self._geometry = geometry
        self._clock = clock
        self._write = write
        self._is_behind = is_behind
        self._is_caught_up = not is_behind
        self._files: list[IndexFile] = []
        self._unflushed: list[IndexFile] = []
        self._new_folder = False
        self.flushed_full_at_ms = 0

    def load(self) -> None:
        """Take up the files of a store that was stopped cleanly; after a crash call `recover` too.

        Names that are not numbers are passed over. A file of another length than one of this
        geometry was being made when the process died, or is damaged; it is removed, and what it
        had is made again from the log. So is one that the disk does not give.
        """
        self.close_handles()
        self._files.clear()
        self._unflushed.clear()
        for name in self._disk.list(self._folder):
            path = f"{self._folder}/{name}"
            if not (name.isascii() and name.isdigit()) or self._disk.is_folder(path):
                continue
            file = self._loaded(path)
            if file is not None:
                self._files.append(file)
            elif self._write:
                self._disk.remove(path)
        if len(self._files) > 1:
            self.flushed_full_at_ms = self._files[-2].header.end_at_ms

    def _loaded(self, path: str) -> IndexFile | None:
        """Return a file that is there, None if it cannot be used."""
        if self._disk.size(path) != self._geometry.file_bytes:
            return None
        file = IndexFile(self._disk, path, self._geometry, write=self._write)
        try:
            file.load()
        except FileMissing:
            raise
        except DiskFailed:
            return None
        finally:
            file.release()
        return file

    def prepare(self) -> None:
        """Read what the first put needs, so that it does not wait for the disk."""
        if self._files and self._files[-1].room:
            self._files[-1].prepare()

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._files)

    @property
    def headers(self) -> list[IndexHeader]:
        """The headers of all files, oldest first."""
        return [file.header for file in self._files]

    @property
    def is_behind(self) -> bool:
        """Whether records of the log may be missing here that have keys; never while writing."""
        return not self._write and (self._is_behind or not self._files)

    @property
    def end(self) -> PhysicalOffset:
        """Where the last record lies that was put; -1 if there is none."""
        for file in reversed(self._files):
            if file.end >= 0:
                return file.end
        return PhysicalOffset(-1)

    @property
    def updated_at_ms(self) -> int:
        """Store time of the last record that was put, 0 without one; newest file's `end_at_ms`."""
        return self._files[-1].header.end_at_ms if self._files else 0

    # Putting.

    def put_round(self, entries: Iterable[Entry]) -> int:
        """Put every key of records that follow each other in the log.

        A record whose transaction was rolled back has no place here, and one that lies before the
        last one put is there already.

        Returns:
            How many keys were put.

        Raises:
            DiskFull, DiskFailed: Some keys may be put; put the round again later.
        """
        fresh: list[Entry] = []
        keys: list[str] = []
        end: int = self.end
        for entry in entries:
            if not entry.keys or entry.physical_offset < end or not is_indexable(entry.sys_flag):
                continue
            end = entry.physical_offset
            fresh.append(entry)
            keys += entry.keys
        if len(keys) >= ARRAY_KEYS_MIN:
            self._put_arrays(keys, fresh)
        elif keys:
            self._put_plain(fresh)
        return len(keys)

    def _put_plain(self, entries: Sequence[Entry]) -> None:
        hashes: list[int] = []
        offsets: list[int] = []
        times: list[int] = []
        for entry in entries:
            topic_hash = _topic_hash(entry.topic)
            for key in entry.keys:
                hashes.append(_key_hash(topic_hash, key))
                offsets.append(entry.physical_offset)
                times.append(entry.stored_at_ms)
        done = 0
        while done < len(hashes):
            file = self._file_with_room()
            done += file.put(hashes[done:], offsets[done:], times[done:])

    def _put_arrays(self, keys: Sequence[str], entries: Sequence[Entry]) -> None:
        counts = [len(entry.keys) for entry in entries]
        of_entries = np.array(
            (
                [_topic_hash(entry.topic) for entry in entries],
                [entry.physical_offset for entry in entries],
                [entry.stored_at_ms for entry in entries],
            ),
            dtype=np.int64,
        )
        topic_hashes, offsets, times = np.repeat(of_entries, counts, axis=1)
        self.put_hashes(_key_hashes(topic_hashes, keys), offsets, times)

    def put_batch(self, batch: RecordBatch, start: int) -> int:
        """Do what `put_round` does for the records of a batch that lie at `start` or behind it.

        Returns:
            How many records had keys that were put.
        """
        row, hashes = batch_hashes(batch, max(start, self.end))
        if not len(row):
            return 0
        self.put_hashes(hashes, batch.physical_offset[row], batch.stored_at_ms[row])
        return 1 + int(np.count_nonzero(row[1:] != row[:-1]))

    def put_hashes(self, hashes: Ints, offsets: Ints, times: Ints) -> None:
        """Put one unit for each key: `abs_hash`, place and store time in ms, as i64 arrays."""
        done = 0
        while done < len(hashes):
            file = self._file_with_room()
            done += file.put_arrays(hashes[done:], offsets[done:], times[done:])

    def _file_with_room(self) -> IndexFile:
        """Return the newest file, or a new one if that is full."""
        if not self._files or not self._files[-1].room:
            self._add()
        file = self._files[-1]
        if not self._unflushed or self._unflushed[-1] is not file:
            self._unflushed.append(file)
        return file

    def _add(self) -> None:
        """Make a file; its header begins with the end of the one before it."""
        self._disk.make_folder(self._folder)
        path = f"{self._folder}/{self._next_name()}"
        self._disk.open(path, write=True, create=True, size=self._geometry.file_bytes).close()
        file = IndexFile(self._disk, path, self._geometry, write=True)
        if self._files:
            before = self._files[-1].header
            file.begin_behind(before.end_offset, before.end_at_ms)
            self._files[-1].let_go()
        self._files.append(file)
        self._new_folder = True

    def _next_name(self) -> str:
        newest = self._files[-1].path.rpartition("/")[2] if self._files else ""
        return file_name(self._clock.now_ms(), newest)

    # Finding.

    def find(
        self, key: str, max_count: int, begin_ms: int = 0, end_ms: int = (1 << 63) - 1
    ) -> list[PhysicalOffset]:
        """Return where records lie whose key string has the hash of `key`, newest first.

        Times are kept to the second here: a record up to a second outside the range may be among
        them, but none inside it is left out, as long as the clock did not go back by more than
        `CLOCK_SLACK_MS`.

        Args:
            key: As `key_string` makes it.
            max_count: Most to return.
            begin_ms: First store time wanted.
            end_ms: Last store time wanted.
        """
        self._catch_up()
        found: list[PhysicalOffset] = []
        key_hash = abs_hash(hash32(key))
        files = [
            file
            for file in reversed(self._files)
            if file.header.next_unit > 1 and file.header.begin_at_ms - CLOCK_SLACK_MS <= end_ms
        ]
        for number, file in enumerate(files):
            if len(found) >= max_count:
                break
            if number % _FILES_AT_ONCE == 0:
                gather([one.open for one in files[number : number + _FILES_AT_ONCE]])
            self._find_in(file, key_hash, max_count, (begin_ms, end_ms), found)
            if file is not self._files[-1]:
                file.let_go()
            if 0 < file.header.begin_at_ms < begin_ms - CLOCK_SLACK_MS:
                break
        return found

    def _catch_up(self) -> None:
        """Once, for reading: take up what only the units of the newest files know.

        A header that says that its file is full was written after the slots.
        """
        if not self._is_caught_up:
            self._is_caught_up = True
            for file in takewhile(lambda file: file.room, reversed(self._files)):
                file.catch_up()

    @staticmethod
    def _find_in(
        file: IndexFile,
        key_hash: int,
        max_count: int,
        times_ms: tuple[int, int],
        found: list[PhysicalOffset],
    ) -> None:
        begin_ms, end_ms = times_ms
        is_dated = file.header.begin_at_ms > 0  # else its header is not on the disk yet
        for offset, at_ms in file.chain(key_hash):
            if is_dated and at_ms + CLOCK_SLACK_MS < begin_ms:
                return
            in_time = not is_dated or (at_ms <= end_ms and at_ms + _SECOND_MS > begin_ms)
            if in_time and (not found or found[-1] != offset):
                found.append(offset)
                if len(found) >= max_count:
                    return

    # Recovery.

    def recover(self, log_end: PhysicalOffset) -> PhysicalOffset:
        """After a crash, keep what is certain and make the slots of the newest file again.

        Args:
            log_end: Where the log ends now; what points behind it is cut.

        Returns:
            Where the last record lies that the index has; the log is to be put again from this
            record on, it included. -1 if it has none, then from the log's beginning.
        """
        self._new_folder = bool(self._files)
        for position, file in enumerate(self._files):
            if file.room:
                self._drop_from(position + 1)
                file.rebuild_slots()
                self._unflushed = [file]
                break
        self.truncate(log_end)
        return self.end

    def truncate(self, physical_offset: PhysicalOffset) -> int:
        """Take away what points at `physical_offset` or behind it; return how many units.

        Files that only had such are deleted.
        """
        count = 0
        for position in reversed(range(len(self._files))):
            file = self._files[position]
            if file.header.next_unit <= 1:
                continue
            if file.end < physical_offset:
                break
            count += file.truncate(physical_offset)
            if file.header.next_unit > 1:
                self._drop_from(position + 1)
                if file not in self._unflushed:
                    self._unflushed.append(file)
                break
            self._drop_from(position)
        return count

    def reset(self) -> None:
        """Delete every file, to be made again from the log."""
        self._drop_from(0)

    def _drop_from(self, position: int) -> None:
        """Delete files; once they are replaced by others they must not come back."""
        dropped = self._files[position:]
        del self._files[position:]
        for file in dropped:
            file.release()
            self._disk.remove(file.path)
        if dropped:
            self._disk.sync_folder(self._folder)
        self._unflushed = [file for file in self._unflushed if file in self._files]

    # Flushing.

    def flush(self) -> None:
        """Do `flush_steps` here and now."""
        steps.run(self.flush_steps())

    def flush_steps(self) -> Steps:
        """Make durable every key that was put before this begins.

        Durability: `recover` will name a record at or behind the last one that the flush before
            this one found here, or this one if nothing was put since then.

        Raises:
            DiskFull: A write found no space; it may be tried again.
            DiskFailed: The index is to be recovered.
        """
        if self._new_folder:
            self._new_folder = False
            try:
                yield partial(self._disk.sync_folder, self._folder)
            except BaseException:
                self._new_folder = True
                raise
        for file in list(self._unflushed):
            is_full = not file.room
            if (yield from file.flush_steps(slots=is_full)):
                self._unflushed.remove(file)
            if is_full:
                file.release()
                self.flushed_full_at_ms = file.header.end_at_ms

    def clean_steps(self, min_physical: PhysicalOffset) -> Steps:
        """Delete the files all of whose records the log no longer has; the newest one stays."""
        while len(self._files) > 1 and self._files[0].header.end_offset < min_physical:
            file = self._files.pop(0)
            file.release()
            if file in self._unflushed:
                self._unflushed.remove(file)
            self._new_folder = True
            try:
                yield partial(remove_if_there, self._disk, file.path)
            except BaseException:
                if self._disk.exists(file.path):  # some errors come after the deed
                    self._files.insert(0, file)
                raise

    def close(self) -> None:
        """Write everything, slots included, so that the next `load` finds it; close the handles."""
        if self._write:
            steps.run(self._flush_all())
        self.close_handles()

    def _flush_all(self) -> Steps:
        yield from self.flush_steps()
        if self._files:
            yield from self._files[-1].flush_steps(slots=True)

    def close_handles(self) -> None:
        """Close the handles; what was not flushed is lost."""
        for file in self._files:
            file.release()
