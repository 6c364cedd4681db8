"""The geometry of a store: RocketMQ's sizes by default, tiny ones for tests."""

from sprocket.rocketmq.geometry import Geometry, IndexGeometry, LogGeometry, QueueGeometry


def test_file_sizes_are_rocketmqs() -> None:
    """The sizes of RocketMQ's files by default."""
    default = Geometry()
    found = (default.log.segment_bytes, default.queue.file_bytes, default.index.file_bytes)
    assert found == (1_073_741_824, 6_000_000, 420_000_040)
    assert default.queue.batch_units_per_file * 46 == 13_800_000
    assert default.queue.extension_bytes == 50_331_648


def test_small_is_small_in_every_part() -> None:
    """So that tests roll, wrap and fill them."""
    parts = (LogGeometry.small(), QueueGeometry.small(), IndexGeometry.small())
    small = Geometry.small()
    assert (small.log, small.queue, small.index) == parts
