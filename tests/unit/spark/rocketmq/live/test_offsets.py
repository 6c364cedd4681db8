"""Offsets of a stream: the same text for the same offsets, and nothing lost between two."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import DataLost
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq.live.offsets import (
    QueueSlice,
    between,
    decode,
    divided,
    encode,
    limit,
)

QUEUES = [MessageQueue(t, b, q) for t in "zab" for b in ("b2", "b1") for q in (10, 2)]
OFFSETS = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 100))


@given(OFFSETS, st.randoms())
def test_one_text_for_the_same_offsets(offsets: dict[MessageQueue, int], chance: object) -> None:
    """Spark compares text: the order in which queues were found must not show."""
    items = list(offsets.items())
    chance.shuffle(items)  # type: ignore[attr-defined]
    text = json.dumps(encode(dict(items)))
    assert text == json.dumps(encode(offsets))
    assert decode(json.loads(text)) == offsets
    assert json.dumps(encode(decode(json.loads(text)))) == text


def test_the_form_is_kept() -> None:
    """Checkpoints outlive releases: this text may never change."""
    offsets = {MessageQueue("t", "b", 10): 5, MessageQueue("t", "b", 2): 7}
    assert json.dumps(encode(offsets)) == '{"v": 1, "queues": {"t": {"b": {"2": 7, "10": 5}}}}'
    with pytest.raises(DataLost, match="'v': 2"):
        decode({"v": 2, "queues": {}})
    with pytest.raises(DataLost, match="'phys': 1}, not those of topics in version 1"):
        decode({"v": 1, "phys": 1})


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


@given(st.lists(st.integers(1, 50), max_size=5), st.integers(0, 40))
def test_slices_in_so_many_parts(sizes: list[int], count_min: int) -> None:
    """At least as many as asked for where there are messages, each message in one of them."""
    slices = [QueueSlice(QUEUES[n], 7, 7 + size) for n, size in enumerate(sizes)]
    parts = divided(slices, count_min)
    assert len(parts) >= min(count_min, sum(sizes))
    assert all(part.start < part.end for part in parts)
    read = [(part.queue, offset) for part in parts for offset in range(part.start, part.end)]
    assert read == [(one.queue, at) for one in slices for at in range(one.start, one.end)]
    if len(slices) >= count_min:
        assert parts == slices


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
