"""Folders that a real RabbitMQ wrote, for tests that read them; see `tests/data`."""

import json
import lzma
import tarfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.recorded import unpack_archive

from sprocket.testing.disk import SimulatedDisk

FOLDER = Path(__file__).parent / "data" / "rabbitmq-3.10.8"
CASES = tuple(sorted(path.name for path in FOLDER.iterdir() if path.is_dir()))


class RecordedVhosts:
    """The virtual hosts of one stopped node.

    Attributes:
        name: The case's folder.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = FOLDER / name

    def unpack(self, target: Path) -> str:
        """Unpack into an empty folder; return the path of the folder `vhosts`."""
        unpack_archive(self._folder / "vhosts.tar.xz", target)
        return str(target / "vhosts")

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Give path, from the folder `vhosts` on, and content of each file."""
        with tarfile.open(self._folder / "vhosts.tar.xz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    yield member.name.removeprefix("./").removeprefix("vhosts/"), content.read()

    def in_memory(self) -> SimulatedDisk:
        """Return a disk that has the folder as `/vhosts`."""
        disk = SimulatedDisk()
        for path, data in self.files():
            folder = f"/vhosts/{path}".rpartition("/")[0]
            disk.make_folder(folder)
            file = disk.open(f"/vhosts/{path}", write=True, create=True)
            file.write([data], 0)
            file.sync()
            disk.sync_folder(folder)
        return disk

    @cached_property
    def expected(self) -> Any:
        """What the node and its client told."""
        return json.loads((self._folder / "expected.json").read_text(encoding="utf-8"))

    @cached_property
    def messages(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """What a client got from each durable queue after the next start, in order."""
        found: dict[tuple[str, str], list[dict[str, Any]]] = {
            (queue["vhost"], queue["name"]): queue.get("messages", [])
            for queue in self.expected["queues"]
            if queue["exists_after_recovery"]
        }
        if "messages_file" in self.expected:
            path = self._folder / self.expected["messages_file"]
            with lzma.open(path, "rt", encoding="utf-8") as lines:
                for line in map(json.loads, lines):
                    found[line.pop("vhost"), line.pop("queue")].append(line)
        return found
