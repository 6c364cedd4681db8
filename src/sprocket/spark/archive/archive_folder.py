"""The folder of an archive: data files, and a chain of manifests that says which of them count.

A run writes its data files first. They are on the disk before a manifest names them, and what no
manifest names does not count: a run that died leaves files that no reader sees and the next run
removes. A manifest is made once, under the name of the physical offset where it begins, and never
changed; so publishing costs what is new, and not what is there.

Invariants

1. The manifests are a chain: none begins before the one before it ends.
2. A message is in the files of the manifest that covers its physical offset, once, and in no other.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from sprocket.base.disk import Disk, RealDisk, read_file, replace_file
from sprocket.base.errors import CorruptRecord, ForeignStore, SettingsError
from sprocket.base.nearest import hint

VERSION = 1
DATA = "data"
MANIFESTS = "manifests"
SUFFIX = ".parquet"
_MANIFEST = re.compile(r"\d{20}\.json")
_DATA_FILE = re.compile(r"\d{20}-[0-9a-f]{8}-\d+-\d+\.parquet")


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file that counts.

    Attributes:
        path: From the archive's folder on.
        bytes: Its length.
        messages: How many rows it has.
        topics: How many rows of each topic.
        first_offset: The lowest physical offset of a row.
        last_offset: The highest.
        first_stored_at_ms: The earliest store time of a row.
        last_stored_at_ms: The latest.
    """

    path: str
    bytes: int
    messages: int
    topics: dict[str, int]
    first_offset: int
    last_offset: int
    first_stored_at_ms: int
    last_stored_at_ms: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What one publication added.

    Attributes:
        version: Of this layout.
        start: Physical offset in the log where it begins.
        end: Physical offset behind it.
        topics: The topics that were archived; empty for all.
        internal: Whether internal topics and half messages were, too.
        files: What it has, in no order.
    """

    version: int
    start: int
    end: int
    topics: list[str]
    internal: bool
    files: list[ArchivedFile]


class ArchiveFolder:
    """The archive in the folder `path`."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path.rstrip("/") or "/"
        self._disk = disk
        self._manifests = f"{self.path}/{MANIFESTS}"
        self._data = f"{self.path}/{DATA}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from writing to it; makes the folder where there is none.

        Raises:
            StoreLocked: Another run writes to it.
            ForeignStore: The folder holds something else.
        """
        disk = self._disk
        if disk.exists(self.path) and not disk.is_folder(self._manifests):
            left = set(disk.list(self.path)) - {DATA, "lock"}
            if left or not disk.is_folder(self.path):
                raise ForeignStore(f"{self.path}: expected an archive, or a new or an empty folder")
        for folder in (self.path, self._data, self._manifests):
            disk.make_folder(folder)
        lock = disk.lock(f"{self.path}/lock")
        try:
            yield
        finally:
            lock.release()

    def manifests(self) -> list[Manifest]:
        """Return all manifests, in the order of the log.

        Raises:
            ForeignStore: There is no archive, or one of another version.
            CorruptRecord: A manifest cannot be read, or they are no chain.
        """
        if not self._disk.is_folder(self._manifests):
            raise ForeignStore(f"{self.path} is no archive: it has no folder {MANIFESTS}")
        found: list[Manifest] = []
        for name in self._disk.list(self._manifests):
            if not _MANIFEST.fullmatch(name):
                continue
            path = f"{self._manifests}/{name}"
            manifest = decode(read_file(self._disk, path), path)
            if found and manifest.start < found[-1].end:
                raise CorruptRecord(
                    f"{path} begins at {manifest.start}, before the one before it ends, at"
                    f" {found[-1].end}"
                )
            found.append(manifest)
        return found

    def publish(self, manifest: Manifest) -> None:
        """Let the files of a manifest count; on the disk when this returns.

        Raises:
            CorruptRecord: One of that name is there.
        """
        path = f"{self._manifests}/{manifest.start:020d}.json"
        if self._disk.exists(path):
            raise CorruptRecord(f"{path} is there already")
        replace_file(self._disk, path, encode(manifest))

    def remove_left_behind(self, manifests: Sequence[Manifest]) -> int:
        """Remove data files that no manifest names; return how many there were.

        They are what a run left that did not come to its end.
        """
        known = {file.path for manifest in manifests for file in manifest.files}
        removed = 0
        for folder in self._disk.folders(self._data):
            for name in self._disk.list(f"{self._data}/{folder}"):
                path = f"{DATA}/{folder}/{name}"
                if _DATA_FILE.fullmatch(name) and path not in known:
                    self._disk.remove(f"{self.path}/{path}")
                    removed += 1
        return removed


def encode(manifest: Manifest) -> bytes:
    """Return a manifest's file."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(data: bytes, where: str) -> Manifest:
    """Read a manifest's file; `where` is its path, for errors.

    Raises:
        CorruptRecord: It is none.
        ForeignStore: It is one of another version.
    """
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("version")
        if version == VERSION:
            return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptRecord(f"{where} is no manifest: {error}") from error
    raise ForeignStore(f"{where} is of version {version!r}, expected {VERSION}")


def is_archive(disk: Disk, folder: str) -> bool:
    """Tell whether a folder is an archive."""
    return disk.is_folder(f"{folder}/{MANIFESTS}")


def archive_files(folder: str, topics: Sequence[str] = ()) -> list[str]:
    """Return the paths of the data files of an archive that count, for any reader of Parquet.

    Args:
        folder: The archive.
        topics: Only files with messages of these; none for all. A file may hold other topics, too.

    Raises:
        SettingsError: A topic is not in the archive; the text names the nearest.
        ForeignStore, CorruptRecord: As `ArchiveFolder.manifests`.
    """
    archive = ArchiveFolder(RealDisk(), folder)
    files = [file for manifest in archive.manifests() for file in manifest.files]
    known = {topic for file in files for topic in file.topics}
    for topic in topics:
        if topic not in known:
            meant = hint(topic, known)
            raise SettingsError(f"there is no topic {topic!r} in the archive {folder}{meant}")
    wanted = set(topics) or known
    return [os.path.join(archive.path, file.path) for file in files if wanted & file.topics.keys()]


def read_archive(spark: Any, folder: str, topics: Sequence[str] = ()) -> Any:
    """Return an archive as a DataFrame with the columns of the store that it was made of.

    The parameters and errors are those of `archive_files`.
    """
    from pyspark.sql import functions as F

    from sprocket.spark.rocketmq import columns_of_view

    paths = archive_files(folder, topics)
    schema = columns_of_view("full")
    if not paths:
        return spark.createDataFrame([], schema)
    rows = spark.read.schema(schema).parquet(*paths)
    return rows.where(F.col("topic").isin(*topics)) if topics else rows
