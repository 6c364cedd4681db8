"""Salvage: every whole message of a virtual host, in a new folder of version 1.

Messages keep their sequence ids, their expiry and the order of their queue. Small ones lie in the
queues' own files, large ones once in the message store, as RabbitMQ places them. Queues of version
2 become queues of version 1, which RabbitMQ converts back if they are to be of version 2.

The new folder is that of a clean stop if all of the old queues left their terms: then what was not
delivered before is not marked as redelivered. Else it is like one after a crash, which RabbitMQ
reads whole. The old folder is only read. What exchanges keep until it is due is copied, too.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby

from msgspec import Struct, structs

from sprocket.base.disk import Disk, copying
from sprocket.base.folder_report import FolderReport
from sprocket.base.progress import Step, unwatched
from sprocket.rabbitmq.codec import index, message_term
from sprocket.rabbitmq.codec.store import QueueTerms, clean_stop, entries, recovery_terms
from sprocket.rabbitmq.model.names import name_bytes
from sprocket.rabbitmq.settings import VhostStoreSettings
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import MessageStoreLayout, QueueLayout, VhostLayout
from sprocket.rabbitmq.store.reading import (
    FoundMessage,
    FoundQueue,
    QueuePart,
    VhostReader,
)

_SETTINGS = VhostStoreSettings()
"""Where a message lies, and how long store files are: RabbitMQ's defaults."""


class LostMessage(Struct, frozen=True):
    """A message that was not copied.

    Attributes:
        queue: Where it was.
        seq_id: Its number there.
        file: The file that tells of it.
        position: Bytes into that file.
        why: Why it cannot be read.
    """

    queue: str
    seq_id: int
    file: str
    position: int
    why: str


class VhostSalvageReport(FolderReport, frozen=True, kw_only=True):
    """What was copied and what was not.

    Attributes:
        vhost: The virtual host.
        queues: How many have a folder in the new one.
        messages: How many were copied; one in several queues counts in each.
        stored: How many of them are in the message store, once each.
        body_bytes: Of the bodies copied.
        delayed: Messages copied that exchanges keep until they are due.
        clean_stop: Whether the new folder says which messages were delivered.
        lost: Messages that are left, but cannot be read.
        nameless: Folders whose queue cannot be known: not copied, as nobody would find them.
        damage: What else was wrong.
    """

    TABLES = (("lost", "cannot be read"), ("damage", "damaged"))
    HIDDEN = ("nameless",)
    SENTENCES = "fault"

    vhost: str
    queues: int
    messages: int
    stored: int
    body_bytes: int
    delayed: int
    clean_stop: bool
    lost: list[LostMessage]
    nameless: list[str]
    damage: list[str]


def salvage_vhost(
    disk: Disk, source: str, target: str, *, step: Step = unwatched
) -> VhostSalvageReport:
    """Copy what is whole of a virtual host into a new folder.

    Args:
        disk: Where both lie.
        source: The folder of the virtual host.
        target: The folder of the new one, missing or empty. RabbitMQ looks for it under the name
            that `layout.vhost_folder` gives.
        step: Is told how many queues of how many are done.

    Raises:
        ForeignStore: `source` is not such a folder, or `target` holds something.
        DiskFull, DiskFailed: The new folder is not whole; remove it and begin again.
    Durability: on return the new folder is on the disk.
    """
    copying.require_empty(disk, target)
    copying.require_outside(target, source)
    with closing(VhostReader(disk, source)) as reader:
        return _Copy(disk, reader, VhostLayout(target)).run(step)


class _Copy:
    def __init__(self, disk: Disk, reader: VhostReader, new: VhostLayout) -> None:
        self._disk = disk
        self._reader = reader
        self._new = new
        self._store = _StoreWriter(disk, new.persistent)
        self._messages = 0
        self._body_bytes = 0
        self._lost: list[LostMessage] = []
        self._nameless: list[str] = []
        self._terms: dict[str, QueueTerms] = {}

    def run(self, step: Step) -> VhostSalvageReport:
        reader, new = self._reader, self._new
        self._put(new.name, name_bytes(reader.name))
        self._put(new.config, clean_stop.encode_config(reader.segment_entry_count))
        self._disk.make_folder(new.queues)
        queues = reader.queues()
        parts = 0
        for done, queue in enumerate(queues):
            step("copying", done, len(queues))
            for part in queue.parts:
                if layout.queue_folder(part.queue) != part.folder:
                    self._nameless.append(part.folder)
                else:
                    parts += 1
                    self._copy_part(queue, part)
        self._store.close()
        waiting = reader.waiting()
        delayed = waiting.copy(new.delayed) if waiting.manifest.counts else 0
        is_clean = self._leave_terms(queues)
        self._disk.sync_folder(new.root)
        return VhostSalvageReport(
            vhost=reader.name,
            queues=parts,
            messages=self._messages,
            stored=self._store.count,
            body_bytes=self._body_bytes,
            delayed=delayed,
            clean_stop=is_clean,
            lost=self._lost,
            nameless=self._nameless,
            damage=[*(str(fault) for fault in reader.faults), *waiting.faults],
        )

    def _copy_part(self, queue: FoundQueue, part: QueuePart) -> None:
        paths = self._new.queue(part.folder)
        self._put(paths.name, layout.encode_queue_name(part.queue))
        alone = FoundQueue(queue.vhost, queue.name, (part,))
        count = self._reader.segment_entry_count
        left: Counter[int] = Counter()
        messages = body_bytes = 0

        def segment_of(found: FoundMessage) -> int:
            return found.seq_id // count

        for number, group in groupby(self._readable(alone), key=segment_of):
            copied = list(group)
            self._put_segment(paths, number, copied)
            left[number] = len(copied)
            messages += len(copied)
            body_bytes += sum(found.body_size for found in copied)
        self._put(paths.journal, b"")
        self._disk.sync_folder(paths.root)
        self._messages += messages
        self._body_bytes += body_bytes
        if part.terms is not None:
            self._terms[part.folder] = structs.replace(
                part.terms,
                segments=dict(left),
                persistent_count=messages,
                persistent_bytes=body_bytes,
                is_v2=False,
            )

    def _readable(self, queue: FoundQueue) -> Iterator[FoundMessage]:
        """Give the messages that are left, those that cannot be read to the report."""
        for found in self._reader.messages(queue):
            if found.message is None:
                self._lost.append(
                    LostMessage(
                        *(queue.name, found.seq_id, found.path, found.position, found.fault)
                    )
                )
            else:
                size = found.message.body_size
                yield replace(found, body_size=size)

    def _put_segment(self, paths: QueueLayout, number: int, found: Sequence[FoundMessage]) -> None:
        """Write the messages of a segment as a flush of RabbitMQ's does: the last one first."""
        first = number * self._reader.segment_entry_count
        parts: list[bytes] = []
        for one in reversed(found):
            assert one.message is not None, "the others are lost"
            term = message_term.encode(one.message)
            if not message_term.is_embedded(one.message, _SETTINGS.embed_bytes_below):
                self._store.put(one.message.id, term)
                term = b""
            record = index.publish(
                *(one.seq_id, one.message.id, one.expiry_us, one.body_size, term),
                is_persistent=True,
            )
            relative = one.seq_id - first
            parts += (index.segment_publish(relative, record), index.segment_mark(relative))
        self._put(paths.segment(number), b"".join(parts))

    def _leave_terms(self, queues: Sequence[FoundQueue]) -> bool:
        """Write what the queues left, if all did; say whether."""
        if not all(part.terms for queue in queues for part in queue.parts):
            return False
        # A queue that never wrote anything has terms and no folder.
        terms = {**self._reader.terms, **self._terms}
        for folder in self._nameless:
            terms.pop(folder, None)
        if not terms:
            return False
        self._put(self._new.recovery_terms, recovery_terms.encode(terms))
        return True

    def _put(self, path: str, data: bytes) -> None:
        self._disk.make_folder(path.rpartition("/")[0])
        with closing(self._disk.open(path, write=True, create=True)) as file:
            file.write([data], 0)
            file.sync()


class _StoreWriter:
    """Writes each message once, into one file of a message store after the other."""

    def __init__(self, disk: Disk, store: MessageStoreLayout) -> None:
        self._disk = disk
        self._layout = store
        self._ids: set[bytes] = set()
        self._number = 0
        self._position = 0
        disk.make_folder(store.root)
        self._file = disk.open(store.file(0), write=True, create=True)

    @property
    def count(self) -> int:
        """Messages that it has."""
        return len(self._ids)

    def put(self, message_id: bytes, term: bytes) -> None:
        """Write a message, unless it is there already."""
        if message_id in self._ids:
            return
        self._ids.add(message_id)
        self._position += self._file.write(entries.entry(message_id, term), self._position)
        if self._position >= _SETTINGS.store_file_bytes:
            self._roll()

    def _roll(self) -> None:
        self._file.sync()
        self._file.close()
        self._number += 1
        self._position = 0
        self._file = self._disk.open(self._layout.file(self._number), write=True, create=True)

    def close(self) -> None:
        """End the last file; all of it is on the disk."""
        self._file.sync()
        self._file.close()
        self._disk.sync_folder(self._layout.root)
