"""What jobs share."""

from sprocket.spark.jobs.job import by_size
from sprocket.spark.rocketmq.options import read_directory


def test_bytes_of_a_task_are_what_the_format_understands() -> None:
    """None are left to the format."""
    default = read_directory({"path": "/store"})
    assert read_directory({"path": "/store", **by_size(0)}) == default
    cut = read_directory({"path": "/store", **by_size(200_000)})
    assert cut.partition_bytes_max == 200_000 != default.partition_bytes_max
