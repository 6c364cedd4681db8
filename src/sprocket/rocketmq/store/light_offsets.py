"""`lmqConsumerOffset.json`, which RocketMQ has in place of `consumerOffset.json` with light queues.

Groups of light queues have one number for each of their topics there, all others are as in the
other file. Ours is written beside that: the same table, for a RocketMQ that goes on here. Our
member `sprocketSequence` says that it was written by us, so that it is only read after RocketMQ has
written it. Source: RocketMQ `LmqConsumerOffsetManager`. See docs/formats/consumer-offsets.md.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias, TypedDict

from sprocket.base.disk import Disk, Steps
from sprocket.rocketmq.codec.config import DataVersion, declared, fastjson, tables
from sprocket.rocketmq.model.internal import LIGHT_PREFIX
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout

Table: TypeAlias = dict[str, dict[int, int]]
"""The committed offset of each queue, by `topic@group` and queue id."""


class _File(TypedDict, total=False):
    dataVersion: object
    offsetTable: dict[str, dict[int, int] | None] | None
    lmqOffsetTable: dict[str, int] | None
    sprocketSequence: int | None


class Foreign(NamedTuple):
    """What RocketMQ has written.

    Attributes:
        table: The offsets.
        changed_at_ms: When they had changed last, or nearly so; 0 if it does not say.
    """

    table: Table
    changed_at_ms: int


class LightOffsets:
    """The file in a store's folder."""

    def __init__(self, disk: Disk, layout: StoreLayout) -> None:
        self._file = ConfigFile(disk, layout.light_offsets)

    def is_ours(self) -> bool:
        """Tell whether a broker of ours has written it last. Raises ForeignStore: it is damaged."""
        return self._file.load(_File, lambda content: tables.SEQUENCE in content)

    def foreign(self) -> Foreign | None:
        """Return what RocketMQ has written, if it was the last that did.

        Raises:
            ForeignStore: The file is damaged, and so is its backup.
        """
        return self._file.load(_File, _foreign)

    def replace_steps(
        self, version: DataVersion, offsets: Mapping[str, Mapping[int, int]], sequence: int
    ) -> Steps:
        """Write the table; entries are as they are when they are asked for.

        Raises:
            DiskFull, DiskFailed: The old file is there.
        """
        return self._file.replace_steps(
            {
                "dataVersion": declared.plain(version),
                "groupTopicMap": _group_entries(offsets),
                "lmqOffsetTable": _light_entries(offsets),
                "offsetTable": _other_entries(offsets),
                tables.SEQUENCE: sequence,
            }
        )


def _foreign(content: _File) -> Foreign | None:
    if not content or tables.SEQUENCE in content:
        return None
    table = {key: dict(queues or {}) for key, queues in (content.get("offsetTable") or {}).items()}
    for key, offset in (content.get("lmqOffsetTable") or {}).items():
        table.setdefault(key, {})[0] = offset
    return Foreign(table, DataVersion.from_json(content.get("dataVersion"), 0).timestamp)


def _is_of_light_group(key: str) -> bool:
    return key.partition("@")[2].startswith(LIGHT_PREFIX)


def _group_entries(offsets: Mapping[str, Mapping[int, int]]) -> Iterator[str]:
    topics: dict[str, list[str]] = {}
    for key in list(offsets):
        if not _is_of_light_group(key):
            topic, _, group = key.partition("@")
            topics.setdefault(group, []).append(topic)
    for group, names in topics.items():
        yield fastjson.entry(group, names)


def _light_entries(offsets: Mapping[str, Mapping[int, int]]) -> Iterator[str]:
    for key in list(offsets):
        queues = offsets.get(key)
        if queues is not None and 0 in queues and _is_of_light_group(key):
            yield fastjson.entry(key, queues[0])


def _other_entries(offsets: Mapping[str, Mapping[int, int]]) -> Iterator[str]:
    for key in list(offsets):
        queues = offsets.get(key)
        if queues is not None and not _is_of_light_group(key):
            yield fastjson.int_map_entry(key, queues)
