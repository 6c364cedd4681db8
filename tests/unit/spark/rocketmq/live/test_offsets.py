"""Offsets of a stream: the same text for the same offsets, and nothing lost between two."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import DataLost
from sprocket.rocketmq.model.route import MessageQueue, QueueSlice
from sprocket.spark.rocketmq.folder import stream
from sprocket.spark.rocketmq.live.offsets import (
    LastRead,
    between,
    decode,
    decode_last,
    encode,
    limit,
    tasks,
)

QUEUES = [MessageQueue(t, b, q) for t in "zab" for b in ("b2", "b1") for q in (10, 2)]
OFFSETS = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 100))
NUMBERS = st.integers(0, 3)
MESSAGES = st.builds(LastRead, NUMBERS, NUMBERS, NUMBERS)
LAST = st.dictionaries(st.sampled_from(QUEUES), MESSAGES)
NEVER = LastRead(0, 0, 0)
PAGE = Path(__file__).parents[5] / "docs" / "formats" / "stream-offsets.md"


@given(OFFSETS, LAST, st.randoms())
def test_one_text_for_the_same_offsets(
    offsets: dict[MessageQueue, int], last: dict[MessageQueue, LastRead], chance: object
) -> None:
    """Spark compares text: the order in which queues were found must not show."""
    items, messages = list(offsets.items()), list(last.items())
    chance.shuffle(items)  # type: ignore[attr-defined]
    chance.shuffle(messages)  # type: ignore[attr-defined]
    text = json.dumps(encode(dict(items), dict(messages)))
    assert text == json.dumps(encode(offsets, last))
    kept = json.loads(text)
    assert decode(kept) == offsets
    assert decode_last(kept) == {queue: one for queue, one in last.items() if queue in offsets}
    assert json.dumps(encode(decode(kept), decode_last(kept))) == text


def test_the_form_is_kept() -> None:
    """Checkpoints outlive releases: this text may never change."""
    offsets = {MessageQueue("t", "b", 10): 5, MessageQueue("t", "b", 2): 7}
    text = '{"v": 1, "queues": {"t": {"b": {"2": 7, "10": 5}}}}'
    assert json.dumps(encode(offsets)) == text
    assert decode_last(json.loads(text)) == {}
    last = {MessageQueue("t", "b", 10): LastRead(4, 9_000, 17), MessageQueue("u", "b", 0): NEVER}
    assert json.dumps(encode(offsets, last)) == (
        text.removesuffix("}") + ', "last": {"t": {"b": {"10": [4, 9000, 17]}}}}'
    )
    with pytest.raises(DataLost, match="'v': 2"):
        decode({"v": 2, "queues": {}})
    with pytest.raises(DataLost, match="'phys': 1}, not those of topics in version 1"):
        decode({"v": 1, "phys": 1})


def test_the_example_on_its_page() -> None:
    """What the page shows is read, and written again as it is."""
    topics, folder = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    kept = json.loads(topics)
    assert encode(decode(kept), decode_last(kept)) == kept
    queue = MessageQueue("orders", "broker-a", 0)
    assert decode(kept)[queue] == decode_last(kept)[queue].queue_offset + 1
    assert len(decode(kept)) > len(decode_last(kept))
    assert stream.encode(stream.decode(json.loads(folder))) == json.loads(folder)
    assert stream.decode(json.loads(folder)).last is not None


@given(MESSAGES, MESSAGES)
def test_one_queue_has_rising_offsets(was: LastRead, now: LastRead) -> None:
    """What is there now is of the same queue if the log could have both, in this order."""
    if now.queue_offset > was.queue_offset:
        return  # nobody asks for what came later
    can_be = now == was or (
        now.queue_offset < was.queue_offset
        and now.physical_offset < was.physical_offset
        and now.stored_at_ms <= was.stored_at_ms
    )
    assert was.is_other(now) is not can_be


@given(OFFSETS, OFFSETS, st.integers(1, 300))
def test_a_limit_is_shared_out(
    start: dict[MessageQueue, int], more: dict[MessageQueue, int], count_max: int
) -> None:
    """No queue starves, none passes its end, and in all it is not much more than asked for."""
    ends = {queue: start.get(queue, 0) + count for queue, count in more.items()}
    limited = limit(start, ends, count_max)
    taken = {queue: limited[queue] - start.get(queue, 0) for queue in ends}
    assert set(limited) == set(ends)
    assert all(0 <= taken[queue] <= more[queue] for queue in ends)
    assert all(taken[queue] >= 1 for queue in ends if more[queue])
    assert sum(taken.values()) <= max(count_max, len(ends)) + len(ends)


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(0, 40))
def test_slices_in_so_many_parts(sizes: list[int], count_min: int) -> None:
    """At least as many as asked for where there are messages, each message in one of them."""
    slices = [QueueSlice(QUEUES[n], 7, 7 + size) for n, size in enumerate(sizes)]
    planned = tasks(slices, count_min)
    assert len(planned) >= min(count_min, sum(sizes))
    parts = [part for task in planned for part in task]
    assert all(part.start < part.end for part in parts)
    read = [(part.queue, offset) for part in parts for offset in range(part.start, part.end)]
    assert sorted(read) == [
        (one.queue, at) for one in sorted(slices, key=queue_of) for at in range(one.start, one.end)
    ]
    assert all(len({part.queue.broker_name for part in task}) == 1 for task in planned)
    if count_min <= 1:
        assert len(planned) == len({one.queue.broker_name for one in slices})


def queue_of(one: QueueSlice) -> MessageQueue:
    """Return the queue of a slice."""
    return one.queue


def test_small_slices_share_a_task() -> None:
    """So many as there is to read, whatever the number of queues; a long one is a task alone."""
    many = [QueueSlice(MessageQueue(f"t{n}", "b", 0), 0, 1) for n in range(1_000)]
    assert 2 <= len(tasks(many, 0)) <= 4
    many = [QueueSlice(MessageQueue("t", "b", n), 0, 3) for n in range(10_000)]
    assert 2 <= len(tasks(many, 0)) <= 40
    long = QueueSlice(MessageQueue("t", "b", 10_000), 0, 10**6)
    planned = tasks([*many[:5_000], long, *many[5_000:]], 0)
    assert planned[0] == [long]
    assert [part for task in planned[1:] for part in task] == many
    middle = [QueueSlice(MessageQueue("t", "b", n), 0, 20_000) for n in range(4)]
    assert tasks(middle, 0) == [[one] for one in middle]


@pytest.mark.parametrize("count_min", [1, 7, 100, 999, 1_000, 1_001])
def test_as_many_tasks_as_asked_for(count_min: int) -> None:
    """Slices share less the more tasks there are to be."""
    many = [QueueSlice(MessageQueue("t", "b", n), 0, 2) for n in range(1_000)]
    planned = tasks(many, count_min)
    assert len(planned) >= count_min
    assert sum(part.end - part.start for task in planned for part in task) == 2_000


def test_ranges_between_two_offsets() -> None:
    """Queues with nothing new have no range; a new queue begins at 0."""
    one, two, new = (MessageQueue("t", "b", number) for number in range(3))
    ranges = between({one: 3, two: 4}, {one: 5, two: 4, new: 2}, fail_on_data_loss=True)
    assert ranges == [QueueSlice(one, 3, 5), QueueSlice(new, 0, 2)]


def test_an_end_before_the_start_is_data_loss() -> None:
    """So is `latest` resolved anew after a failure before the first batch; or it is passed over."""
    queue = MessageQueue("t", "b", 0)
    with pytest.raises(DataLost, match="queue 0 of topic 't' on 'b' was read up to offset 5"):
        between({queue: 5}, {queue: 3}, fail_on_data_loss=True)
    assert between({queue: 5}, {queue: 3}, fail_on_data_loss=False) == []
