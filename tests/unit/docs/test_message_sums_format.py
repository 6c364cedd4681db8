"""docs/formats/rabbitmq-message-sums.md: its example is what the code writes."""

import re
from pathlib import Path

from sprocket.base.checksum import crc32
from sprocket.rabbitmq.codec import checksums
from sprocket.rabbitmq.codec.checksums import TermSum

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "rabbitmq-message-sums.md"


def test_the_example_is_what_is_written() -> None:
    """And read; with any byte changed it says nothing."""
    (block,) = re.findall(r"```hex\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    data = bytes.fromhex(block)
    known = TermSum(9, crc32(bytes.fromhex("836400047472756500")))
    assert checksums.encode(bytes(range(16)), known) == data
    assert checksums.decode(b"".join([data, data[:-1]])) == {bytes(range(16)): known}
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        assert checksums.decode(changed) == {}
