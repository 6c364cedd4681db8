"""RocketMQ's JSON files in `config/`: how they are read, written and kept through a crash.

The text is fastjson's pretty form (members sorted by name where RocketMQ's writer sorts them, a tab
for each level, integer keys without quotes), because RocketMQ brokers that are started on our
folder, and their operators, read it. Our files are replaced as a whole and durably; the old content
stays as `.bak`.

Tables that grow (topics, groups, offsets) are such a file, the snapshot, and a journal of what came
since (`base.journal`). The snapshot says in a member of ours, `codec.tables.SEQUENCE`, up to where
it covers the journal.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec

from sprocket.base import log
from sprocket.base.disk import Disk, Steps, files, steps
from sprocket.base.errors import FileMissing, ForeignStore, WireError
from sprocket.base.tables import BACKUP, replace_steps
from sprocket.rocketmq.codec.config import JsonObject, JsonValue, fastjson

_log = log.get_logger(__name__)

S = TypeVar("S")
T = TypeVar("T")


class ConfigFile:
    """One JSON file with its `.bak`.

    Args:
        disk: Where it lies.
        path: The file.
        missing: Gives the content if neither of the two is there.
    """

    def __init__(self, disk: Disk, path: str, missing: Callable[[], JsonObject] = dict) -> None:
        self._disk = disk
        self.path = path
        self._missing = missing

    def load(self, interpret: Callable[[JsonObject], T]) -> T:
        """Do what `load_as` does, for an object of any members."""
        return self.load_as(fastjson.Members, interpret)

    def load_as(self, shape: type[S], interpret: Callable[[S], T]) -> T:
        """Return what `interpret` makes of the content, of what `missing` gives if there is none.

        Args:
            shape: What the object must be, as msgspec knows types: it is read the faster, the more
                is known.
            interpret: Turns the object into a value; may raise WireError, ValueError or TypeError,
                which count as damage.

        Raises:
            ForeignStore: The file is damaged, and so is its backup if there is one. RocketMQ would
                begin with an empty table then, and write over what is there.
        Durability: a file that was taken from its backup is on the disk again, so that the next
            `replace` does not put what was damaged over the backup.
        Source: RocketMQ `ConfigManager.load`: a missing, empty or damaged file is taken from
            `.bak`.
        """
        damage = ""
        for path in (self.path, self.path + BACKUP):
            content = self._read(path)
            if not content:
                continue
            try:
                value = interpret(fastjson.read_large(content, shape))
                if path != self.path:
                    files.replace_file(self._disk, self.path, content)
                return value
            except (WireError, ValueError, TypeError) as error:
                damage = f"{path} is damaged: {error}"
                _log.error("a file is damaged", path=path, why=str(error))
        if damage:
            raise ForeignStore(damage)
        return interpret(msgspec.convert(self._missing(), shape))

    @staticmethod
    def encode(value: Mapping[str, JsonValue]) -> bytes:
        """Return the text of the file."""
        return fastjson.write(value, int_keys_unquoted=True, pretty=True)

    def replace(self, content: bytes) -> None:
        """Give the file a new content: after a crash it has the old one or the new one.

        Durability: on the disk when this returns.
        Threads: any, one call at a time.
        """
        steps.run(replace_steps(self._disk, self.path, [content]))

    def replace_steps(self, members: "Mapping[str, JsonValue | Iterator[str]]") -> Steps:
        """Give the file a new content, which is made and written piece by piece.

        Args:
            members: See `fastjson.write_pieces`.
        """
        yield from replace_steps(self._disk, self.path, fastjson.write_pieces(members))

    def _read(self, path: str) -> bytes:
        try:
            return files.read_file(self._disk, path)
        except FileMissing:
            return b""
