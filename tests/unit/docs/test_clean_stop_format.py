"""docs/formats/rabbitmq-clean-stop.md: its example is what the code writes."""

import re
from pathlib import Path

import pytest

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import clean_summary
from sprocket.rabbitmq.codec.clean_summary import CleanQueue, CleanSegment, CleanSummary

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "rabbitmq-clean-stop.md"
EXAMPLE = CleanSummary(
    terms_crc=0x01020304,
    store_crc=2596996162,
    queues={
        "Q": CleanQueue(
            next_seq_id=3,
            next_deliver_seq_id=1,
            persistent_ref=bytes(range(16)),
            message_count=1,
            body_bytes=5,
            segments={0: CleanSegment(1, 250)},
            journal_bytes=8,
            journal_crc=7,
        )
    },
)


def test_the_example_is_what_is_written() -> None:
    """And read; with any byte changed, or cut anywhere, it is none."""
    (block,) = re.findall(r"```hex\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    data = bytes.fromhex(block)
    assert clean_summary.encode(EXAMPLE) == data
    assert clean_summary.decode(data) == EXAMPLE
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        for broken in (bytes(changed), data[:position]):
            with pytest.raises(CorruptRecord):
                clean_summary.decode(broken)
