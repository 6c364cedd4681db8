"""What all queues share; the promises of engines are tested in `tests/contract/test_queues.py`."""

from sprocket.rocketmq.geometry import QUEUE_UNIT_BYTES
from sprocket.rocketmq.store.queue import FILLER_SIZE, QUEUE_UNIT, UNIT_BYTES
from sprocket.rocketmq.store.queue.queue import FILLER


def test_a_unit_has_twenty_bytes() -> None:
    """Its layout is RocketMQ's, and a filler is the largest size at place 0."""
    assert UNIT_BYTES == QUEUE_UNIT_BYTES == 20
    assert QUEUE_UNIT.pack(1, 2, -3).hex() == "000000000000000100000002fffffffffffffffd"
    assert QUEUE_UNIT.unpack(FILLER) == (0, FILLER_SIZE, 0)
