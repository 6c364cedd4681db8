"""The folder of an archive: data files, and a chain of manifests that says which of them count.

A run writes its data files first. They are on the disk before a manifest names them, and what no
manifest names does not count: a run that died leaves files that no reader sees and the next run
removes. A manifest is made once, under the name of the physical offset where it begins, and never
changed; so publishing costs what is new, and not what is there.

Invariants

1. The manifests are a chain: none begins before the one before it ends.
2. A message is in the files of the manifest that covers its physical offset, once, and in no other.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from sprocket.base.errors import CorruptRecord, ForeignStore, SettingsError
from sprocket.base.nearest import hint
from sprocket.spark.files import (
    Files,
    HeldLock,
    WritableFiles,
    local_path,
    open_writable,
    read_whole,
)

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
        end: Physical offset after it.
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
    """The archive in the folder `path` of some file system."""

    def __init__(self, files: WritableFiles, path: str) -> None:
        self.path = path.rstrip("/") or "/"
        self._files = files
        self._manifests = f"{self.path}/{MANIFESTS}"
        self._data = f"{self.path}/{DATA}"

    @contextmanager
    def locked(self, *, take_over: bool = False) -> Iterator[HeldLock]:
        """Keep others from writing to it; makes the folder where there is none.

        Args:
            take_over: Whoever has it locked is known to be dead.

        Raises:
            StoreLocked: Another run writes to it.
            ForeignStore: The folder holds something else.
        """
        files = self._files
        if files.exists(self.path) and not files.is_folder(self._manifests):
            left = set(files.list(self.path)) - {DATA, "lock"}
            if left or not files.is_folder(self.path):
                raise ForeignStore(f"{self.path}: expected an archive, or a new or an empty folder")
        for folder in (self.path, self._data, self._manifests):
            files.make_folder(folder)
        with files.locked(f"{self.path}/lock", take_over=take_over) as lock:
            yield lock

    def manifests(self) -> list[Manifest]:
        """Return all manifests, in the order of the log.

        Raises:
            ForeignStore: There is no archive, or one of another version.
            CorruptRecord: A manifest cannot be read, or they are not a chain.
        """
        if not self._files.is_folder(self._manifests):
            raise ForeignStore(f"{self.path} is not an archive: it has no folder {MANIFESTS}")
        found: list[Manifest] = []
        for name in self._files.list(self._manifests):
            if not _MANIFEST.fullmatch(name):
                continue
            path = f"{self._manifests}/{name}"
            manifest = decode(read_whole(self._files, path), path)
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
        if self._files.exists(path):
            raise CorruptRecord(f"{path} is there already")
        self._files.put(path, encode(manifest))

    def remove_left_behind(self, manifests: Sequence[Manifest]) -> int:
        """Remove data files that no manifest names; return how many there were.

        They are what a run left that did not come to its end.
        """
        known = {file.path for manifest in manifests for file in manifest.files}
        removed = 0
        for folder in self._files.folders(self._data):
            for name in self._files.list(f"{self._data}/{folder}"):
                path = f"{DATA}/{folder}/{name}"
                if _DATA_FILE.fullmatch(name) and path not in known:
                    self._files.remove(f"{self.path}/{path}")
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
        raise CorruptRecord(f"{where} is not a manifest: {error}") from error
    raise ForeignStore(f"{where} is of version {version!r}, expected {VERSION}")


def is_archive(files: Files, folder: str) -> bool:
    """Tell whether a folder is an archive."""
    return files.is_folder(f"{folder.rstrip('/')}/{MANIFESTS}")


def topics_archived(folder: str, settings: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of the topics that an archive has messages of; see `archive_files`."""
    return sorted({topic for file in _files_of(_opened(folder, settings)) for topic in file.topics})


def archive_files(
    folder: str, topics: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> list[str]:
    """Return the paths of the data files of an archive that count, for any reader of Parquet.

    Args:
        folder: The archive.
        topics: Only files with messages of these; none for all. A file may hold other topics, too.
        settings: Of the file system that it lies on, by the names that this gives them.

    Raises:
        SettingsError: A topic is not in the archive; the text names the nearest.
        ForeignStore, CorruptRecord: As `ArchiveFolder.manifests`.
    """
    archive = _opened(folder, settings)
    files = _files_of(archive)
    known = {topic for file in files for topic in file.topics}
    for topic in topics:
        if topic not in known:
            meant = hint(topic, known)
            raise SettingsError(f"there is no topic {topic!r} in the archive {folder}{meant}")
    wanted = set(topics) or known
    return [f"{archive.path}/{file.path}" for file in files if wanted & file.topics.keys()]


def _opened(folder: str, settings: Mapping[str, str] | None) -> ArchiveFolder:
    return ArchiveFolder(open_writable(folder, settings), local_path(folder) or folder)


def _files_of(archive: ArchiveFolder) -> list[ArchivedFile]:
    """Return the data files that count."""
    return [file for manifest in archive.manifests() for file in manifest.files]
