"""Making a folder of a store again beside the old one, and putting it in its place whole.

What workers write goes into a new folder of the store, `rebuilt/<eight hex digits>/`. When it is
complete and on the disk, it and the old one exchange their names by one call, where the system
has it (`renameat2` of Linux, on the disk of a machine). Elsewhere two names are changed one
after the other; a process that dies between the two leaves the store without that folder, and the
next `rebuilding` puts the old one back.

Invariants

1. Under its name a folder is the old one or the new one, whole; where names cannot be exchanged it
   may be missing for a moment.
2. Nobody opens the store meanwhile: it is locked.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated
from uuid import uuid4

from sprocket.base.disk import Disk, RealDisk
from sprocket.base.errors import CorruptRecord, ForeignStore, SettingsError, StoreError
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import local_path
from sprocket.spark.jobs.job import JobOption
from sprocket.spark.rocketmq.folder import (
    DamagedRange,
    IsTaken,
    Stored,
    closed_log,
    log_files,
    records_behind,
)

REPLACED = "replaced"

StoreFolder = Annotated[
    str,
    JobOption(
        "The store's folder, which every worker sees and nobody has open.",
        "FOLDER",
        is_argument=True,
    ),
]


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """A store that is locked, and the new folder in it.

    Attributes:
        layout: Of the store; its paths are absolute.
        folder: For what is made; every worker sees it under this path.
    """

    disk: Disk
    layout: StoreLayout
    folder: str

    def made(self, path: str) -> str:
        """Return where the folder is made that is to be `path`."""
        return f"{self.folder}/{os.path.basename(path)}"

    def put_in_place(self, path: str) -> None:
        """Let what was made as the folder `path` be that folder.

        Durability: on the disk when this returns; what was made is there before.
        """
        disk, made = self.disk, self.made(path)
        disk.make_folder(made)
        disk.sync_tree(self.folder)
        disk.sync_folder(self.folder)
        if not disk.is_folder(path):
            disk.rename(made, path)
        elif not disk.exchange(made, path):
            replaced = f"{self.folder}/{REPLACED}"
            disk.make_folder(replaced)
            disk.rename(path, f"{replaced}/{os.path.basename(path)}")
            disk.rename(made, path)
        disk.sync_folder(self.layout.root)
        disk.sync_folder(self.folder)


@contextmanager
def rebuilding(disk: Disk, store: str) -> Iterator[Rebuilding]:
    """Lock a store, and give a new folder in it, which is removed with all it has at the end.

    What a run that died has left is removed before.

    Args:
        disk: Where.
        store: The store's folder.

    Raises:
        SettingsError: The folder is not on a disk.
        ForeignStore: There is no store.
        StoreLocked: Somebody has it open.
    """
    path = local_path(store)
    if path is None:
        raise SettingsError(
            f"{store}: expected a folder on a disk that this machine and every worker see by the"
            " same path; what is made is written into it"
        )
    layout = StoreLayout(os.path.abspath(path))
    if not disk.is_folder(layout.commitlog):
        raise ForeignStore(f"{store}: there is no store, {layout.commitlog} is missing")
    lock = disk.lock(layout.lock)
    try:
        _tidy(disk, layout)
        folder = f"{layout.rebuilt}/{uuid4().hex[:8]}"
        disk.make_folder(folder)
        try:
            yield Rebuilding(disk, layout, folder)
        except BaseException:
            with suppress(StoreError):
                disk.remove_tree(layout.rebuilt)
            raise
        disk.remove_tree(layout.rebuilt)
    finally:
        lock.release()


def _tidy(disk: Disk, layout: StoreLayout) -> None:
    """Put back what a run that died has taken away, and remove the rest of what it left."""
    for name in disk.list(layout.rebuilt):
        replaced = f"{layout.rebuilt}/{name}/{REPLACED}"
        for folder in disk.list(replaced):
            path = f"{layout.root}/{folder}"
            if not disk.exists(path):
                disk.rename(f"{replaced}/{folder}", path)
                disk.sync_folder(layout.root)
    disk.remove_tree(layout.rebuilt)


def settled_count(
    beside: Rebuilding, name: str, given: int, found: int, most: int, *, least: int = 1
) -> int:
    """Return how many of something a file of the store is to have.

    Args:
        beside: The store.
        name: Of the option, as people type it.
        given: What they gave; 0 for nothing.
        found: What the store says, or its files, or else the default.
        most: More is refused.
        least: Less is refused.

    Raises:
        SettingsError: It is out of range, or the store was made with another count.
    """
    if not given:
        return found
    if not least <= given <= most:
        raise SettingsError(f"--{name}: expected {least:,} to {most:,}, found {given:,}")
    if given != found and beside.disk.exists(beside.layout.geometry):
        raise SettingsError(
            f"--{name}: the store was made with {found:,}, as {beside.layout.geometry} says,"
            f" not with {given:,}"
        )
    return given


def beyond_end(
    layout: StoreLayout,
    stored: Stored,
    stored_at_ms: int,
    is_taken: IsTaken,
    *,
    skip_damaged: bool,
) -> Stored | None:
    """Return a log with what follows after damage in its newest file; None if nothing does.

    Args:
        layout: The store's.
        stored: Its log, as it was planned.
        stored_at_ms: Store time of the last record that this has.
        is_taken: Tells whether a record's queue offset is taken by one of these.
        skip_damaged: Damage is to be skipped.

    Raises:
        CorruptRecord: Something does, and damage is not to be skipped.
    """
    disk = RealDisk()
    files = log_files(disk, layout, with_gaps=True)
    if not files:
        return None
    newest = files[-1]
    end = max(newest.start, stored.bounds()[1] if stored.parts else 0)
    behind = records_behind(disk, newest.path, newest.start, end, stored_at_ms, is_taken)
    if not behind:
        return None
    found = behind[-1].end
    if not skip_damaged:
        raise CorruptRecord(
            f"{newest.path}: at physical offset {end}: no record begins here, but behind it there"
            f" are intact ones, up to {found}; --skip-damaged goes on behind the damage"
        )
    return stored.reaching(newest, found)


def lost_end(
    layout: StoreLayout, stored: Stored, stored_at_ms: int, *, skip_damaged: bool
) -> list[DamagedRange]:
    """Return what a log has lost of its end, as note and checkpoint of the store say.

    Its queues are not asked: they are made again since something is wrong with them.

    Args:
        layout: The store's.
        stored: Its log.
        stored_at_ms: Store time of the last record of this.
        skip_damaged: Lost messages are to be skipped.

    Raises:
        CorruptRecord: It has lost something, and that is not to be skipped.
    """
    disk = RealDisk()
    closed = closed_log(disk, layout, asks_queues=False)
    if closed is None:
        return []
    files = log_files(disk, layout, with_gaps=True)
    path, first = (files[-1].path, files[-1].start) if files else (layout.commitlog, 0)
    end = max(first, stored.bounds()[1] if stored.parts else 0)
    lost = closed.lost(disk, path, end, lambda: stored_at_ms)
    if lost is not None and not skip_damaged:
        raise CorruptRecord(f"{lost}; --skip-damaged goes on without them")
    return [lost] if lost is not None else []
