"""Stores that a real RocketMQ wrote, for tests that read them; see `tests/data`."""

import json
import lzma
import tarfile
from functools import cached_property
from pathlib import Path
from typing import Any

from sprocket.rocketmq.settings import Geometry, IndexGeometry, LogGeometry, QueueGeometry

_FOLDER = Path(__file__).parent / "data" / "rocketmq-5.3.3"

CASES = tuple(sorted(path.name for path in _FOLDER.iterdir() if path.is_dir()))


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
        with tarfile.open(self._folder / "store.tar.xz") as archive:
            archive.extractall(target, filter="data")
        self.root = str(target / "store")
        return self.root

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
    def stopped_cleanly(self) -> bool:
        """Whether the broker was not killed."""
        return bool(self.expected["stop"] == "SIGTERM")

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
            queue=QueueGeometry(units_per_file=-(-queue_bytes // 20)),
            index=IndexGeometry(
                slots=int(settings.get("maxHashSlotNum", default.index.slots)),
                units=int(settings.get("maxIndexNum", default.index.units)),
            ),
        )
