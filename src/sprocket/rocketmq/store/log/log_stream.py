"""The bytes of another log, as they come from its broker, cut into what a log may end with.

They come in any pieces. A log that took them as they are could end in the middle of a record, which
is what a crash leaves: nobody who reads it would know. So whole records are given, and the ends of
files; what comes behind the last of them waits for its rest.

Each record is looked at as far as all who follow a log rely on it: it says that it lies where it
does, its lengths add up, and it ends before its file. Checksums are compared by who reads bodies.
Many records are looked at as columns, and those are given with them: queues and index, which come
next, need not decode the same bytes again.
"""

from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.codec import columns
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import record_scan
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    HEAD,
    I64,
    MAGIC_BLANK,
    MAGICS,
    PHYSICAL_OFFSET_AT,
    RECORD_BYTES_MIN,
    parts,
)

BESIDE_BODY_BYTES_MAX = 128 * KIB
"""What a record has at most beside its body: topic and properties have 32 KiB each."""

COLUMNS_MIN = 256
"""From so many records on numpy looks at all of them in less time, see `codec.columns`. That is so
from 150 on if nothing else is done; who is woken for some records finds its caches cold."""

KEPT_MIN = 1024
"""So many records are worth keeping as columns for queues and index: fewer cost less if they are
decoded once more, together with those that come behind them."""


class StoredRecords(Struct, frozen=True, gc=False):
    """Records as another log has them, which lie behind each other in one file.

    Attributes:
        start: Physical offset of the first.
        data: Their bytes; at the end of a file also the 8 of the blank that ends it.
        count: How many they are; 0 if it is only the end of a file.
        last_start: Where the last of them begins, −1 without any.
        end: Where the log goes on: behind them, or in the next file.
        batch: They as columns, all of them; None if they are too few to keep them so.
    """

    start: int
    data: memoryview
    count: int
    last_start: int
    end: int
    batch: RecordBatch | None = None


class _Whole(Struct, frozen=True, gc=False):
    """Records that are whole.

    Attributes:
        count: How many.
        last: Where in what has come the last of them begins; −1 without any.
        behind: Where it ends.
        records: They as columns, if there are many and nothing about them is odd.
    """

    count: int
    last: int
    behind: int
    records: columns.Records | None


class LogStream:
    """Takes bytes of another log.

    Args:
        place: Where the next one lies: where a record or a file begins.
        segment_bytes: The size of the files, here and there.
        message_bytes_max: Longest body. A record that is larger than one with it is refused: who
            waits for the end of one must have an end.

    Attributes:
        place: Where what waits begins.
    """

    def __init__(self, place: int, segment_bytes: int, message_bytes_max: int) -> None:
        self.place = place
        self._segment_bytes = segment_bytes
        self._record_bytes_max = message_bytes_max + BESIDE_BODY_BYTES_MAX
        self._waiting = bytearray()
        self._wanted = 0  # so many bytes complete what waits
        self._blank_left = 0

    @property
    def received(self) -> int:
        """Where the next byte lies."""
        return self.place - self._blank_left + len(self._waiting)

    def take(self, data: bytes) -> list[StoredRecords]:
        """Return what some bytes complete.

        Raises:
            WireError: They are not those of a log with files of this size. The stream is not to be
                used any more.
        """
        found: list[StoredRecords] = []
        at = 0
        while self._waiting:
            more = data[at : at + self._wanted - len(self._waiting)]
            at += len(more)
            self._waiting += more
            if len(self._waiting) < self._wanted:
                return found
            first, self._waiting = bytes(self._waiting), bytearray()
            self._walk(first, 0, found)
        self._walk(data, at, found)
        return found

    def _walk(self, data: bytes, at: int, found: list[StoredRecords]) -> None:
        """Take up what some bytes have from a place on; what is not whole waits."""
        while True:
            skipped = min(self._blank_left, len(data) - at)
            self._blank_left -= skipped
            at += skipped
            before = at
            records, at = self._records(data, at)
            if records is not None:
                found.append(records)
            if at == before:
                break
        self._waiting += data[at:]

    def _records(self, data: bytes, at: int) -> tuple[StoredRecords | None, int]:
        """Return the next whole records and the end of their file, and where in `data` they end."""
        start = self.place
        room = self._segment_bytes - start % self._segment_bytes
        limit = min(len(data), at + room - BLANK_BYTES)
        whole = self._whole(data, at, limit, start - at)
        behind = whole.behind
        self.place = start + behind - at
        blank = self._after(data, behind, room - (behind - at))
        if blank:
            self.place += blank
            self._blank_left = blank - BLANK_BYTES
            behind += BLANK_BYTES
        if behind == at:
            return None, at
        last = start + whole.last - at if whole.count else -1
        return StoredRecords(
            start,
            memoryview(data)[at:behind],
            whole.count,
            last,
            self.place,
            RecordBatch(whole.records)
            if whole.records is not None and whole.count >= KEPT_MIN
            else None,
        ), behind

    def _whole(self, data: bytes, at: int, limit: int, base: int) -> "_Whole":
        """Return the records that are whole, looked at.

        Args:
            data: What has come.
            at: Where in it the first begins.
            limit: Where in it the last ends at most.
            base: The place of the first byte of `data`.

        Raises:
            WireError: One may not lie where it does.
        """
        positions, behind = record_scan.plain_positions(data, at, limit, base, COLUMNS_MIN)
        if len(positions) >= COLUMNS_MIN:
            scan = columns.scan(data, at, limit)
            records = columns.records(data, scan.positions, scan.stopped_at, base)
            if len(records) == len(scan.positions):
                return _Whole(len(records), int(records.start[-1]), scan.stopped_at, records)
        odd, behind = record_scan.positions(data, behind, limit, len(data))
        for position in odd:
            self._check(data, position, base + position)
        positions += odd
        return _Whole(len(positions), positions[-1] if positions else -1, behind, None)

    def _check(self, data: bytes, position: int, place: int) -> None:
        """Raise WireError unless the record at a position may lie at a place of the log."""
        (named,) = I64.unpack_from(data, position + PHYSICAL_OFFSET_AT)
        if named != place:
            raise WireError(f"the record at {place} says that it lies at {named}")
        parts(data, position)

    def _after(self, data: bytes, at: int, room: int) -> int:
        """Look at what is not a whole record: return the size of a blank, 0 if more is to come.

        Args:
            data: What has come.
            at: Where in it that is.
            room: How much the file has from there on.

        Raises:
            WireError: It can be neither a blank nor a record.
        """
        self._wanted = BLANK_BYTES
        if len(data) - at < BLANK_BYTES:
            return 0
        size, magic = HEAD.unpack_from(data, at)
        if magic == MAGIC_BLANK and size == room:
            return room
        place = self.place
        if magic not in MAGICS:
            if magic == MAGIC_BLANK:
                raise WireError(
                    f"a file of the log ends at {place + size}, here at {place + room}: are its "
                    "files of another size (log.segment_bytes)?"
                )
            raise WireError(f"no record begins at {place}: magic {magic:#010x}")
        if size < RECORD_BYTES_MIN or size > room - BLANK_BYTES:
            raise WireError(
                f"a record of {size} bytes at {place}, where a file ends after {room}: are the "
                "files of the log of another size (log.segment_bytes)?"
            )
        if size > self._record_bytes_max:
            raise WireError(
                f"a record of {size} bytes at {place} is larger than any of "
                f"{self._record_bytes_max - BESIDE_BODY_BYTES_MAX} may be (store.message_bytes_max)"
            )
        self._wanted = size
        return 0
