"""RocketMQ's JSON files in `config/`: how they are read, written and kept through a crash.

The text is fastjson's pretty form (members sorted by name where the writer sorts them, a tab for
each level, integer keys without quotes), because a RocketMQ broker started on our folder reads it
and its operators do. Ours are replaced as a whole and durably, the old content stays as `.bak`.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sprocket.base import files, log
from sprocket.base.disk import Disk
from sprocket.base.errors import FileMissing, ForeignStore, WireError
from sprocket.rocketmq.codec import fastjson

_log = log.get_logger(__name__)

T = TypeVar("T")


class ConfigFile:
    """One JSON file with its `.bak`.

    Args:
        disk: Where it lies.
        path: The file.
        missing: Gives the content if neither of the two is there.
    """

    def __init__(self, disk: Disk, path: str, missing: Callable[[], dict[str, Any]] = dict) -> None:
        self._disk = disk
        self.path = path
        self._missing = missing

    def load(self, interpret: Callable[[dict[str, Any]], T]) -> T:
        """Return what `interpret` makes of the content, of what `missing` gives if there is none.

        Args:
            interpret: Turns the JSON object into a value; may raise WireError, ValueError or
                TypeError, which count as damage.

        Raises:
            ForeignStore: The file is damaged, and so is its backup if there is one. RocketMQ would
                begin with an empty table then, and write over what is there.
        Durability: a file that was taken from its backup is on the disk again, so that the next
            `replace` does not put what was damaged over the backup.
        Source: RocketMQ `ConfigManager.load`: a missing, empty or damaged file is taken from
            `.bak`.
        """
        damage = ""
        for path in (self.path, self.path + ".bak"):
            content = self._read(path)
            if not content:
                continue
            try:
                value = interpret(_parse(content))
                if path != self.path:
                    files.replace_file(self._disk, self.path, content)
                return value
            except (WireError, ValueError, TypeError) as error:
                damage = f"{path} is damaged: {error}"
                _log.error("a file is damaged", path=path, why=str(error))
        if damage:
            raise ForeignStore(damage)
        return interpret(self._missing())

    @staticmethod
    def encode(value: Mapping[str, Any]) -> bytes:
        """Return the text of the file."""
        return fastjson.write(value, int_keys_unquoted=True, pretty=True)

    def replace(self, content: bytes) -> None:
        """Give the file a new content: after a crash it has the old one or the new one.

        Durability: on the disk when this returns.
        Threads: any, one call at a time.
        """
        files.replace_file(self._disk, self.path, content, keep_backup=True)

    def _read(self, path: str) -> bytes:
        try:
            return files.read_file(self._disk, path)
        except FileMissing:
            return b""


def _parse(content: bytes) -> dict[str, Any]:
    value = fastjson.read(content)
    if not isinstance(value, dict):
        raise WireError("a JSON object was expected")
    return value
