"""How the store of delayed messages is opened.

After a crash the records of the log that the manifest does not cover are applied: what they add
becomes a run, and the manifest says all, before the log goes. That may be cut short and begun
again: records count by their numbers.

A manifest that cannot be read is created again from the runs that are there. Then what was routed
since the log began is known from the log alone, so that older messages may come twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from sprocket.base.disk import Disk, read_file, remove_if_there, replace_file
from sprocket.base.errors import CorruptRecord, FileMissing
from sprocket.base.units import KIB
from sprocket.rabbitmq.codec import delayed
from sprocket.rabbitmq.codec.delayed import (
    Added,
    ClockSet,
    DelayedEntry,
    DelayedKey,
    DelayedManifest,
    Done,
    Dropped,
    RunFile,
)
from sprocket.rabbitmq.store.delayed.runs import check_run, entries_of, write_run
from sprocket.rabbitmq.store.layout import DELAYED_RUN, DelayedLayout, numbers

BLOCK_BYTES: Final = 64 * KIB
"""Of the blocks of a run that recovery writes."""


@dataclass(frozen=True, slots=True)
class DelayedContents:
    """What there is when the store is opened.

    Attributes:
        manifest: What it says, or should say.
        next_run: The number of the next run.
        damage: Sentences.
        basis: Records of the log with smaller numbers are in the runs.
    """

    manifest: DelayedManifest
    next_run: int = 0
    damage: tuple[str, ...] = ()
    basis: int = 1

    @property
    def count(self) -> int:
        """Messages that wait."""
        return sum(self.manifest.counts.values())


@dataclass(slots=True)
class Replay:
    """What the manifest and the log say together."""

    manifest: DelayedManifest
    basis: int
    entries: dict[int, DelayedEntry]

    def take(self, data: Iterable[bytes]) -> None:
        """Apply records of the log. Raises CorruptRecord; those before it count."""
        counts, dropped = dict(self.manifest.counts), dict(self.manifest.dropped)
        done = DelayedKey(self.manifest.done_us, self.manifest.done_number)
        next_number, at_us = self.manifest.next_number, self.manifest.at_us
        ahead_us = self.manifest.ahead_us
        try:
            for one in (record for part in data for record in delayed.decode_records(part)):
                if one.number < self.basis:
                    continue  # the manifest has it
                next_number = max(next_number, one.number + 1)
                at_us = max(at_us, one.at_us)
                match one:
                    case Added(entry=entry):
                        self.entries[one.number] = entry
                        counts[entry.exchange] = counts.get(entry.exchange, 0) + 1
                    case Done(upto=upto):
                        done = max(done, upto)
                        subtract(counts, one.counts)
                    case Dropped(exchange=exchange):
                        dropped[exchange] = one.number
                        counts.pop(exchange, None)
                    case ClockSet():
                        ahead_us = one.ahead_us
        finally:
            self.manifest = structs.replace(
                self.manifest,
                next_number=next_number,
                done_us=done.due_us,
                done_number=done.number,
                at_us=max(at_us, done.due_us),
                ahead_us=ahead_us,
                counts=counts,
                dropped=dropped,
            )

    @property
    def left(self) -> list[DelayedEntry]:
        """What still waits of what the log has, in order."""
        done = DelayedKey(self.manifest.done_us, self.manifest.done_number)
        dropped = self.manifest.dropped
        return sorted(
            (
                one
                for one in self.entries.values()
                if one.key > done and dropped.get(one.exchange, 0) <= one.number
            ),
            key=lambda one: one.key,
        )


def subtract(counts: dict[str, int], some: dict[str, int]) -> None:
    """Take some off the counts; what is at zero goes."""
    for name, count in some.items():
        left = counts.get(name, 0) - count
        if left > 0:
            counts[name] = left
        else:
            counts.pop(name, None)


def open_clean(disk: Disk, layout: DelayedLayout) -> DelayedContents:
    """Return what a clean stop has left.

    Raises:
        DiskFull, DiskFailed: It may be tried again.
    """
    return recover(disk, layout, ())


def recover(disk: Disk, layout: DelayedLayout, records: Iterable[bytes]) -> DelayedContents:
    """Bring what the log has into files; what no manifest names goes.

    Args:
        disk: Where it lies.
        layout: Its paths.
        records: Of the write-ahead log.

    Raises:
        DiskFull, DiskFailed: It may be begun again.
    Durability: on return all is durable.
    """
    found, is_sound = _read(disk, layout)
    replay, damage = _replayed(found, records)
    manifest = replay.manifest
    left = replay.left
    next_run = found.next_run
    if left:
        disk.make_folder(layout.root)
        if not disk.exists(layout.manifest):  # a run without any is damage
            replace_file(disk, layout.manifest, delayed.encode_manifest(found.manifest))
        size = write_run(disk, layout.run(next_run), left, BLOCK_BYTES)
        disk.sync_folder(layout.root)
        runs = (*manifest.runs, RunFile(next_run, size, 0))
        manifest = structs.replace(manifest, runs=runs)
        next_run += 1
    if not manifest.runs:
        manifest = structs.replace(manifest, counts={}, dropped={})
    if manifest != found.manifest or (damage and not is_sound):
        disk.make_folder(layout.root)
        replace_file(disk, layout.manifest, delayed.encode_manifest(manifest))
    if disk.is_folder(layout.root):
        _tidy(disk, layout, manifest)
    return DelayedContents(manifest, next_run, tuple(damage))


def dry_run(disk: Disk, layout: DelayedLayout, records: Iterable[bytes]) -> DelayedContents:
    """Return what `recover` would find, and change nothing."""
    found, _ = _read(disk, layout)
    replay, damage = _replayed(found, records)
    return DelayedContents(replay.manifest, found.next_run, tuple(damage))


def check(disk: Disk, layout: DelayedLayout) -> list[str]:
    """Return what is wrong with the files, a sentence each; nothing is written.

    Raises:
        DiskFailed: A run cannot be opened.
    """
    found, _ = _read(disk, layout)
    faults = [*found.damage]
    for one in found.manifest.runs:
        faults += check_run(disk, layout.run(one.number))
    return faults


def replayed(
    disk: Disk, layout: DelayedLayout, records: Iterable[bytes]
) -> tuple[Replay, list[str]]:
    """Return what manifest and log say together, and what is wrong; nothing is changed."""
    return _replayed(_read(disk, layout)[0], records)


def _replayed(found: DelayedContents, records: Iterable[bytes]) -> tuple[Replay, list[str]]:
    replay, damage = Replay(found.manifest, found.basis, {}), [*found.damage]
    try:
        replay.take(records)
    except CorruptRecord as error:
        damage.append(f"the log: {error}")
    return replay, damage


def _read(disk: Disk, layout: DelayedLayout) -> tuple[DelayedContents, bool]:
    """Return what the manifest says, and whether it can be read."""
    if not disk.is_folder(layout.root):
        return DelayedContents(DelayedManifest()), True
    there = numbers(disk.list(layout.root), DELAYED_RUN)
    next_run = max(there, default=-1) + 1
    try:
        manifest = delayed.decode_manifest(read_file(disk, layout.manifest))
    except FileMissing:
        return _made_anew(disk, layout, there, ""), not there
    except CorruptRecord as error:
        return _made_anew(disk, layout, there, str(error)), False
    sizes = disk.sizes(layout.root)
    runs, damage = [], []
    for one in manifest.runs:
        path = layout.run(one.number)
        size = sizes.get(path.rpartition("/")[2])
        if size is None:
            damage.append(f"{path} is missing, with the delayed messages in it")
            continue
        if size < one.file_bytes:
            damage.append(f"{path}: expected {one.file_bytes} bytes, found {size}")
        runs.append(RunFile(one.number, min(size, one.file_bytes), min(size, one.position)))
    manifest = structs.replace(manifest, runs=tuple(runs))
    return DelayedContents(manifest, next_run, tuple(damage), manifest.next_number), True


def _made_anew(disk: Disk, layout: DelayedLayout, there: list[int], why: str) -> DelayedContents:
    """Return what the runs say, where no manifest does."""
    next_number, counts = 1, dict[str, int]()
    faults: list[str] = []
    seen: set[int] = set()
    for number in there:
        for one in entries_of(disk, layout.run(number), faults):
            next_number = max(next_number, one.number + 1)
            if one.number not in seen:
                seen.add(one.number)
                counts[one.exchange] = counts.get(one.exchange, 0) + 1
    sizes = disk.sizes(layout.root)
    runs = tuple(RunFile(number, sizes[f"{number}{DELAYED_RUN}"], 0) for number in there)
    damage = list(faults)
    if why or there:
        damage.insert(0, f"{layout.manifest}: {why or 'it is missing'}; made anew from the runs")
    manifest = DelayedManifest(next_number=next_number, counts=counts, runs=runs)
    # A run that no manifest named may lack something: whatever the log has counts.
    return DelayedContents(manifest, max(there, default=-1) + 1, tuple(damage), basis=0)


def _tidy(disk: Disk, layout: DelayedLayout, manifest: DelayedManifest) -> None:
    """Remove runs that were never named, or are not any more."""
    named = {one.number for one in manifest.runs}
    unnamed = [n for n in numbers(disk.list(layout.root), DELAYED_RUN) if n not in named]
    for number in unnamed:
        remove_if_there(disk, layout.run(number))
    if unnamed:
        disk.sync_folder(layout.root)
