"""docs/formats/rabbitmq-write-ahead.md: its example is what the code writes."""

import re
from pathlib import Path

from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog
from sprocket.testing.disk import SimulatedDisk

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "rabbitmq-write-ahead.md"


def test_the_example_is_what_is_written() -> None:
    """The first batch of a log."""
    disk = SimulatedDisk()
    disk.make_folder("/v")
    log = WriteAheadLog(disk, "/v", 4096)
    origin = Origin("Q")
    log.append(origin, index.deliver(0) + index.ack(0))
    log.write()
    (block,) = re.findall(r"```hex\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    data = bytes.fromhex(block)
    assert disk.contents()["/v/sprocket.wal.0"] == data.ljust(4096, b"\0")
