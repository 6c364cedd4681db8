"""What stands where a message was erased: the same bytes to count, and nothing of the message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.rocketmq.codec.record import batch, erased, properties, record
from sprocket.rocketmq.codec.record.erased import PADDING_TOPIC, SENT_ON_TOPICS, erase
from sprocket.rocketmq.model.message import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    NewRecord,
    StoredMessage,
)

PLACE = 4096
AT_MS = 1_700_000_000_000
NARROW, WIDE = bytes([10, 0, 0, 1, 0, 0, 48, 57]), bytes([0xFD, *range(19)])


def encoded(topic: str = "topic", *, crc_tail: bool = False, **fields: object) -> bytes:
    """Return a record of 7th place in its queue."""
    given_fields = {"body": b"secret", "properties": b"KEYS\x01secret\x02"} | fields
    new = NewRecord(
        topic=topic,
        queue_id=3,
        **{"born_host": NARROW, "store_host": NARROW, "flag": 9} | given_fields,  # type: ignore[arg-type]
    )
    return record.encode(
        new, queue_offset=7, physical_offset=PLACE, stored_at_ms=AT_MS, crc_tail=crc_tail
    )


def decoded(data: bytes) -> list[StoredMessage]:
    """Return the records that stand one after the other, with all checksums compared."""
    found = []
    at = 0
    while at < len(data):
        found.append(record.decode(data, at, check_tail=True))
        at += found[-1].store_size
    return found


@given(
    st.sampled_from(["topic", "t" * 127, "ü" * 100, *SENT_ON_TOPICS]),
    st.binary(max_size=300),
    st.dictionaries(
        st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "REAL_TOPIC", "DELAY", "a"]),
        st.text("abcdefg", min_size=1),
    ),
    st.booleans(),
    st.sampled_from([NARROW, WIDE]),
    st.sampled_from([0, 1, TRANSACTION_PREPARED, TRANSACTION_COMMIT]),
)
def test_any_record_becomes_as_many_bytes(
    topic: str,
    body: bytes,
    pairs: dict[str, str],
    crc_tail: bool,
    host: bytes,
    flags: int,
) -> None:
    """Whole records with right checksums, the first at the place of the old one."""
    stored = encoded(
        topic,
        crc_tail=crc_tail,
        body=body,
        properties=properties.encode(pairs),
        born_host=host,
        store_host=host,
        sys_flag=flags,
    )
    old, made = record.decode(stored, 0), erase(stored)
    first, *padding = decoded(made)
    assert len(made) == len(stored)
    assert (first.topic, first.queue_id, first.queue_offset) == (topic, 3, 7)
    assert (first.physical_offset, first.stored_at_ms) == (PLACE, AT_MS)
    assert (first.store_host, first.flag) == (old.store_host, 0)
    kept = set(pairs) & {"REAL_TOPIC", "DELAY"} if topic in SENT_ON_TOPICS else set()
    assert {name: pairs[name] for name in kept} == {
        name: value for name, value in first.properties.items() if name != properties.CRC32
    }
    assert [one.topic for one in padding] in ([], [PADDING_TOPIC])
    assert all(one.sys_flag == TRANSACTION_ROLLBACK for one in padding)
    assert not any(first.stored_body)
    assert not any(byte for one in padding for byte in one.stored_body)


@pytest.mark.parametrize("size", range(140))
def test_no_size_of_a_body_is_too_odd(size: int) -> None:
    """What is left of the place is filled, by separators or by a record."""
    assert len(erase(encoded(body=b"x" * size))) == len(encoded(body=b"x" * size))


def test_our_clients_get_nothing() -> None:
    """It is an inner batch of no messages."""
    made = erase(encoded())
    assert record.decode(made, 0).sys_flag & INNER_BATCH
    assert batch.decode_messages(made) == []


@pytest.mark.parametrize("topic", SENT_ON_TOPICS)
def test_a_message_that_is_to_be_sent_on_goes_where_it_was_to_go(topic: str) -> None:
    """With a body, since a broker sends on no message without one."""
    pairs = properties.encode({"REAL_TOPIC": "orders", "REAL_QID": "2", "KEYS": "secret"})
    first, *_ = decoded(erase(encoded(topic, properties=pairs, sys_flag=TRANSACTION_PREPARED)))
    assert (first.properties, first.stored_body) == (
        {"REAL_TOPIC": "orders", "REAL_QID": "2"},
        b"\0",
    )
    assert first.sys_flag == TRANSACTION_PREPARED


def test_it_stays_in_its_light_queues() -> None:
    """Whose units point at it."""
    pairs = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "5", "TAGS": "T"}
    made = erase(encoded(properties=properties.encode(pairs)))
    extra = record.entry(made).extra
    assert extra is not None
    assert (extra.light, record.entry(made).tags_code) == ((("%LMQ%a", 5),), 0)


def test_to_erase_it_again_changes_nothing() -> None:
    """Neither it nor what fills up its place."""
    made = erase(encoded(body=b"x" * 20))
    assert erased.erase(made) == made
