"""Offsets of a stream: where each queue continues, as Spark keeps it, and what lies between two.

Spark compares offsets as JSON text, so the same offsets must give the same text, always: keys are
sorted, numbers are integers. The form, version 1, is in docs/formats/stream-offsets.md:

    {"v": 1, "queues": {"<topic>": {"<broker>": {"<queue id>": <next queue offset>}}}}

Beside `queues` there may be `last`, of the same shape: of each queue a message that was read.

Everything here is pure: what `between` gives depends on two offsets and nothing else, because
Spark plans an unfinished batch again after a restart.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sprocket.base.errors import DataLost
from sprocket.rocketmq.model.route import MessageQueue, QueueSlice

VERSION = 1

Offsets: TypeAlias = dict[MessageQueue, int]
"""The next queue offset of each queue."""


@dataclasses.dataclass(frozen=True, slots=True)
class LastRead:
    """The last message that was read of a queue when it was checked: it identifies the queue.

    Args:
        queue_offset: Where in the queue.
        physical_offset: Where in its broker's log.
        stored_at_ms: When that broker stored it, milliseconds since 1970.
    """

    queue_offset: int
    physical_offset: int
    stored_at_ms: int

    def is_other(self, found: "LastRead") -> bool:
        """Tell whether a message that is there now, here or before, cannot be of the same queue.

        In one queue both offsets rise together, and store times do not fall.
        """
        if found.queue_offset == self.queue_offset:
            return found != self
        return (
            found.physical_offset >= self.physical_offset or found.stored_at_ms > self.stored_at_ms
        )


_QUEUE_WEIGHT = 40
"""What a queue costs beside its messages, counted in messages: a pull of its own."""
_TASK_WEIGHT = 20_000
"""Up to how many messages slices share a task: a tenth to a fifth of a second's reading."""


def encode(
    offsets: Mapping[MessageQueue, int], last: Mapping[MessageQueue, LastRead] | None = None
) -> dict[str, Any]:
    """Return offsets as Spark keeps them, with messages that were read of some of the queues."""
    last = last or {}
    numbers = {queue: int(offsets[queue]) for queue in sorted(offsets)}
    kept = {"v": VERSION, "queues": _by_topic(numbers)}
    known = {queue: list(dataclasses.astuple(last[queue])) for queue in numbers if queue in last}
    return kept | {"last": _by_topic(known)} if known else kept


def decode(kept: Mapping[str, Any]) -> Offsets:
    """Return the offsets that `encode` was given.

    Raises:
        DataLost: It was written by another version, or by another source.
    """
    if kept.get("v") != VERSION or "queues" not in kept:
        raise DataLost(
            f"the checkpoint has the offsets {kept}, not those of topics in version {VERSION}: it "
            "belongs to another release or another source"
        )
    return {queue: int(offset) for queue, offset in _by_queue(kept["queues"]).items()}


def decode_last(kept: Mapping[str, Any]) -> dict[MessageQueue, LastRead]:
    """Return the messages that `encode` was given; releases before this one kept none."""
    return {queue: LastRead(*numbers) for queue, numbers in _by_queue(kept.get("last", {})).items()}


def _by_topic(values: Mapping[MessageQueue, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return values of queues by topic, broker and queue id, in the order of the queues."""
    topics: dict[str, dict[str, dict[str, Any]]] = {}
    for queue, value in values.items():
        brokers = topics.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = value
    return topics


def _by_queue(topics: Mapping[str, Any]) -> dict[MessageQueue, Any]:
    """Return the same by queue."""
    return {
        MessageQueue(topic, broker, int(queue)): value
        for topic, brokers in topics.items()
        for broker, queues in brokers.items()
        for queue, value in queues.items()
    }


def count(start: Offsets, ends: Offsets) -> int:
    """Return how many messages there are after `start`."""
    return sum(max(end - start.get(queue, 0), 0) for queue, end in ends.items())


def limit(start: Offsets, ends: Offsets, count_max: int) -> Offsets:
    """Return ends at most `count_max` messages after `start` in all.

    The messages are shared out in proportion to what each queue has; a queue that has any gets at
    least one, so that none starves.
    """
    waiting = {queue: max(end - start.get(queue, 0), 0) for queue, end in ends.items()}
    total = sum(waiting.values())
    if total <= count_max:
        return ends
    limited = {}
    for queue, end in ends.items():
        share = max(waiting[queue] * count_max // total, 1)
        is_behind = waiting[queue] > share
        limited[queue] = start.get(queue, 0) + share if is_behind else end
    return limited


def between(start: Offsets, end: Offsets, *, fail_on_data_loss: bool) -> list[QueueSlice]:
    """Return what to read for a batch; a queue that is not in `start` begins at 0.

    Raises:
        DataLost: A queue ends before it starts, and that is an error.
    """
    ranges = []
    for queue in sorted(end):
        first, last = start.get(queue, 0), end[queue]
        if first > last and fail_on_data_loss:
            raise DataLost(
                f"{name(queue)} was read up to offset {first} and now ends at {last}: its broker "
                "lost messages, or the query was started with `latest` and failed before its "
                "first batch. failOnDataLoss=false goes on at the new end"
            )
        if first < last:
            ranges.append(QueueSlice(queue, first, last))
    return ranges


def tasks(slices: Sequence[QueueSlice], count_min: int) -> list[list[QueueSlice]]:
    """Return what to read in at least this many tasks, as far as there are messages.

    Small slices of one broker share a task, as each task costs as much as thousands of messages: a
    start, and connections of its own. Long slices are cut if there are fewer than `count_min`.
    """
    if len(slices) < count_min:
        return [[part] for part in _cut(slices, count_min)]
    weight_max = _TASK_WEIGHT
    while len(found := _grouped(slices, weight_max)) < count_min:
        weight_max //= 2
    return found


def _cut(slices: Sequence[QueueSlice], count_min: int) -> list[QueueSlice]:
    """Return slices cut into at least this many parts, all of about the same length."""
    total = sum(one.end - one.start for one in slices)
    parts: list[QueueSlice] = []
    for one in slices:
        size = one.end - one.start
        count = min(-(-size * count_min // total), size)
        cuts = [one.start + size * number // count for number in range(count + 1)]
        parts += [QueueSlice(one.queue, *bounds) for bounds in itertools.pairwise(cuts)]
    return parts


def _grouped(slices: Sequence[QueueSlice], weight_max: int) -> list[list[QueueSlice]]:
    """Return slices in groups up to a weight, each of one broker; a heavy one is a group alone.

    Those alone come first, so that what takes longest begins first.
    """
    alone: list[list[QueueSlice]] = []
    shared: list[list[QueueSlice]] = []
    room: dict[str, int] = {}
    open_groups: dict[str, list[QueueSlice]] = {}
    for one in slices:
        weight = one.end - one.start + _QUEUE_WEIGHT
        broker = one.queue.broker_name
        if weight > weight_max:
            alone.append([one])
            continue
        if weight > room.get(broker, 0):
            open_groups[broker], room[broker] = [], weight_max
            shared.append(open_groups[broker])
        open_groups[broker].append(one)
        room[broker] -= weight
    return alone + shared


def name(queue: MessageQueue) -> str:
    """Return a queue in words."""
    return f"queue {queue.queue_id} of topic {queue.topic!r} on {queue.broker_name!r}"
