"""Stores that a real RocketMQ wrote, for tests that read them; see `tests/data`."""

import json
import lzma
import math
import tarfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.geometry import (
    CompactionGeometry,
    Geometry,
    IndexGeometry,
    LogGeometry,
    QueueGeometry,
)
from sprocket.rocketmq.store.queue import GroupFilter
from sprocket.testing.disk import SimulatedDisk

_MEMORY_BYTES_MAX = 8 << 20

_FOLDER = Path(__file__).parent / "data" / "rocketmq-5.3.3"

CASES = tuple(sorted(path.name for path in _FOLDER.iterdir() if path.is_dir()))
ROCKSDB = ("04a-rocksdb-clean", "04b-rocksdb-kill9", "12b-config-rdb-v2")
"""Those with their queues in a RocksDB."""


_OURS = {
    "phys": "physical_offset",
    "msg_id": "offset_id",
    "born_timestamp": "born_at_ms",
    "store_timestamp": "stored_at_ms",
}
"""The names that our commands have for what RocketMQ's decoder calls otherwise."""


def in_our_names(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return what RocketMQ's decoder said of a record as `sprocket store dump --json` says it."""
    found = {_OURS.get(name, name): value for name, value in line.items()}
    properties = found["properties"]
    return {**found, "tag": properties.get("TAGS", ""), "keys": properties.get("KEYS", "").split()}


def unpack_archive(path: Path, folder: Path) -> None:
    """Unpack an archive into a folder; Pythons before 3.11.4 know no `filter`."""
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202 - archives of our own


class Recorded:
    """One recorded store.

    Attributes:
        name: Its folder's name.
        root: The unpacked store directory, None before `unpack`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.root: str | None = None
        self._folder = _FOLDER / name

    def unpack(self, target: Path) -> str:
        """Unpack the store into an empty folder; return the store directory's path."""
        unpack_archive(self._folder / "store.tar.xz", target)
        self.root = str(target / "store")
        return self.root

    def in_memory(self) -> SimulatedDisk:
        """Return a disk with the store as the folder `/store`, without its large empty files."""
        disk = SimulatedDisk()
        with tarfile.open(self._folder / "store.tar.xz") as archive:
            for member in archive:
                path = f"/{member.name.strip('./')}"
                if member.isdir():
                    disk.make_folder(path)
                elif member.size <= _MEMORY_BYTES_MAX:
                    content = archive.extractfile(member)
                    assert content is not None
                    disk.make_folder(path.rpartition("/")[0])
                    file = disk.open(path, write=True, create=True)
                    file.write([content.read()], 0)
                    file.sync()
                    disk.sync_folder(path.rpartition("/")[0])
        return disk

    @cached_property
    def expected(self) -> Any:
        """What the broker answered."""
        return json.loads((self._folder / "expected.json").read_text())

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """Every record of the log in order, as RocketMQ decodes it."""
        with lzma.open(self._folder / "records.jsonl.xz", "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    @property
    def is_rocksdb(self) -> bool:
        """Whether its queues are in a RocksDB."""
        return bool(self.expected["settings"].get("storeType") == "defaultRocksDB")

    def database(self, name: str) -> dict[str, dict[bytes, bytes]]:
        """Return keys and values of one RocksDB before the restart, by column family."""
        families: dict[str, dict[bytes, bytes]] = {}
        with lzma.open(self._folder / "rocksdb.jsonl.xz", "rt", encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                if line["db"] == name:
                    family = families.setdefault(line["cf"], {})
                    family[bytes.fromhex(line["key"])] = bytes.fromhex(line["value"])
        return families

    @property
    def stopped_cleanly(self) -> bool:
        """Whether the broker was not killed."""
        return bool(self.expected["stop"] == "SIGTERM")

    @property
    def batch_topics(self) -> set[str]:
        """Topics whose queues are batch queues."""
        return {
            topic
            for topic, told in self.expected["topics"].items()
            if (told["config"] or {"attributes": {}})["attributes"].get("queue.type") == "BatchCQ"
        }

    @property
    def geometry(self) -> Geometry:
        """The sizes it was written with."""
        settings = self.expected["settings"]
        default = Geometry()
        queue_bytes = int(settings.get("mappedFileSizeConsumeQueue", default.queue.file_bytes))
        return Geometry(
            log=LogGeometry(
                segment_bytes=int(
                    settings.get("mappedFileSizeCommitLog", default.log.segment_bytes)
                )
            ),
            queue=QueueGeometry(
                engine="rocksdb" if self.is_rocksdb else "files",
                units_per_file=-(-queue_bytes // 20),
                batch_units_per_file=int(
                    settings.get("mapperFileSizeBatchConsumeQueue", 46 * 300_000)
                )
                // 46,
                extension_bytes=int(
                    settings.get("mappedFileSizeConsumeQueueExt", default.queue.extension_bytes)
                ),
            ),
            index=IndexGeometry(
                slots=int(settings.get("maxHashSlotNum", default.index.slots)),
                units=int(settings.get("maxIndexNum", default.index.units)),
            ),
            compaction=CompactionGeometry(
                log_bytes=int(
                    settings.get("compactionMappedFileSize", default.compaction.log_bytes)
                ),
                units_bytes=int(
                    settings.get("compactionCqMappedFileSize", default.compaction.units_bytes)
                ),
            ),
        )


def filters_of_10b(at_ms: int = 1 << 62) -> dict[str, list[GroupFilter]]:
    """Return the filters of the case with extended units as they were at a time; all by default."""

    def number(properties: Mapping[str, str], name: str) -> float:
        try:
            return float(properties.get(name, "nan"))
        except ValueError:
            return math.nan

    expressions = {
        "Sql_g0": lambda p: number(p, "a") > 5,
        "Sql_g1": lambda p: "a" in p and p.get("TAGS") == "TagA",
        "Sql_g2": lambda p: 1 <= number(p, "b") <= 3 or p.get("c") == "x",
    }
    born_ms = {"Sql_g0": 1795262662529, "Sql_g1": 1795262662750, "Sql_g2": 1795262663011}
    found = [
        GroupFilter(Bloom().positions(group, "Sql"), passes)
        for group, passes in expressions.items()
        if at_ms >= born_ms[group]
    ]
    return {"Sql": found} if found else {}
