"""Checks the folder of a virtual host: what is damaged, and what disagrees. Nothing is written.

Every message is read. What a clean stop left, which the next start trusts, is compared with the
queues and the store; after a crash it is not there, and nothing is to be compared.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, TypeVar

import numpy as np

from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord
from sprocket.base.finding import Finding
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

_T = TypeVar("_T")


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


VhostFinding: TypeAlias = Finding[VhostRule]
"""One broken rule of a virtual host's folder."""


def check_vhost(disk: Disk, folder: str, *, step: Step = unwatched) -> Iterator[VhostFinding]:
    """Give each broken rule of a virtual host's folder; `step` is told of queues that are done.

    Raises:
        ForeignStore: It is not such a folder.
    """
    with closing(VhostReader(disk, folder)) as reader:
        yield from _Check(disk, reader).run(step)


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
        for fault in delayed.check(self._disk, self._reader.layout.delayed):
            yield _broken(VhostRule.DELAYED, self._reader.layout.delayed.root, fault)

    def _new_faults(self) -> Iterator[VhostFinding]:
        faults = self._reader.faults
        seen = set(faults[: self._told])
        for fault in faults[self._told :]:
            if fault not in seen:  # the index is read twice
                seen.add(fault)
                yield _broken(VhostRule.READABLE, fault.path, fault.what, fault.position)
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
        return Finding(VhostRule.TERMS, path, 0, f"{part.folder}: {expected}", found)

    def _check_message(self, found: FoundMessage) -> Iterator[VhostFinding]:
        if found.state is MessageState.ACKNOWLEDGED:
            return
        where = f"message {found.seq_id} of {found.queue.name!r}"
        place = found.path, found.position
        if found.message is None:
            if found.is_persistent:
                yield Finding(VhostRule.MESSAGE, *place, where, found.fault)
            return
        if found.message.body_size != found.body_size:
            expected = f"{where}: {found.message.body_size} bytes"
            yield Finding(VhostRule.BODY_SIZE, *place, expected, str(found.body_size))
        if found.is_persistent and not found.message.is_persistent:
            expected = f"{where}: a transient record"
            yield Finding(VhostRule.PERSISTENCE, *place, expected, "a persistent one")

    def _decoded(
        self, rule: VhostRule, path: str, decode: Callable[[bytes], _T], wrong: list[VhostFinding]
    ) -> _T | None:
        """Return what a file holds, None if it is not there; `wrong` gets what is wrong with it."""
        data = FaultyReads(self._disk).read(path)
        try:
            return None if data is None else decode(data)
        except CorruptRecord as error:
            wrong.append(_broken(rule, path, str(error)))
            return None

    def _compare_clients(self) -> Iterator[VhostFinding]:
        path, wrong = self._reader.layout.persistent.clean, list[VhostFinding]()
        refs = self._decoded(VhostRule.CLIENTS, path, clean_stop.decode_clean, wrong)
        yield from wrong
        if refs is None:
            return
        found = sorted(refs)
        expected = sorted(
            terms.persistent_ref
            for terms in self._reader.terms.values()
            if terms.persistent_ref is not None
        )
        if found != expected:
            told = _hexes(expected, found), _hexes(found, expected)
            yield Finding(VhostRule.CLIENTS, path, 0, *told)

    def _compare_store(self) -> Iterator[VhostFinding]:
        store, wrong = self._reader.layout.persistent, list[VhostFinding]()
        valid: Counter[int] = Counter()
        locations = self._decoded(
            VhostRule.LOCATION, store.index, saved_tables.decode_locations, wrong
        )
        if wrong:
            yield from wrong
            return
        for row in locations or ():
            if row.ref_count:
                valid[row.file] += row.size
            yield from self._check_location(row)
        if locations is not None:
            known = {row.id for row in locations if row.ref_count}
            for message_id in self._references.keys() - known:
                expected = f"message {message_id.hex()} for {self._references[message_id]}"
                yield Finding(VhostRule.LOCATION, store.index, 0, expected, "no such row")
        rows = self._decoded(VhostRule.SUMMARY, store.summary, saved_tables.decode_summary, wrong)
        yield from wrong
        if rows is None:
            return
        sizes = self._disk.sizes(store.root)
        for file in rows:
            path = store.file(file.file)
            size = sizes.get(path.rpartition("/")[2])
            if size is None or file.file_bytes > size:
                told = f"file {file.file}: {size} bytes"
                yield Finding(VhostRule.SUMMARY, store.summary, 0, told, str(file.file_bytes))
            if locations is not None and file.valid_bytes != valid[file.file]:
                told = f"file {file.file}: {valid[file.file]} bytes in use"
                yield Finding(VhostRule.SUMMARY, store.summary, 0, told, str(file.valid_bytes))

    def _check_location(self, row: MessageLocation) -> Iterator[VhostFinding]:
        path = self._reader.layout.persistent.file(row.file)
        message = f"message {row.id.hex()}"
        index = self._reader.layout.persistent.index
        expected = self._references.get(row.id, 0)
        if row.ref_count != expected:
            told = f"{message}: needed by {expected}"
            yield Finding(VhostRule.LOCATION, index, 0, told, str(row.ref_count))
        if row.ref_count and (path, row.position) not in self._reader.positions(row.id):
            told = f"{message} in file {row.file} at {row.position}"
            yield Finding(VhostRule.LOCATION, index, 0, told, "it is not there")
        if row.ref_count and row.size <= entries.OVERHEAD_BYTES:
            told = f"{message}: more than {entries.OVERHEAD_BYTES} bytes"
            yield Finding(VhostRule.LOCATION, index, 0, told, str(row.size))


def _broken(rule: VhostRule, path: str, found: str, position: int = 0) -> VhostFinding:
    """Return that a rule is broken by a file as such."""
    return Finding(rule, path, position, rule.value, found)


def _hexes(ones: list[bytes], others: list[bytes]) -> str:
    """Name what only the first of both has."""
    return ", ".join(one.hex() for one in sorted(set(ones) - set(others))) or "nothing else"
