"""What a queue of version 2 has, as records of a journal.

So it comes into segments of version 1 by the way that whatever a journal has does: see `recovery`,
which removes these files when it is there. Files of both versions are a conversion that was cut
short; what both have counts once.

Source: RabbitMQ 3.10.8 `rabbit_classic_queue_index_v2`; docs/formats/rabbitmq-queue-index-v2.md.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from sprocket.base.disk import Disk, File, read_file, remove_if_there
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import index, message_term
from sprocket.rabbitmq.codec.index import BoundsV2, IndexFinding, MessagePlace, SegmentV2
from sprocket.rabbitmq.store.damage import FileDamage
from sprocket.rabbitmq.store.layout import SEGMENT_V2, STORE_V2, QueueLayout, numbers


class RecordsV2(NamedTuple):
    """Messages of version 2.

    Attributes:
        data: A publish and a deliver record of each, as a journal has them.
        lost: Sequence ids of those whose message cannot be read.
    """

    data: bytes
    lost: list[int]


@dataclass(slots=True)
class FilesV2:
    """The files of version 2 of one queue.

    Attributes:
        layout: Their paths.
        segments: Numbers of those with entries.
        stores: Numbers of those with messages.
        bounds: Of the segments that can be read, which sequence ids they have.
        damage: What should not be there, as far as it was read.
        set_aside: Segments with something that could not be read.
    """

    disk: Disk
    layout: QueueLayout
    segments: list[int]
    stores: list[int]
    bounds: dict[int, BoundsV2] = field(default_factory=dict)
    damage: list[FileDamage] = field(default_factory=list)
    set_aside: set[int] = field(default_factory=set)

    def touched(self, entry_count: int) -> set[int]:
        """Return the numbers of the segments of version 1 that they may have messages of."""
        return {
            number
            for one in self.bounds.values()
            for number in range(one.first // entry_count, -(-one.end // entry_count))
        }

    def records(self, first: int, end: int) -> RecordsV2:
        """Return what is to survive a restart from one sequence id up to before another.

        Raises:
            DiskFailed: A file cannot be read.
        """
        parts: list[bytes] = []
        lost: list[int] = []
        for number, bounds in self.bounds.items():
            if bounds.first < end and first < bounds.end:
                self._add(number, first, end, parts, lost)
        return RecordsV2(b"".join(parts), lost)

    def _add(self, number: int, first: int, end: int, parts: list[bytes], lost: list[int]) -> None:
        path, store_path = self.layout.segment_v2(number), self.layout.store_v2(number)
        segment = index.read_segment_v2(
            read_file(self.disk, path), _head(self.disk, store_path, number in self.stores)
        )
        store = self.disk.open(store_path) if number in self.stores else None
        try:
            seq_ids = segment.seq_ids.tolist()
            for row in segment.is_persistent.nonzero()[0].tolist():
                if not first <= seq_ids[row] < end:
                    continue
                try:
                    parts += (_record(segment, row, store), index.deliver(seq_ids[row]))
                except CorruptRecord as error:
                    lost.append(seq_ids[row])
                    what = f"message {seq_ids[row]} cannot be read: {error}"
                    self._tell(number, IndexFinding(int(segment.starts[row]), what))
        finally:
            if store is not None:
                store.close()

    def _tell(self, number: int, finding: IndexFinding) -> None:
        path = self.layout.segment_v2(number)
        self.damage.append(FileDamage(path, finding.position, finding.what))
        self.set_aside.add(number)

    def read(self) -> None:
        """Find which sequence ids there are, and what is wrong with the entries.

        Raises:
            DiskFailed: A file cannot be read.
        """
        for number in self.segments:
            path, store_path = self.layout.segment_v2(number), self.layout.store_v2(number)
            data = read_file(self.disk, path)
            head = _head(self.disk, store_path, number in self.stores)
            try:
                for finding in index.read_segment_v2(data, head).findings:
                    self._tell(number, finding)
                self.bounds[number] = index.bounds_v2(data, head)
            except CorruptRecord as error:
                self._tell(number, IndexFinding(0, f"its messages cannot be read: {error}"))

    def remove_entries(self) -> None:
        """Remove the entries, or set them aside; to be durable before `remove_messages`.

        Raises:
            DiskFailed: Some may be left; it may be called again.
        """
        for number in self.segments:
            self._remove(number, self.layout.segment_v2(number))

    def remove_messages(self) -> None:
        """Remove the messages, or set them aside. Raises DiskFailed, as `remove_entries`."""
        for number in self.stores:
            self._remove(number, self.layout.store_v2(number))

    def _remove(self, number: int, path: str) -> None:
        if number in self.set_aside:
            self.disk.rename(path, self.layout.set_aside(path))
        else:
            remove_if_there(self.disk, path)


def files_v2(disk: Disk, layout: QueueLayout, names: dict[str, int]) -> FilesV2 | None:
    """Return a queue's files of version 2; None if it has none.

    Args:
        disk: Where they lie.
        layout: Their paths.
        names: What is in its folder.

    Raises:
        DiskFailed: A file cannot be read.
    """
    segments, stores = numbers(names, SEGMENT_V2), numbers(names, STORE_V2)
    if not segments and not stores:
        return None
    base = layout.segment_v2
    gone = [n for n in stores if layout.set_aside(base(n)).rpartition("/")[2] in names]
    found = FilesV2(disk, layout, segments, stores, set_aside=set(gone))
    found.read()
    return found


def _head(disk: Disk, path: str, is_there: bool) -> bytes:
    """Return what a file of messages begins with."""
    if not is_there:
        return b""
    file = disk.open(path)
    try:
        return file.read(0, min(index.HEADER_BYTES, file.size()))
    finally:
        file.close()


def _record(segment: SegmentV2, row: int, store: File | None) -> bytes:
    """Return a message's publish record. Raises CorruptRecord if the message cannot be read."""
    seq_id, place = int(segment.seq_ids[row]), int(segment.places[row])
    term = b""
    if place == MessagePlace.SHARED_STORE:
        message_id = segment.message_ids[row].tobytes()
    elif place == MessagePlace.QUEUE_STORE:
        if store is None:
            raise CorruptRecord("the file of its messages is missing")
        term = stored_term(store, int(segment.positions[row]), int(segment.sizes[row]))
        message_id = message_term.decode(term).id
    else:
        raise CorruptRecord("it is in no file")
    return index.publish(
        seq_id,
        message_id,
        int(segment.expiry_us[row]),
        int(segment.body_sizes[row]),
        term,
        is_persistent=True,
    )


def stored_term(store: File, start: int, size: int) -> bytes:
    """Return the term of a message in an N.qs.

    Args:
        store: The file.
        start: Where its head is, as the index says.
        size: Bytes of the term, as the index says.

    Raises:
        CorruptRecord: It is not there, or not what was stored.
        DiskFailed: It cannot be read.
    """
    if start < index.HEADER_BYTES:
        raise CorruptRecord(f"no message begins at {start} of {store.path}")
    end = min(store.size(), start + index.STORED_HEAD.size + size)
    return index.stored_term(store.read(start, max(0, end - start)), size)
