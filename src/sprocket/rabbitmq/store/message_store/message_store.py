"""The messages that are too large for queues' indexes, each once for all queues that have it.

Theory of operation

A message is put at the end of the newest file when the first queue gets it; its entry is in memory
until `write`, which is called with that of the write-ahead log. The log syncs the store's files
before its own: an index record that is durable never speaks of a message that is not.

For each message the store knows how many queues have it, and where it lies. When none has it any
more it is forgotten, and its bytes are garbage. `collect_steps` removes files that are all
garbage, and where more than half is, puts what is left of two files into one: into a new file,
which then takes the place of the first. A message is never written over.

Each message's checksum goes to the log with its entry (RECORDS of the store's origin), and when a
file is full to a file beside it (`codec/checksums`). What was written last before a power loss may
be torn, though its last byte is there: recovery compares these. What is read later is compared,
too.

Invariants

1. The valid bytes of a file are those of the entries that some queue needs.
2. The newest file alone is appended to; it is never collected.
3. A file goes, and garbage with it, only when it is durable that no queue needs it.

Source: RabbitMQ 3.10.8 `rabbit_msg_store`; docs/formats/rabbitmq-message-store.md.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer, Disk, File, Steps, StepsTo, remove_if_there, steps
from sprocket.base.errors import CorruptRecord, StoreError
from sprocket.rabbitmq.codec import checksums
from sprocket.rabbitmq.codec.checksums import TermSum
from sprocket.rabbitmq.codec.store import entries
from sprocket.rabbitmq.model.message import ID_BYTES
from sprocket.rabbitmq.store.layout import MessageStoreLayout
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog

OPEN_FILES_MAX = 32


@dataclass(slots=True)
class KeptMessage:
    """Where a message lies.

    Attributes:
        references: Queues that have it.
        file: Number of the file.
        position: Of its entry in the file.
        term_size: Bytes of its term.
        crc: CRC-32 of its term; None if nobody knows.
    """

    references: int
    file: int
    position: int
    term_size: int
    crc: int | None

    @property
    def entry_bytes(self) -> int:
        """Bytes of its entry."""
        return entries.entry_size(self.term_size)


@dataclass(slots=True)
class StoreFile:
    """How full a file is, in bytes: of all, and of what some queue needs."""

    file_bytes: int = 0
    valid_bytes: int = 0


@dataclass(frozen=True, slots=True)
class StoreContents:
    """What is in a store when it is opened.

    Attributes:
        messages: By id.
        files: By number.
    """

    messages: dict[bytes, KeptMessage]
    files: dict[int, StoreFile]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Bytes that are to be written."""

    file: int
    position: int
    buffers: Sequence[Buffer]


class StoreSync:
    """Makes durable what a store had written when it was begun."""

    def __init__(self, store: "MessageStore", files: dict[File, int]) -> None:
        self._store = store
        self._files = files

    def run(self) -> None:
        """Sync.

        Raises:
            DiskFailed: What reached the disk is unknown.
        Threads: any.
        """
        for file in self._files:
            file.sync()

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended."""
        if error is None:
            self._store._note_sync(self._files)


class MessageStore:
    """See the head of the module.

    Args:
        disk: Where it lies.
        layout: Its paths; the folder exists.
        log: What makes its messages durable; calls `write` and `begin_sync`.
        origin: Its name in the log.
        contents: What there is.
        file_bytes: From which size on the next file is begun.

    Threads: one at a time; calls that steps give may run elsewhere.
    """

    def __init__(
        self,
        disk: Disk,
        layout: MessageStoreLayout,
        log: WriteAheadLog,
        origin: Origin,
        contents: StoreContents,
        file_bytes: int,
    ) -> None:
        self.disk = disk
        self.layout = layout
        self.log = log
        self.messages = contents.messages
        self.files = contents.files
        self.file_bytes = file_bytes
        self._origin = origin
        self._number = max(self.files, default=0)
        self.files.setdefault(self._number, StoreFile())
        self._handles: dict[int, File] = {}
        self._waiting: list[_Waiting] = []
        self._terms: dict[bytes, bytes] = {}
        self._expected_bytes = 0
        self._shortened: set[int] = set()
        """Files of which messages were withdrawn; there may be something after their ends."""
        self._writes = 0
        self._unsynced: dict[File, int] = {}
        self._sums: dict[int, list[bytes]] = {}
        self._flushing: dict[int, bytes] = {}
        """Checksums that are being put into files, by the numbers of these."""
        log.write_with(self)

    # -- messages

    def add(self, message_id: bytes, term: bytes, references: int = 1) -> None:
        """Append a message for this many queues; one that is there is only counted.

        Durability: with the log's next sync.
        """
        known = self.messages.get(message_id)
        if known is not None:
            known.references += references
            return
        number = self._number
        file = self.files[number]
        crc = crc32(term)
        found = KeptMessage(references, number, file.file_bytes, len(term), crc)
        self.messages[message_id] = found
        buffers = entries.entry(message_id, term)
        self._waiting.append(_Waiting(number, file.file_bytes, buffers))
        self._expect(len(term))
        self._terms[message_id] = term
        record = checksums.encode(message_id, TermSum(len(term), crc))
        self._sums.setdefault(number, []).append(record)
        self.log.append(self._origin, record)
        file.file_bytes += found.entry_bytes
        file.valid_bytes += found.entry_bytes
        if file.file_bytes >= self.file_bytes:
            self._number += 1
            self.files[self._number] = StoreFile()

    def remove(self, message_ids: Iterable[bytes]) -> None:
        """Note of each message that one queue less has it."""
        for message_id in message_ids:
            known = self.messages[message_id]
            known.references -= 1
            if not known.references:
                del self.messages[message_id]
                self.files[known.file].valid_bytes -= known.entry_bytes

    def withdraw(self, message_ids: Sequence[bytes]) -> None:
        """Note of each message that one queue less has it, as nothing says otherwise yet.

        What none has any more and is not written is gone, and so are its checksums; what is after
        it moves up.
        """
        self.remove(message_ids)
        gone = {one for one in message_ids if one not in self.messages}
        kept: list[_Waiting] = []
        ends: dict[int, int] = {}
        for one in self._waiting:
            end = ends.setdefault(one.file, one.position)
            _, message_id = entries.HEAD.unpack(one.buffers[0])
            known = self.messages.get(message_id)
            if known is None:
                gone.add(message_id)
            if known is None or (known.file, known.position) != (one.file, one.position):
                self._expect(-len(one.buffers[1]))
                continue
            known.position = end
            kept.append(replace(one, position=end))
            ends[one.file] = end + known.entry_bytes
        self._waiting = kept
        for number, end in ends.items():
            self._shortened.add(number)
            self.files[number].file_bytes = end
            if not end and number != self._number:
                del self.files[number]
        for message_id in gone:
            self._terms.pop(message_id, None)
        for number, records in self._sums.items():
            self._sums[number] = [one for one in records if one[:ID_BYTES] not in gone]
        self.log.withdraw(self._origin, partial(_without, gone))

    def __contains__(self, message_id: bytes) -> bool:
        return message_id in self.messages

    def __len__(self) -> int:
        return len(self.messages)

    def read(self, message_id: bytes) -> bytes:
        """Return a message's term.

        Raises:
            CorruptRecord: It is not what was stored.
            DiskFailed: It cannot be read.
        """
        (found,) = steps.run(self.read_steps([message_id]))
        if isinstance(found, StoreError):
            raise found
        return found

    def read_steps(self, message_ids: Sequence[bytes]) -> StepsTo[list[bytes | StoreError]]:
        """Return the terms of messages, or why one cannot be had.

        They may be collected, or removed, while they are read.
        """
        waiting = [self._terms.get(one) for one in message_ids]
        locations = [
            self._location(one)
            for one, term in zip(message_ids, waiting, strict=True)
            if term is None
        ]
        read: list[bytes | StoreError] = []
        if locations:
            read = yield partial(_read_locations, locations)
        rest = iter(read)
        return [next(rest) if term is None else term for term in waiting]

    def _location(self, message_id: bytes) -> "_Location | StoreError":
        known = self.messages.get(message_id)
        if known is None:
            what = f"{self.layout.root} has no message {message_id.hex()}"
            return CorruptRecord(what)
        try:
            return _Location(self.handle(known.file), message_id, replace(known))
        except StoreError as error:
            return error

    # -- what the log calls

    def write(self) -> None:
        """Hand all that was added to the file system.

        Raises:
            DiskFull, DiskFailed: It is kept, and written by the next call.
        """
        if not self._waiting and not self._shortened:
            return
        self._cut()
        at = 0
        while at < len(self._waiting):
            first = self._waiting[at]
            end = at
            buffers: list[Buffer] = []
            while end < len(self._waiting) and self._waiting[end].file == first.file:
                buffers += self._waiting[end].buffers
                end += 1
            file = self.handle(first.file)
            if not first.position:
                self.disk.sync_folder(self.layout.root)
            self._writes += 1
            self._unsynced[file] = self._writes
            file.write(buffers, first.position)
            at = end
        self._waiting, self._terms = [], {}
        self._expect(-self._expected_bytes)

    def _expect(self, size: int) -> None:
        """Let the log count what is written with it."""
        self._expected_bytes += size
        self.log.expect(size)

    def _cut(self) -> None:
        """Remove what failed writes may have left of messages that were withdrawn."""
        for number in [*self._shortened]:
            if number in self.files:
                waiting = [one.position for one in self._waiting if one.file == number]
                file, end = self.handle(number), min([self.files[number].file_bytes, *waiting])
                if file.size() > end:
                    file.resize(end)
            else:
                self.drop_handle(number)
                remove_if_there(self.disk, self.layout.file(number))
            self._shortened.remove(number)

    def begin_sync(self) -> StoreSync | None:
        """Return what makes durable all that is written; None if it is."""
        return StoreSync(self, dict(self._unsynced)) if self._unsynced else None

    def _note_sync(self, files: dict[File, int]) -> None:
        for file, writes in files.items():
            if self._unsynced.get(file) == writes:
                del self._unsynced[file]

    # -- checksums

    @property
    def full_files(self) -> list[int]:
        """Numbers of files that are full and whose checksums are only in the log."""
        return [number for number in (*self._flushing, *self._sums) if number != self._number]

    def sums_steps(self, *, also_newest: bool = False) -> Steps:
        """Put the checksums that only the log has into files beside those of messages.

        Args:
            also_newest: Of the newest file, too.

        Raises:
            DiskFull, DiskFailed, StoreFailed: The log still has them; called again it goes on.
        """
        if self._flushing:
            yield from self._flush_sums_steps()
        numbers = [number for number in self._sums if also_newest or number != self._number]
        if not numbers:
            return
        self._flushing = {number: b"".join(self._sums.pop(number)) for number in numbers}
        self.log.begin_flush(self._origin, [])
        for records in self._sums.values():
            self.log.append(self._origin, b"".join(records))
        yield from self._flush_sums_steps()

    def _flush_sums_steps(self) -> Steps:
        """Continue with a flush that was begun: a record that is there twice does no harm."""
        yield from self.log.commit_steps()
        for number, data in self._flushing.items():
            yield partial(self._append_sums, number, data)
        yield partial(self.disk.sync_folder, self.layout.root)
        self.log.end_flush(self._origin)
        self._flushing = {}

    def _append_sums(self, number: int, data: bytes) -> None:
        path = self.layout.sums(number)
        file = self.disk.open(path, write=True, create=True)
        try:
            size = file.size()
            file.write([data], size - size % checksums.RECORD_BYTES)
            file.sync()
        finally:
            file.close()

    # -- files

    @property
    def newest(self) -> int:
        """The number of the file that is appended to."""
        return self._number

    def handle(self, number: int) -> File:
        """Return a file, opened; it is made if it is not there.

        Raises:
            DiskFull, DiskFailed: It cannot be.
        """
        found = self._handles.get(number)
        if found is None:
            found = self.disk.open(self.layout.file(number), write=True, create=True)
            if len(self._handles) >= OPEN_FILES_MAX:
                del self._handles[next(iter(self._handles))]  # others may still be using it
            self._handles[number] = found
        return found

    def drop_handle(self, number: int) -> None:
        """Forget a file that was removed or replaced; reads that have begun may continue."""
        self._handles.pop(number, None)

    def close(self) -> None:
        """Give the files up."""
        for file in self._handles.values():
            file.close()
        self._handles = {}


def _without(gone: Container[bytes], records: bytes) -> bytes:
    """Return the checksums of messages that are not gone."""
    some = range(0, len(records), checksums.RECORD_BYTES)
    return b"".join(
        [
            records[at : at + checksums.RECORD_BYTES]
            for at in some
            if records[at : at + ID_BYTES] not in gone
        ]
    )


@dataclass(frozen=True, slots=True)
class _Location:
    """A message that is to be read, and where it lies; its file stays readable when it is gone."""

    file: File
    id: bytes
    kept: KeptMessage


def _read_locations(locations: Sequence[_Location | StoreError]) -> list[bytes | StoreError]:
    """Read messages, on any thread; what cannot be read is the error that says why."""
    found: list[bytes | StoreError] = []
    for one in locations:
        if isinstance(one, StoreError):
            found.append(one)
            continue
        try:
            data = one.file.read(one.kept.position, one.kept.entry_bytes)
            found.append(check_entry(data, one.id, one.kept, one.file.path))
        except StoreError as error:
            found.append(error)
    return found


def check_entry(data: bytes, message_id: bytes, known: KeptMessage, path: str) -> bytes:
    """Return the term in an entry's bytes.

    Raises:
        CorruptRecord: Size, id, mark or checksum are not those of the message.
    """
    expected = entries.HEAD.pack(known.term_size + len(message_id), message_id)
    term = data[entries.HEAD.size : -len(entries.MARK)]
    whole = len(data) == known.entry_bytes
    if not whole or not data.startswith(expected) or not data.endswith(entries.MARK):
        raise CorruptRecord(
            f"{path}: at {known.position} is not message {message_id.hex()} of {known.term_size}"
        )
    if known.crc is not None and crc32(term) != known.crc:
        raise CorruptRecord(
            f"{path}: message {message_id.hex()} at {known.position} has another checksum"
        )
    return term
