"""The record of the protocol's description (its third vector), which a Java client decodes."""

from sprocket.rocketmq.codec.record import record

RECORD = bytes.fromhex(
    "00000068 daa320a7 3610a686 00000000 00000000 0000000000000005 0000000000000400 00000000"
    "0000018bcfe56800 7f000001 0000c350 0000018bcfe56801 7f000001 00002a9f 00000000"
    "0000000000000000 00000005 68656c6c6f 01 54 0007 54414753016102"
)


def test_vector_3_is_decoded() -> None:
    """Every field that the description names."""
    found = record.decode(RECORD)
    assert (found.topic, found.body, found.properties) == ("T", b"hello", {"TAGS": "a"})
    assert (found.queue_id, found.queue_offset, found.physical_offset) == (0, 5, 1024)
    assert (found.born_at_ms, found.born_host) == (1_700_000_000_000, "127.0.0.1:50000")
    assert (found.stored_at_ms, found.store_host) == (1_700_000_000_001, "127.0.0.1:10911")
    assert (found.store_size, found.body_crc) == (104, 0x3610A686)
