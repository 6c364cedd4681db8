"""The messages of a message store, found by reading all of its files."""

from collections.abc import Callable
from typing import NamedTuple

from sprocket.base.checksum import crc32
from sprocket.base.disk import File
from sprocket.base.errors import CorruptRecord, DiskFailed, StoreError
from sprocket.rabbitmq.codec import checksums
from sprocket.rabbitmq.codec.checksums import TermSum
from sprocket.rabbitmq.codec.store import Gap, StoreEntry, entries
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import MessageStoreLayout
from sprocket.rabbitmq.store.reading.faults import FaultyReads

OPEN_FILES_MAX = 64


class MessageMissing(StoreError):
    """No file of the message store has the message whole."""


class _Location(NamedTuple):
    path: str
    position: int
    size: int


class SharedMessages:
    """One message store; what its tables of a clean stop say is not trusted.

    The files are scanned when the first message is asked for. It takes some 400 bytes of memory
    for each message. A message whose checksum is beside its file, or in our log, is compared.

    Args:
        reads: Keeps what is wrong.
        store: Its paths.
        log_sums: Gives the checksums that our write-ahead log has.
    """

    def __init__(
        self,
        reads: FaultyReads,
        store: MessageStoreLayout,
        log_sums: Callable[[], bytes] = bytes,
    ) -> None:
        self._reads = reads
        self._store = store
        self._log_sums = log_sums
        self._sums: dict[bytes, TermSum] = {}
        self._locations: dict[bytes, _Location] | None = None
        self._copies: dict[bytes, list[_Location]] = {}
        self._open: dict[str, File] = {}

    def term(self, message_id: bytes) -> bytes:
        """Return the term of a message.

        Raises:
            MessageMissing: No file has it whole.
            DiskFailed: Its bytes cannot be read.
        """
        found = self._found().get(message_id)
        if found is None:
            raise MessageMissing(f"{self._store.root} has no message {message_id.hex()}")
        for place in (found, *self._copies.get(message_id, ())):
            try:
                return self._term_at(place, message_id)
            except (CorruptRecord, DiskFailed) as error:
                failed = error
        raise failed

    def positions(self, message_id: bytes) -> list[tuple[str, int]]:
        """Return file and position of each copy of a message."""
        found = self._found().get(message_id)
        copies = self._copies.get(message_id, [])
        return [(one.path, one.position) for one in (found, *copies) if one is not None]

    def close(self) -> None:
        """Close its files."""
        while self._open:
            self._open.popitem()[1].close()

    def _term_at(self, place: _Location, message_id: bytes) -> bytes:
        data = self._file(place.path).read(place.position, place.size)
        if len(data) < place.size or data[-1:] != entries.MARK:
            raise CorruptRecord(f"{place.path} at {place.position}: the message is not whole")
        if entries.HEAD.unpack_from(data)[1] != message_id:
            raise CorruptRecord(f"{place.path} at {place.position}: another message is there")
        term = data[entries.HEAD.size : -len(entries.MARK)]
        known = self._sums.get(message_id)
        if known is not None and known != TermSum(len(term), crc32(term)):
            raise CorruptRecord(
                f"{place.path} at {place.position}: the message has another checksum"
            )
        return term

    def _file(self, path: str) -> File:
        file = self._open.pop(path, None)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._open.pop(next(iter(self._open))).close()
            file = self._reads.disk.open(path)
        self._open[path] = file
        return file

    def _found(self) -> dict[bytes, _Location]:
        if self._locations is None:
            self._locations = {}
            names = self._reads.disk.list(self._store.root)
            for number in layout.numbers(names, layout.SUMS):
                data = self._reads.read(self._store.sums(number))
                self._sums |= checksums.decode(data or b"")
            self._sums |= checksums.decode(self._log_sums())
            # What a compaction wrote is a second copy, unless the crash cut its file just then.
            for path in (
                *(self._store.file(n) for n in layout.numbers(names, layout.STORE_FILE)),
                *(
                    self._store.compacted_file(n)
                    for n in layout.numbers(names, layout.COMPACTED_FILE)
                ),
            ):
                self._scan(path, self._locations)
        return self._locations

    def _scan(self, path: str, locations: dict[bytes, _Location]) -> None:
        """Note each entry of a file."""
        try:
            file = self._file(path)
            size = file.size()
        except DiskFailed as error:
            self._reads.tell(path, 0, str(error))
            return

        def read(position: int, count: int) -> bytes:
            return self._reads.read_around(file, position, count)

        for one in entries.scan(read, size):
            if isinstance(one, Gap):
                self._reads.tell(path, one.start, _described(one))
            else:
                self._note(_Location(path, one.position, one.size), one, locations)

    def _note(self, place: _Location, entry: StoreEntry, locations: dict[bytes, _Location]) -> None:
        if locations.setdefault(entry.id, place) is not place:
            self._copies.setdefault(entry.id, []).append(place)


def _described(gap: Gap) -> str:
    rest = "; RabbitMQ reads nothing behind it" if gap.hides_rest else ""
    return f"{gap.why}: {gap.end - gap.start} bytes are not a message{rest}"
