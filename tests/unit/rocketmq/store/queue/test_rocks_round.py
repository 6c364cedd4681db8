"""A run takes what its queue lacks of a batch, and makes the keys and values of its units."""

from pathlib import Path

import numpy as np
import pytest
from tests.unit.rocketmq.codec.given import new_record, stored

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.store.queue import RocksQueues, rocks_keys
from sprocket.rocketmq.store.queue.rocks_round import RocksRound, unit_values

KEY = "TopicTest", 3


def _batch(count: int) -> RecordBatch:
    """Records of one queue with the offsets 7, 8 and so on, as columns."""
    data = b""
    for number in range(count):
        one = bytearray(stored(new_record(), at=len(data)))
        one[20:28] = (7 + number).to_bytes(8, "big")
        data += one
    walked = columns.walk(data, 0, len(data))
    return RecordBatch(columns.records(data, walked.positions, walked.stopped_at, 0))


def test_a_new_queue_begins_with_the_first_record() -> None:
    """It is told where, and how far the run goes."""
    batch = _batch(3)
    run = RocksRound(None, KEY)
    assert run.take(batch, np.arange(3)).tolist() == [0, 1, 2]
    assert (run.first, run.next_offset, run.count) == ((7, 0), 10, 3)
    assert (run.last_place, run.end) == (int(batch.physical_offset[2]), batch.end)


def test_what_the_queue_has_is_left_out(tmp_path: Path) -> None:
    """All of it, some, or nothing; what comes later is an error."""
    batch, queues = _batch(4), RocksQueues(RealDisk(), str(tmp_path / "consumequeue"))
    queues.load(clean=True)
    queues.put_round(batch.entries()[:2])
    queue = queues.queue(*KEY)
    for rows, fresh in (([0, 1], []), ([0, 1, 2, 3], [2, 3]), ([2], [2]), ([], [])):
        run = RocksRound(queue, KEY)
        assert run.take(batch, np.array(rows, np.int64)).tolist() == fresh
        assert run.count == len(fresh)
        assert run.end == (batch.end if 3 in fresh else run.end if fresh else -1)
    with pytest.raises(CorruptRecord, match="TopicTest/3 ends at 9, the log has its message 10"):
        RocksRound(queue, KEY).take(batch, np.array([3]))
    queues.close()


def test_keys_and_values_are_those_of_single_units() -> None:
    """Whatever bytes the numbers have, zeros at the end as well."""
    batch = _batch(2)
    offsets = np.array([0, 256, (1 << 40) + 7], np.int64)
    prefix = rocks_keys.unit_prefix(*KEY)
    assert RocksRound(None, KEY).keys(offsets) == [prefix + rocks_keys.I64.pack(n) for n in offsets]
    assert RocksRound(None, KEY).keys(offsets[:0]) == []
    assert unit_values(batch).tolist() == [
        rocks_keys.VALUE.pack(e.physical_offset, e.size, e.tags_code, e.stored_at_ms)
        for e in batch.entries()
    ]
