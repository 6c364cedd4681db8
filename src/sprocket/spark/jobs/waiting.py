"""What waits in a store: half messages for the end of their transaction, timed ones for their time.

Both are counted as the broker counts them, from its progress, its queues and the timer wheel; the
log is not read.
"""

from typing import NamedTuple

from sprocket.base.errors import FileMissing
from sprocket.base.units import KIB
from sprocket.rocketmq.model.internal import (
    HALF_TOPIC,
    OP_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_GROUP,
)
from sprocket.rocketmq.store import geometry
from sprocket.rocketmq.store.timer import SLOT, SLOT_BYTES, timer_checkpoint
from sprocket.spark.jobs import stored_queues
from sprocket.spark.jobs.job_files import StoreFolder
from sprocket.spark.jobs.stored_queues import FolderQueues

_READ_BYTES = 64 * KIB
"""Of the timer wheel, most of which was never written, at once."""
PRECISION_MS = 1000
"""What a slot takes, where the checkpoint does not say it."""


class WaitingInStore(NamedTuple):
    """How many messages wait.

    Attributes:
        halves: Half messages of which nothing in the store says how their transaction ended.
        timed: Messages whose time has not come.
    """

    halves: int
    timed: int


def waiting(source: StoreFolder) -> WaitingInStore:
    """Count what waits in a store; its queues are not looked at if there is nothing of that kind.

    Raises:
        SettingsError, StoreError: As of `stored_queues.opened`.
    """
    disk, layout = source.disk(), source.layout
    in_files = geometry.resolve(disk, layout, None).queue.engine == "files"
    topics = (HALF_TOPIC, TIMER_TOPIC)
    if in_files and not any(disk.is_folder(f"{layout.consumequeue}/{one}") for one in topics):
        return WaitingInStore(0, 0)
    with stored_queues.opened(source) as stored:
        return WaitingInStore(_halves(stored), _timed(stored))


def _halves(stored: FolderQueues) -> int:
    """Count the half messages that no op message names."""
    halves, ops = stored.get(HALF_TOPIC), stored.get(OP_TOPIC)
    if halves is None:
        return 0
    first = max(_progress(stored, HALF_TOPIC), halves.min_offset)
    ended: set[int] = set()
    if ops is not None:
        for offset in range(max(_progress(stored, OP_TOPIC), ops.min_offset), ops.max_offset):
            message = stored.message(ops, offset)
            named = b"" if message is None else message.stored_body
            ended.update(int(one) for one in named.split(b",") if one.strip().isdigit())
    return halves.max_offset - first - sum(first <= one < halves.max_offset for one in ended)


def _progress(stored: FolderQueues, topic: str) -> int:
    return stored.offsets.get(f"{topic}@{TRANSACTION_GROUP}", {}).get(0, 0)


def _timed(stored: FolderQueues) -> int:
    """Count the messages in the slots to come, and those that are not in a slot yet.

    Of a killed RocketMQ, whose wheel is younger than its checkpoint, some may count twice.
    """
    queue = stored.get(TIMER_TOPIC)
    if queue is None:
        return 0
    checkpoint = timer_checkpoint.load(stored.disk, stored.layout.timer_checkpoint)
    first = checkpoint.read_at_ms // (checkpoint.precision_ms or PRECISION_MS)
    known = max(checkpoint.queue_offset, queue.min_offset)
    in_slots = _in_slots(stored, first)
    return min(in_slots + max(queue.max_offset - known, 0), queue.max_offset - queue.min_offset)


def _in_slots(stored: FolderQueues, first: int) -> int:
    try:
        file = stored.disk.open(stored.layout.timer_wheel)
    except FileMissing:
        return 0
    try:
        slots = stored.disk.size(stored.layout.timer_wheel) // SLOT_BYTES
        found = 0
        for position in range(0, slots * SLOT_BYTES, _READ_BYTES):
            data = file.read(position, min(_READ_BYTES, slots * SLOT_BYTES - position))
            if data.count(0) == len(data):
                continue
            at = position // SLOT_BYTES
            for place, (number, _, _, waits, _) in enumerate(SLOT.iter_unpack(data), at):
                if number >= max(first, 1) and number % slots == place:
                    found += waits
    finally:
        file.close()
    return max(found, 0)
