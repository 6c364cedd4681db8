"""How far each queue is compacted: RocketMQ's file `compaction/position-checkpoint`.

    {"queueOffsetMap":{"topic_0":4711}}

A position that is too low, or lost, only makes the next round look at more. One that is too high
cannot be: it is lowered to what the queue has when it is loaded.
"""

import os
from collections.abc import Mapping

import msgspec

from sprocket.base.disk import Disk, read_file, replace_file
from sprocket.base.errors import DiskFailed, WireError
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import QueueKey

_MEMBER = "queueOffsetMap"


def read(disk: Disk, layout: StoreLayout) -> dict[str, int]:
    """Return the positions by `topic_queue id`; none if they cannot be read."""
    try:
        content = fastjson.read_large(read_file(disk, layout.compaction_positions))
    except (DiskFailed, WireError):
        return {}
    found = content.get(_MEMBER) if isinstance(content, dict) else None
    if not isinstance(found, dict):
        return {}
    return {name: at for name, at in found.items() if isinstance(at, int) and at >= 0}


def name_of(key: QueueKey) -> str:
    """Return the name of a queue in the file."""
    return f"{key[0]}_{key[1]}"


def save(disk: Disk, layout: StoreLayout, positions: Mapping[str, int]) -> None:
    """Write the file. Durable on return."""
    disk.make_folder(os.path.dirname(layout.compaction_positions))
    replace_file(disk, layout.compaction_positions, msgspec.json.encode({_MEMBER: positions}))
