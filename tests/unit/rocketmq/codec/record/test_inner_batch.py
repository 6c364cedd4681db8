"""Readers of an inner batch get its messages, each at its place."""

from msgspec import structs

from sprocket.rocketmq.codec.record import batch, properties, record
from sprocket.rocketmq.model.message import INNER_BATCH, NEED_UNWRAP, NewRecord, StoredMessage

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
THREE = batch.join([(n, b"b%d" % n, b"TAGS\x01t%d\x02" % n) for n in range(3)])


def encoded(body: bytes, sys_flag: int, queue_offset: int) -> bytes:
    """Return a record."""
    new = NewRecord(
        "T", 1, body, properties.encode({"UNIQ_KEY": "B"}), HOST, HOST, 9, sys_flag, 1_000
    )
    return record.encode(
        new, queue_offset=queue_offset, physical_offset=4096, stored_at_ms=2_000, crc_tail=False
    )


def test_a_batch_is_taken_apart_between_single_messages() -> None:
    """Offsets go on; what the messages do not say of themselves is the record's."""
    inner = INNER_BATCH | NEED_UNWRAP
    data = encoded(b"x", 0, 4) + encoded(THREE, inner, 5) + encoded(b"y", 0, 8)
    first, *members, last = batch.decode_messages(data)
    assert (first.body, first.queue_offset, last.body, last.queue_offset) == (b"x", 4, b"y", 8)
    assert [(one.queue_offset, one.flag, one.body) for one in members] == [
        (5, 0, b"b0"),
        (6, 1, b"b1"),
        (7, 2, b"b2"),
    ]
    assert [one.tags for one in members] == ["t0", "t1", "t2"]
    whole = record.decode_all(data)[1]
    own = {"queue_offset", "flag", "sys_flag", "properties", "stored_body"}
    for one in members:
        for name in set(StoredMessage.__struct_fields__) - own:
            assert getattr(one, name) == getattr(whole, name)
        assert one.sys_flag == 0


def test_what_cannot_be_taken_apart_is_handed_out_whole() -> None:
    """It is what its producer sent; a consumer that stopped here would never go on."""
    for body, flags in ((b"no batch", INNER_BATCH | NEED_UNWRAP), (THREE, INNER_BATCH)):
        (one,) = batch.decode_messages(encoded(body, flags, 0))
        assert one.stored_body == body
    (empty,) = record.decode_all(encoded(b"", 0, 0))
    flagged = structs.replace(empty, sys_flag=INNER_BATCH | NEED_UNWRAP)
    assert list(batch.unwrapped(flagged)) == []
