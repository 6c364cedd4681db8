"""RocketMQ's JSON files in `config/`, and the NameServer's `kvConfig.json`.

The text is fastjson's pretty form (members sorted by name where RocketMQ's writer sorts them, a tab
for each level, integer keys without quotes), because RocketMQ brokers that are started on our
folder, and their operators, read it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec

from sprocket.base.disk import Disk, Steps
from sprocket.base.tables import BackedFile
from sprocket.rocketmq.codec.config import JsonObject, JsonValue, fastjson

S = TypeVar("S")
T = TypeVar("T")


class ConfigFile:
    """One JSON file with its `.bak`.

    Args:
        disk: Where it lies.
        path: The file.
        missing: Gives the content if neither of the two is there.

    Source: RocketMQ `ConfigManager`, which begins with an empty table where both are damaged, and
    would write over what is there; here that is a ForeignStore.
    """

    def __init__(self, disk: Disk, path: str, missing: Callable[[], JsonObject] = dict) -> None:
        self._file = BackedFile(disk, path)
        self._missing = missing

    def load(self, shape: type[S], interpret: Callable[[S], T]) -> T:
        """Return what `interpret` makes of the content; see `BackedFile.load`.

        Args:
            shape: What the object must be, as msgspec knows types: it is read the faster, the more
                is known.
            interpret: Turns the object into a value.
        """
        return self._file.load(
            lambda content: interpret(fastjson.read_large(content, shape)),
            lambda: interpret(msgspec.convert(self._missing(), shape)),
        )

    def replace(self, content: Mapping[str, JsonValue]) -> None:
        """Give the file a new content; see `BackedFile.replace`."""
        self._file.replace(fastjson.write(content))

    def replace_steps(self, members: "Mapping[str, JsonValue | Iterator[str]]") -> Steps:
        """Give the file a new content, which is made and written piece by piece.

        Args:
            members: See `fastjson.write_pieces`.
        """
        return self._file.replace_steps(fastjson.write_pieces(members))
