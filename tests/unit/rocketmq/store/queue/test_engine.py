"""What a store asks of an engine; its promises are tested in `tests/contract/test_queues.py`."""

from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.store.queue import FileQueues, Queues
from sprocket.testing.disk import SimulatedDisk


def test_the_engine_in_files_is_one() -> None:
    """It has all that a store asks for; the type checker compares the rest."""
    queues: Queues = FileQueues(SimulatedDisk(), "/q", QueueGeometry.small())
    queues.load()
    assert (list(queues.by_key), len(queues.by_key), queues.end, queues.last) == ([], 0, -1, None)
