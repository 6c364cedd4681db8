"""Checks the folder of a virtual host: what is damaged, and what disagrees. Nothing is written.

Every message is read. What a clean stop left, which the next start trusts, is compared with the
queues and the store; after a crash it is not there, and nothing is to be compared.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from msgspec import Struct

from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord
from sprocket.base.progress import Step, unwatched
from sprocket.rabbitmq.codec.index import MessagePlace
from sprocket.rabbitmq.codec.store import (
    MessageLocation,
    QueueTerms,
    clean_stop,
    entries,
    saved_tables,
)
from sprocket.rabbitmq.store import delayed
from sprocket.rabbitmq.store.reading import (
    FaultyReads,
    FoundMessage,
    IndexRows,
    MessageState,
    QueuePart,
    VhostReader,
    left_by_segment,
)


class VhostRule(Enum):
    """What must hold of a folder that was stopped; the member's name stands in JSON."""

    READABLE = "a file can be read, and is what its name says"
    MESSAGE = "each message that is left is in the index or in the store, whole"
    BODY_SIZE = "a record tells the size of its message's body"
    PERSISTENCE = "a record is persistent if its message is"
    TERMS = "what a queue left agrees with its index"
    CLIENTS = "clean.dot names the queues that left something"
    LOCATION = "the store's index says where messages are, and how many queues need them"
    DELAYED = "delayed messages are whole and in order, in runs that their manifest names"
    SUMMARY = "the store's summary says how full its files are"


class VhostFinding(Struct, frozen=True):
    """One broken rule.

    Attributes:
        rule: Which.
        path: The file.
        position: Bytes into it.
        expected: What should be there.
        found: What is there.
    """

    rule: VhostRule
    path: str
    position: int
    expected: str
    found: str


def check_vhost(disk: Disk, folder: str, *, step: Step = unwatched) -> Iterator[VhostFinding]:
    """Give each broken rule of a virtual host's folder; `step` is told of queues that are done.

    Raises:
        ForeignStore: It is no such folder.
    """
    reader = VhostReader(disk, folder)
    try:
        yield from _Check(disk, reader).run(step)
    finally:
        reader.close()


@dataclass(slots=True)
class _Part:
    """What is added up of a part of a queue."""

    left: Counter[int] = field(default_factory=Counter)
    """Messages not acknowledged, by segment."""
    persistent: int = 0
    body_bytes: int = 0
    end_seq_id: int = 0


class _Check:
    def __init__(self, disk: Disk, reader: VhostReader) -> None:
        self._disk = disk
        self._reader = reader
        self._references: Counter[bytes] = Counter()
        """How many queues need each persistent message of the store."""
        self._told = 0

    def run(self, step: Step) -> Iterator[VhostFinding]:
        queues = self._reader.queues()
        for done, queue in enumerate(queues):
            step("checking", done, len(queues))
            for part in queue.parts:
                added = _Part()
                for rows in self._reader.rows(part):
                    self._add(added, rows)
                if part.terms is not None:
                    yield from self._compare_terms(part, part.terms, added)
            for message in self._reader.messages(queue, with_gone=True):
                yield from self._check_message(message)
            yield from self._new_faults()
        yield from self._compare_clients()
        yield from self._compare_store()
        yield from self._new_faults()
        rule = VhostRule.DELAYED
        for fault in delayed.check(self._disk, self._reader.layout.delayed):
            yield VhostFinding(rule, self._reader.layout.delayed.root, 0, rule.value, fault)

    def _new_faults(self) -> Iterator[VhostFinding]:
        faults = self._reader.faults
        seen = set(faults[: self._told])
        for fault in faults[self._told :]:
            if fault not in seen:  # the index is read twice
                seen.add(fault)
                rule = VhostRule.READABLE
                yield VhostFinding(rule, fault.path, fault.position, rule.value, fault.what)
        self._told = len(faults)

    def _add(self, added: _Part, rows: IndexRows) -> None:
        added.left += left_by_segment(rows, self._reader.segment_entry_count)
        is_kept = ~rows.is_acked & rows.is_persistent
        added.persistent += int(np.count_nonzero(is_kept))
        added.body_bytes += int(rows.body_sizes[is_kept].sum())
        if len(rows):
            added.end_seq_id = max(added.end_seq_id, int(rows.seq_ids[-1]) + 1)
        in_store = is_kept & (rows.places == MessagePlace.SHARED_STORE)
        self._references.update(bytes(one) for one in rows.message_ids[in_store])

    def _compare_terms(
        self, part: QueuePart, terms: QueueTerms, added: _Part
    ) -> Iterator[VhostFinding]:
        left = {number: count for number, count in added.left.items() if count}
        said = {number: count for number, count in terms.segments.items() if count}
        for what, expected, found in (
            ("messages by segment", left, said),
            ("persistent messages", added.persistent, terms.persistent_count),
            ("bytes of persistent messages", added.body_bytes, terms.persistent_bytes),
        ):
            if expected != found:
                yield self._terms_finding(part, f"{what}: {expected}", str(found))
        if terms.next_seq_id < added.end_seq_id:
            what = f"next sequence id: {added.end_seq_id} or more"
            yield self._terms_finding(part, what, str(terms.next_seq_id))

    def _terms_finding(self, part: QueuePart, expected: str, found: str) -> VhostFinding:
        path = self._reader.layout.recovery_terms
        return VhostFinding(VhostRule.TERMS, path, 0, f"{part.folder}: {expected}", found)

    def _check_message(self, found: FoundMessage) -> Iterator[VhostFinding]:
        if found.state is MessageState.ACKNOWLEDGED:
            return
        where = f"message {found.seq_id} of {found.queue.name!r}"
        if found.message is None:
            if found.is_persistent:
                yield VhostFinding(
                    VhostRule.MESSAGE, found.path, found.position, where, found.fault
                )
            return
        if found.message.body_size != found.body_size:
            expected = f"{where}: {found.message.body_size} bytes"
            yield VhostFinding(
                VhostRule.BODY_SIZE, found.path, found.position, expected, str(found.body_size)
            )
        if found.is_persistent and not found.message.is_persistent:
            yield VhostFinding(
                VhostRule.PERSISTENCE,
                *(found.path, found.position, f"{where}: a transient record", "a persistent one"),
            )

    def _compare_clients(self) -> Iterator[VhostFinding]:
        path = self._reader.layout.persistent.clean
        data = FaultyReads(self._disk).read(path)
        if data is None:
            return
        try:
            found = sorted(clean_stop.decode_clean(data))
        except CorruptRecord as error:
            yield VhostFinding(VhostRule.CLIENTS, path, 0, VhostRule.CLIENTS.value, str(error))
            return
        expected = sorted(
            terms.persistent_ref
            for terms in self._reader.terms.values()
            if terms.persistent_ref is not None
        )
        if found != expected:
            yield VhostFinding(
                VhostRule.CLIENTS,
                *(path, 0, _hexes(expected, found), _hexes(found, expected)),
            )

    def _compare_store(self) -> Iterator[VhostFinding]:
        store = self._reader.layout.persistent
        reads = FaultyReads(self._disk)
        data, summary = reads.read(store.index), reads.read(store.summary)
        valid: Counter[int] = Counter()
        try:
            locations = [] if data is None else saved_tables.decode_locations(data)
        except CorruptRecord as error:
            yield VhostFinding(
                VhostRule.LOCATION, store.index, 0, VhostRule.LOCATION.value, str(error)
            )
            return
        for row in locations:
            if row.ref_count:
                valid[row.file] += row.size
            yield from self._check_location(row)
        if data is not None:
            known = {row.id for row in locations if row.ref_count}
            for message_id in self._references.keys() - known:
                expected = f"message {message_id.hex()} for {self._references[message_id]}"
                yield VhostFinding(VhostRule.LOCATION, store.index, 0, expected, "no such row")
        if summary is None:
            return
        try:
            rows = saved_tables.decode_summary(summary)
        except CorruptRecord as error:
            yield VhostFinding(
                VhostRule.SUMMARY, store.summary, 0, VhostRule.SUMMARY.value, str(error)
            )
            return
        sizes = self._disk.sizes(store.root)
        for file in rows:
            path = store.file(file.file)
            size = sizes.get(path.rpartition("/")[2])
            if size is None or file.file_bytes > size:
                told = f"file {file.file}: {size} bytes"
                yield VhostFinding(VhostRule.SUMMARY, store.summary, 0, told, str(file.file_bytes))
            if data is not None and file.valid_bytes != valid[file.file]:
                told = f"file {file.file}: {valid[file.file]} bytes in use"
                yield VhostFinding(VhostRule.SUMMARY, store.summary, 0, told, str(file.valid_bytes))

    def _check_location(self, row: MessageLocation) -> Iterator[VhostFinding]:
        path = self._reader.layout.persistent.file(row.file)
        message = f"message {row.id.hex()}"
        index = self._reader.layout.persistent.index
        expected = self._references.get(row.id, 0)
        if row.ref_count != expected:
            told = f"{message}: needed by {expected}"
            yield VhostFinding(VhostRule.LOCATION, index, 0, told, str(row.ref_count))
        if row.ref_count and (path, row.position) not in self._reader.places(row.id):
            told = f"{message} in file {row.file} at {row.position}"
            yield VhostFinding(VhostRule.LOCATION, index, 0, told, "it is not there")
        if row.ref_count and row.size <= entries.OVERHEAD_BYTES:
            told = f"{message}: more than {entries.OVERHEAD_BYTES} bytes"
            yield VhostFinding(VhostRule.LOCATION, index, 0, told, str(row.size))


def _hexes(ones: list[bytes], others: list[bytes]) -> str:
    """Name what only the first of both has."""
    return ", ".join(one.hex() for one in sorted(set(ones) - set(others))) or "nothing else"
