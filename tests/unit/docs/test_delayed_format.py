"""docs/formats/rabbitmq-delayed.md: its examples are what the code writes."""

import re
from pathlib import Path

import pytest

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import delayed
from sprocket.rabbitmq.codec.delayed import Added, DelayedEntry, DelayedManifest, RunFile

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "rabbitmq-delayed.md"
ENTRY = DelayedEntry(1_700_000_000_000_000, 1, "x", b"\x83\x6a")
AT_US = ENTRY.due_us - 1_000_000
MANIFEST = DelayedManifest(next_number=2, at_us=AT_US, counts={"x": 1}, runs=(RunFile(0, 84, 0),))


def test_the_examples_are_what_is_written() -> None:
    """And read; a manifest of which a byte is changed, or that is cut, is none."""
    blocks = re.findall(r"```hex\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    *examples, old = blocks
    manifest, run, record = map(bytes.fromhex, examples)
    assert delayed.encode_manifest(MANIFEST) == manifest
    assert delayed.decode_manifest(manifest) == MANIFEST
    assert b"".join(delayed.block([ENTRY])) == run
    head = delayed.decode_head(run)
    assert (head.first, head.last, head.entry_count) == (ENTRY.key, ENTRY.key, 1)
    assert delayed.decode_block(head, run[delayed.HEAD_BYTES :]) == ([ENTRY], "")
    earlier = bytes.fromhex(old)
    head = delayed.decode_head(earlier)
    assert delayed.decode_block(head, earlier[delayed.HEAD_BYTES :]) == ([ENTRY], "")
    assert delayed.added(AT_US, ENTRY) == record
    assert list(delayed.decode_records(record)) == [Added(1, AT_US, ENTRY)]
    for position in range(len(manifest)):
        changed = bytearray(manifest)
        changed[position] ^= 1
        for broken in (bytes(changed), manifest[:position]):
            with pytest.raises(CorruptRecord):
                delayed.decode_manifest(broken)
    for position in range(delayed.HEAD_BYTES):
        changed = bytearray(run)
        changed[position] ^= 1
        for broken in (bytes(changed), run[:position]):
            with pytest.raises(CorruptRecord):
                delayed.decode_head(broken)
