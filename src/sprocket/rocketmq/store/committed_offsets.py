"""Where consumer groups are, read from a store's folder that somebody else may have open.

The table and its journal are what `broker.groups` writes; here nothing is changed, so a broker may
run on the folder. See docs/formats/consumer-offsets.md.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypedDict

from sprocket.base.disk import Disk
from sprocket.base.errors import StoreError, WireError
from sprocket.base.tables import journal
from sprocket.rocketmq.codec.config import DataVersion, tables
from sprocket.rocketmq.store import config_rdb, config_table
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.light_offsets import LightOffsets


class _File(TypedDict, total=False):
    dataVersion: object
    offsetTable: dict[str, dict[int, int] | None] | None
    sprocketSequence: int | None


def read(disk: Disk, layout: StoreLayout) -> dict[str, dict[int, int]]:
    """Return the committed offset of each queue, by `topic@group` and queue id.

    Where RocketMQ has left two files, one of them of light queues, it is that of the newer version.

    Raises:
        ForeignStore: The table is damaged, and so is its backup.
        EngineMissing, CorruptRecord: They are in a database, which cannot be read.
    """
    found: dict[str, dict[int, int]] = {}
    changed_at_ms = 0

    def take(content: _File) -> int | None:
        nonlocal changed_at_ms
        changed_at_ms = DataVersion.from_json(content.get("dataVersion"), 0).timestamp
        for key, queues in (content.get("offsetTable") or {}).items():
            found[key] = dict(queues or {})
        return tables.covered_by(content)

    kind = config_table.OFFSETS
    path, journal_path = kind.paths(layout)
    table = ConfigFile(disk, path, lambda: config_rdb.content(disk, layout, config_rdb.OFFSETS))
    covered = table.load(_File, take)
    light = LightOffsets(disk, layout).foreign()
    if light is not None and light.changed_at_ms > changed_at_ms:
        return light.table
    for _, key, queue_id, offset in journal.entries(disk, journal_path, covered, kind.decode):
        if offset is None:
            found.pop(key, None)
        else:
            found.setdefault(key, {})[queue_id] = offset
    return found


def read_sound(disk: Disk, layout: StoreLayout) -> dict[str, dict[int, int]]:
    """Do as `read`, for those who tell elsewhere what cannot be read: it counts as empty."""
    try:
        return read(disk, layout)
    except (StoreError, WireError):
        return {}


class BeyondEnd(NamedTuple):
    """A committed offset behind the end of its queue: the messages before it are lost.

    A group that goes on there gets no message until as many have come.
    """

    topic: str
    group: str
    queue_id: int
    offset: int
    end: int


def beyond_ends(
    offsets: Mapping[str, Mapping[int, int]], end_of: Callable[[str, int], int]
) -> Iterator[BeyondEnd]:
    """Give the offsets that lie behind the ends of their queues.

    Args:
        offsets: By `topic@group` and queue id.
        end_of: Returns where a queue ends, 0 if it never had a message.
    """
    for key, queues in offsets.items():
        topic, _, group = key.partition("@")
        for queue_id, offset in queues.items():
            end = end_of(topic, queue_id)
            if offset > end:
                yield BeyondEnd(topic, group, queue_id, offset, end)
