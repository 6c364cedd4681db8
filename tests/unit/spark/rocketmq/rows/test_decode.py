"""The decoder of many records at a time gives what the plain decoder gives."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.samples import found, logs, plain, row_of, rows

SHOWN_MS = range(-62_135_596_800_000, 253_402_300_800_000)
"""The years 1 to 9999."""


def assert_same(data: bytes) -> None:
    """Compare both decoders on any bytes."""
    kept = found(data)
    messages = plain(data)
    assert len(messages) == len(kept)
    wanted = [row_of(message) for message in messages]
    for row in wanted:
        for name in ("bornTimestamp", "storeTimestamp"):
            row[name] = row[name] if row[name] in SHOWN_MS else None
    if messages:
        assert wanted == rows(kept)


@given(logs())
@settings(max_examples=80)
def test_equals_the_plain_decoder(data: bytes) -> None:
    """Every column of every record is what `codec.record.decode` says."""
    assert_same(data)


@given(logs(), st.data())
@settings(max_examples=120)
def test_equals_the_plain_decoder_on_damaged_bytes(data: bytes, draw: st.DataObject) -> None:
    """With bytes changed and the end cut off, both stop at the same record, without any error."""
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(data) - 1) | st.integers(0, min(99, len(data) - 1)))
        damaged[at] = draw.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    end = draw.draw(st.integers(0, len(data)) | st.just(len(data)))
    assert_same(bytes(damaged[:end]))


@given(st.binary(max_size=300))
def test_any_bytes_give_records_or_none(data: bytes) -> None:
    """Bytes that are not a log give no records and no error."""
    assert_same(data)
