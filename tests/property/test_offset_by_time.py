"""Offsets by time are what their definition says, for any times and any queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rocketmq.store.logs import Log

from sprocket.rocketmq.codec.record import ids, record, record_scan
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.model.message import INNER_BATCH, NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import FileQueues, OtherKinds, Queue
from sprocket.rocketmq.store.read import Boundary, time_search
from sprocket.testing.disk import SimulatedDisk

HOST = ids.host_bytes("127.0.0.1", 10911)

messages = st.lists(st.tuples(st.sampled_from([0, 0, 1, 2, 5]), st.integers(1, 4)), max_size=30)
"""Time since the message before, and how many messages an inner batch has."""


def made(steps: list[tuple[int, int]], kind: str) -> tuple[Log, Queue | None, list[int]]:
    """Return a log, its queue, and the store time of each message."""
    log = Log()
    others = OtherKinds("/e", "/b", extend=kind == "extended")
    if kind == "batches":
        others.batch_topics.add("T")
    geometry = QueueGeometry(units_per_file=4, batch_units_per_file=4, extension_bytes=128)
    log.queues = FileQueues(SimulatedDisk(), "/q", geometry, others=others)
    log.queues.load()
    times: list[int] = []
    at_ms = 10
    for step, count in steps:
        at_ms += step
        count = count if kind == "batches" else 1
        new = NewRecord(
            "T",
            0,
            b"x",
            b"INNER_NUM\x01%d\x02" % count,
            HOST,
            HOST,
            sys_flag=INNER_BATCH if kind == "batches" else 0,
        )
        data = record.encode(
            new,
            queue_offset=len(times),
            physical_offset=len(log.data),
            stored_at_ms=at_ms,
            crc_tail=False,
        )
        log.data += data
        log.queues.put_round([record.entry(data)])
        times += [at_ms] * count
    return log, log.queues.by_key.get(("T", 0)), times


@pytest.mark.slow
@given(messages, st.sampled_from(["plain", "extended", "batches"]), st.integers(0, 30))
def test_lower_and_upper_are_what_they_are_defined_as(
    steps: list[tuple[int, int]], kind: str, gone: int
) -> None:
    """By brute force, for every time around; messages before a place are gone.

    Inside the range; LOWER never goes down; with a message at the time LOWER ≤ UPPER, else UPPER is
    the one before LOWER.
    """
    log, queue, times = made(steps, kind)
    if queue is None:
        assert time_search.offset_by_time(None, log, 5, Boundary.LOWER) == 0
        return
    places = list(record_scan.Scan(memoryview(bytes(log.data)), 0, 0, len(log.data)))
    log.first = places[gone][0] if gone < len(places) else len(log.data)
    log.queues.correct_min(PhysicalOffset(log.first))
    low, high = queue.min_offset, queue.max_offset
    assert high == len(times)
    before = -1
    for at_ms in range(8, max(times) + 3):
        lower = time_search.offset_by_time(queue, log, at_ms, Boundary.LOWER)
        upper = time_search.offset_by_time(queue, log, at_ms, Boundary.UPPER)
        later = [n for n in range(low, high) if times[n] >= at_ms]
        earlier = [n for n in range(low, high) if times[n] <= at_ms]
        last = earlier[-1] if earlier else low
        assert lower == (later[0] if later else high)
        assert upper == (queue.first_of(last) if low < high else high)
        assert low <= lower <= high
        assert low <= upper <= high
        assert lower >= before
        before = lower
        if at_ms in times[low:]:
            assert lower <= upper
        elif low < lower < high and kind != "batches":
            assert lower == upper + 1
