"""What both engines share; their promises are tested in `tests/contract/test_queues.py`."""

from sprocket.rocketmq.geometry import QUEUE_UNIT_BYTES
from sprocket.rocketmq.settings import QueueGeometry
from sprocket.rocketmq.store.queue import FILLER_SIZE, QUEUE_UNIT, UNIT_BYTES, FileQueues, Queues
from sprocket.rocketmq.store.queue.engine import FILLER
from sprocket.testing.disk import SimulatedDisk


def test_a_unit_has_twenty_bytes() -> None:
    """Its layout is RocketMQ's, and a filler is the largest size at place 0."""
    assert UNIT_BYTES == QUEUE_UNIT_BYTES == 20
    assert QUEUE_UNIT.pack(1, 2, -3).hex() == "000000000000000100000002fffffffffffffffd"
    assert QUEUE_UNIT.unpack(FILLER) == (0, FILLER_SIZE, 0)


def test_the_engine_in_files_is_one() -> None:
    """It has all that a store asks for; the type checker compares the rest."""
    queues: Queues = FileQueues(SimulatedDisk(), "/q", QueueGeometry.small())
    queues.load()
    assert (list(queues.by_key), len(queues.by_key), queues.end, queues.last) == ([], 0, -1, None)
