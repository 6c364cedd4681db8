"""Columns: the awkward ones; `test_decode.py` compares them all with the plain decoder."""

from tests.unit.spark.samples import NARROW, WIDE, encoded, found, rows

from sprocket.rocketmq.model.internal import HALF_TOPIC
from sprocket.spark.rocketmq.rows.columns import COLUMNS, FULL, META, RAW, RecordRows


def test_views_name_columns() -> None:
    """Each view is made of columns that exist; `meta` has none that is read from properties."""
    assert set(FULL) | {"deliverAt", "record", "corruption", "rowCount"} == set(COLUMNS)
    assert not {"body", "properties", "tags", "keys", "msgId"} & set(META)
    assert RAW == ("physicalOffset", "size", "record")


def test_hosts_of_both_widths_stand_in_order() -> None:
    """IPv4 and IPv6 hosts of one batch keep their records."""
    data = encoded(1, host=NARROW)
    data += encoded(1, host=WIDE, base=len(data))
    data += encoded(1, host=NARROW, base=len(data))
    narrow, wide = "127.0.0.1:10911", "[1:203:405:607:809:a0b:c0d:e0f]:10911"
    found_rows = rows(found(data), ["bornHost", "storeHost", "offsetMsgId"])
    assert [row["bornHost"] for row in found_rows] == [narrow, wide, narrow]
    assert [row["storeHost"] for row in found_rows] == [narrow, wide, narrow]
    assert [len(row["offsetMsgId"]) for row in found_rows] == [32, 56, 32]


def test_a_message_without_unique_key_has_its_offset_id() -> None:
    """`msgId` is never null."""
    data = encoded(1) + encoded(1, pairs={"a": "b"})
    first, second = rows(found(data), ["msgId", "offsetMsgId"])
    assert first["msgId"] == "U0"
    assert second["msgId"] == second["offsetMsgId"]


def test_times_that_no_calendar_has_are_null() -> None:
    """A producer may send any 64 bits as the time; beyond the year 9999 there is no timestamp."""
    data = bytearray(encoded(2))
    data[40:48] = (2**63 - 1).to_bytes(8, "big")
    assert [row["bornTimestamp"] for row in rows(found(bytes(data)), ["bornTimestamp"])] == [
        None,
        1_700_000_000_001,
    ]


def test_record_is_the_stored_bytes() -> None:
    """`record` holds what lies in the log."""
    data = encoded(2)
    assert b"".join(row["record"] for row in rows(found(data), ["record"])) == data


def test_corruption_and_broker_name() -> None:
    """Both are null where there is nothing to say."""
    made = RecordRows(found(encoded(2)), "broker-a", None, {1: "why"})
    assert COLUMNS["corruption"].make(made).to_pylist() == [None, "why"]
    assert COLUMNS["brokerName"].make(made).to_pylist() == ["broker-a", "broker-a"]


def test_a_timed_message_says_when_it_is_due() -> None:
    """Others do not, nor what is not a number."""
    data = b""
    for text in ("1700000000123", "-5", "9" * 19, "soon", ""):
        pairs = {"TIMER_OUT_MS": text} if text else {"TAGS": "A"}
        data += encoded(1, base=len(data), pairs=pairs)
    (column,) = [row["deliverAt"] for row in rows(found(data), ["deliverAt"])[:1]]
    assert round(column.timestamp() * 1000) == 1700000000123
    assert [row["deliverAt"] for row in rows(found(data), ["deliverAt"])[1:]] == [None] * 4


def test_a_half_message_is_known_by_its_topic() -> None:
    """Its system flag says nothing of a transaction."""
    half = encoded(1, topic=HALF_TOPIC)
    data = half + encoded(1, base=len(half)) + encoded(1, base=2 * len(half), sys_flag=8)
    states = [row["transactionState"] for row in rows(found(data), ["transactionState"])]
    assert states == ["prepared", "none", "commit"]
