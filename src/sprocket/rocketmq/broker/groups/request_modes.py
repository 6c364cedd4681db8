"""How groups get their messages, by topic, in `config/messageRequestMode.json`: PULL or POP."""

from collections.abc import Mapping

from sprocket.base import log
from sprocket.base.disk import Disk
from sprocket.base.errors import StoreError
from sprocket.rocketmq.codec.config import JsonObject, declared, fastjson, tables
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout

_log = log.get_limited_logger(__name__)


class RequestModes:
    """The table of modes by topic and group.

    Threads: event loop only.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self._file = ConfigFile(disk, StoreLayout(folder).request_modes)
        self._table: dict[str, dict[str, tables.RequestMode]] = {}
        self._file.load(fastjson.Members, self._interpret)

    def of(self, topic: str, group: str) -> tables.RequestMode | None:
        """Return how a group gets the messages of a topic, None if nobody has said it."""
        return self._table.get(topic, {}).get(group)

    def all(self) -> Mapping[str, Mapping[str, tables.RequestMode]]:
        """Return every mode by topic and group."""
        return self._table

    def put(self, mode: tables.RequestMode) -> None:
        """Add or replace a mode.

        Raises:
            StoreError: The file could not be written; the table is as before.
        Durability: on the disk when this returns.
        """
        old = {topic: dict(groups) for topic, groups in self._table.items()}
        self._table.setdefault(mode.topic, {})[mode.group] = mode
        try:
            self._file.replace(declared.plain(tables.RequestModeTable(self._table)))
        except StoreError:
            self._table = old
            raise

    def _interpret(self, content: JsonObject) -> None:
        """Take in what the file says."""
        modes = declared.read(tables.RequestModeTable, content, "request modes").modes
        self._table = {topic: dict(groups) for topic, groups in modes.items()}
