"""Batches: chosen topics, asked-for columns, damaged and packed bodies."""

import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from tests.unit.spark.samples import (
    directory,
    encoded,
    found,
    plain,
    plain_rows,
    row_of,
    schema,
    similar_logs,
)

from sprocket.base.errors import CorruptRecord, SettingsError
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.filter import compile_sql
from sprocket.rocketmq.model.internal import is_internal_topic
from sprocket.spark.rocketmq.rows import batches as module
from sprocket.spark.rocketmq.rows.batches import Batches, column_names, spark_schema
from sprocket.spark.rocketmq.rows.columns import FULL
from sprocket.spark.rocketmq.rows.damage import NAMED_MAX, LeftOut


def rows(data: bytes, **given: str) -> list[dict[str, Any]]:
    """Return the rows of some records under some options."""
    options = directory(**given)
    return plain_rows(list(Batches(schema(options), options).of(found(data), "here")))


def test_columns_are_chosen_by_view_or_by_name() -> None:
    """Names win over the view; capitals do not matter; damage has its column where it is told."""
    assert spark_schema(directory(view="raw")) == (
        "`physicalOffset` bigint, `size` int, `record` binary"
    )
    assert column_names(directory(columns="BODY, topic")) == ("body", "topic")
    assert column_names(directory(columns="body", mode="PERMISSIVE")) == ("body", "corruption")
    with pytest.raises(SettingsError, match="unknown column 'topc'; did you mean topic"):
        column_names(directory(columns="topc"))
    with pytest.raises(SettingsError, match="named twice"):
        column_names(directory(columns="body,Body"))


def test_any_schema_of_our_columns() -> None:
    """Spark's user may ask for any columns in any order and spelling, but not for other types."""
    wanted = StructType().add("queueoffset", "long").add("topic", "string")
    made = list(Batches(wanted, directory()).of(found(encoded(2)), "here"))
    assert made[0].schema.names == ["queueoffset", "topic"]
    assert made[0].to_pylist()[1] == {"queueoffset": 1, "topic": "orders"}
    with pytest.raises(SettingsError, match="column 'topic' is string, the schema says int"):
        Batches(StructType().add("topic", "integer"), directory())
    with pytest.raises(SettingsError, match="the schema has no columns"):
        Batches(StructType(), directory())


def test_rows_that_are_alike_come_once() -> None:
    """Where the schema asks how many, in any spelling and width; null is like null."""
    data = b""
    for tag in ("A", "", "A", "B", "", "A"):
        data += encoded(1, base=len(data), pairs={"TAGS": tag} if tag else {"K": "v"})
    wanted = StructType().add("ROWCOUNT", "long").add("tags", "string").add("topic", "string")
    (made,) = Batches(wanted, directory()).of(found(data), "here")
    counted = {(row["tags"], row["topic"]): row["ROWCOUNT"] for row in made.to_pylist()}
    assert counted == {("A", "orders"): 3, (None, "orders"): 2, ("B", "orders"): 1}
    (made,) = Batches(StructType().add("rowCount", "integer"), directory()).of(found(data), "here")
    assert made.to_pylist() == [{"rowCount": 6}]
    assert rows(data, columns="rowCount,queueId", mode="PERMISSIVE") == [
        {"rowCount": 6, "queueId": 0, "corruption": None}
    ]
    with pytest.raises(SettingsError, match="'rowCount' cannot be read with a map"):
        rows(data, columns="rowCount,properties")
    assert "rowCount" not in column_names(directory(view="full"))


def test_rows_of_many_batches_that_are_alike_come_once() -> None:
    """As many batches as there may be, or rows; what is not counted passes as it is."""
    data = b"".join(encoded(1, base=0, pairs={"TAGS": tag}) for tag in "AB")
    counting = Batches(StructType().add("tags", "string").add("rowCount", "integer"), directory())
    made = [one for _ in range(130) for one in counting.of(found(data), "here")]
    added = list(counting.added_up(iter(made)))
    assert [one.schema for one in added] == [made[0].schema] * 3
    assert [sum(one.column(1).to_pylist()) for one in added] == [128, 128, 4]
    counted = [row for one in added for row in one.to_pylist()]
    assert sorted((row["tags"], row["rowCount"]) for row in counted) == [
        (tag, count) for tag in "AB" for count in (2, 64, 64)
    ]
    plain = Batches(StructType().add("tags", "string"), directory())
    assert list(plain.added_up(iter(made))) == made


def test_whole_numbers_of_any_width() -> None:
    """Wider and narrower; what does not fit is named, and not cut."""
    wanted = StructType().add("queueId", "long").add("queueOffset", "short").add("size", "integer")
    (made,) = Batches(wanted, directory()).of(found(encoded(2)), "here")
    assert [str(one) for one in made.schema.types] == ["int64", "int16", "int32"]
    assert made.column(1).to_pylist() == [0, 1]
    far = encoded(1) + encoded(1, base=len(encoded(1)), first=40_000)
    with pytest.raises(
        SettingsError,
        match=f"'queueOffset' is 40000 at physical offset {len(encoded(1))}, more than int16",
    ):
        list(Batches(wanted, directory()).of(found(far), "here"))


def test_null_where_the_schema_says_not_null() -> None:
    """It is one line that names column and place; what is never null may be NOT NULL."""
    wanted = StructType().add("topic", "string", nullable=False)
    wanted = wanted.add("tags", "string", nullable=False)
    tagged = encoded(1, pairs={"TAGS": "A"})
    (made,) = Batches(wanted, directory()).of(found(tagged), "here")
    assert made.to_pylist() == [{"topic": "orders", "tags": "A"}]
    with pytest.raises(
        SettingsError, match=f"'tags' is null at physical offset {len(tagged)}, and NOT NULL"
    ):
        list(
            Batches(wanted, directory()).of(
                found(tagged + encoded(1, base=len(tagged), pairs={"A": "b"})), "here"
            )
        )
    with pytest.raises(SettingsError, match="'topic' is NOT NULL in the schema, and mode PERM"):
        Batches(wanted, directory(mode="PERMISSIVE"))


def test_topics_are_chosen() -> None:
    """Internal topics are left out unless they are asked for, by name or all together."""
    data = b""
    for topic in ("orders", "SCHEDULE_TOPIC_XXXX", "%RETRY%g", "%DLQ%g", "other"):
        data += encoded(1, base=len(data), topic=topic)
    names = ["orders", "SCHEDULE_TOPIC_XXXX", "%RETRY%g", "%DLQ%g", "other"]

    def topics(**given: str) -> list[str]:
        return [row["topic"] for row in rows(data, columns="topic", **given)]

    assert topics() == [name for name in names if not is_internal_topic(name)]
    assert topics(includeInternalTopics="true") == names
    assert topics(subscribe="other,%RETRY%g") == ["%RETRY%g", "other"]
    assert topics(subscribe="nobody") == []


def test_replies_to_requests_are_hidden() -> None:
    """By what they are: a user's topic may have such a name, too. Named, or all, they are there."""
    data = encoded(1)
    for topic, kind in (("c_REPLY_TOPIC", "reply"), ("my_REPLY_TOPIC", "other"), ("a", "reply")):
        data += encoded(1, base=len(data), topic=topic, pairs={"MSG_TYPE": kind})
    data += encoded(1, base=len(data), topic="c_REPLY_TOPIC", pairs={"A": "b"})
    names = ["orders", "c_REPLY_TOPIC", "my_REPLY_TOPIC", "a", "c_REPLY_TOPIC"]

    def topics(**given: str) -> list[str]:
        return [row["topic"] for row in rows(data, columns="topic", **given)]

    assert topics() == [names[0], *names[2:]]
    assert topics(subscribePattern=".*") == topics()
    assert topics(includeInternalTopics="true") == names
    assert topics(subscribe="c_REPLY_TOPIC") == [names[1], names[4]]


def test_what_is_in_no_queue_is_left_out() -> None:
    """Prepared and rolled back records, and the padding that recovery puts where damage was."""
    data = b""
    for sys_flag in (0, 4, 8, 12):
        data += encoded(1, base=len(data), sys_flag=sys_flag)
    assert [row["sysFlag"] for row in rows(data)] == [0, 8]
    assert [row["sysFlag"] for row in rows(data, includeInternalTopics="true")] == [0, 4, 8, 12]


def packed(body: bytes) -> bytes:
    """Return records of which the second and the last one have packed bodies."""
    data = encoded(1)
    data += encoded(1, base=len(data), body=zlib.compress(body), sys_flag=0x301, first=1)
    data += encoded(1, base=len(data), first=2)
    return data + encoded(1, base=len(data), body=zlib.compress(body), sys_flag=0x1, first=3)


def test_packed_bodies_are_unpacked_unless_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are unpacked unless that is not wanted; batches of unpacked bodies are bounded."""
    body = b"abc" * 1000
    for most in (1 << 20, 10):
        monkeypatch.setattr(module, "BATCH_BYTES_MAX", most)
        found_rows = rows(packed(body), columns="body,queueOffset")
        assert [row["body"] for row in found_rows] == [b"body", body, b"body", body]
        assert [row["queueOffset"] for row in found_rows] == [0, 1, 2, 3]
    stored = rows(packed(body), columns="body", decompress="false")
    assert stored[1]["body"] == zlib.compress(body)


def test_bodies_that_cannot_be_unpacked() -> None:
    """The mode says what happens; in PERMISSIVE the stored body stays."""
    data = encoded(1) + encoded(1, base=120, body=b"????", sys_flag=0x301, first=1)
    with pytest.raises(CorruptRecord, match="here: at physical offset 120: body is not valid ZLIB"):
        rows(data)
    assert len(rows(data, mode="DROPMALFORMED")) == 1
    told = rows(data, mode="PERMISSIVE", columns="body")
    assert told[0]["corruption"] is None
    assert told[1]["corruption"]
    assert told[1]["body"] == b"????"


def three_sealed() -> bytes:
    """Return three records that end in a checksum over all of them."""
    return encoded(3, pairs={"TAGS": "A", "KEYS": "k"}, queue=3, crc_tail=True)


BODY_AT, TOPIC_AT, TAG_AT, STORED_AT, QUEUE_AT = 88, 93, 106, 56, 15
"""Places in such a record: body, first letter of the topic, the tag, store time, queue."""


@pytest.mark.parametrize("at", [BODY_AT, TOPIC_AT, TAG_AT, STORED_AT, QUEUE_AT])
@pytest.mark.parametrize("columns", ["body", "tags", "keys,size", "properties", "record", "msgId"])
def test_what_does_not_fit_a_checksum_is_not_handed_out(at: int, columns: str) -> None:
    """Whatever of the record is wrong, where bodies or properties are read; the others are."""
    data = bytearray(three_sealed())
    size = len(data) // 3
    data[size + at] ^= 1
    changed = bytes(data)
    part = "body" if at == BODY_AT else "record"
    with pytest.raises(CorruptRecord, match=f"offset {size}: the {part} does not fit its check"):
        rows(changed, columns=columns)
    sound = rows(changed, columns=columns, mode="DROPMALFORMED")
    assert sound == [row for n, row in enumerate(rows(three_sealed(), columns=columns)) if n != 1]
    told = rows(changed, columns=columns, mode="PERMISSIVE")
    assert [row["corruption"] is None for row in told] == [False, True, True]
    names = {name: value for name, value in told[0].items() if name != "corruption"}
    stored = {"record": changed[size : 2 * size], "size": size}
    assert names == {name: stored.get(name) for name in columns.split(",")}
    assert len(rows(changed, columns=columns, verifyCrc="false")) == 3


@pytest.mark.parametrize(
    "text",
    [
        "TAGS = 'A'",
        "TAGS = 'A' AND absent IS NULL",
        "absent IS NULL",
        "TRUE",
        "1 = 2",
        "TAGS > 1",
    ],
)
def test_a_condition_chooses_as_a_broker_does(text: str) -> None:
    """By the properties of each record."""
    data = bytes(three_sealed())
    stored = record.decode_all(data)
    assert len(stored) == 3
    wanted = [one.queue_offset for one in stored if compile_sql(text).matches(one.properties)]
    assert [row["queueOffset"] for row in rows(data, filter=text)] == wanted


@pytest.mark.parametrize(
    ("at", "given"),
    [
        (TOPIC_AT, {"subscribe": "orders"}),
        (TAG_AT, {"subExpression": "A", "columns": "size"}),
        (TAG_AT, {"filter": "TAGS = 'A'", "columns": "size"}),
        (STORED_AT, {"startingTimestamp": "1700000000000"}),
        (QUEUE_AT, {"assign": '{"orders":{"b":[3]}}'}),
    ],
)
def test_what_would_not_be_chosen_since_it_is_damaged_is_told(
    at: int, given: dict[str, str]
) -> None:
    """A record that names another topic, tag, time or queue than its own is missed there."""
    data = bytearray(three_sealed())
    data[at] ^= 0x80 if at == STORED_AT else 1
    assert len(rows(bytes(data), verifyCrc="false", **given)) == 2
    with pytest.raises(CorruptRecord, match="at physical offset 0: the record does not fit"):
        rows(bytes(data), **given)


def test_what_is_left_out_is_counted_and_named() -> None:
    """Each place with what it says of itself; of very many the first ones."""
    data = bytearray(three_sealed())
    size = len(data) // 3
    data[size + TAG_AT] ^= 1
    options = directory(mode="DROPMALFORMED", columns="tags")
    left_out = LeftOut()
    batches = Batches(schema(options), options, left_out=left_out)
    for _ in range(NAMED_MAX + 2):
        assert sum(batch.num_rows for batch in batches.of(found(bytes(data)), "log")) == 2
    assert (left_out.count, left_out.bytes) == (NAMED_MAX + 2, (NAMED_MAX + 2) * size)
    assert len(left_out.named) == NAMED_MAX
    assert str(left_out.named[0]) == (
        f"log: at physical offset {size}: the record does not fit its checksum; by its own words it"
        " is message 1 of queue 3 of topic 'orders'"
    )
    other = LeftOut()
    other.join(left_out)
    other.join(left_out)
    assert (other.count, len(other.named)) == (2 * NAMED_MAX + 4, NAMED_MAX)


def test_checksums_of_what_is_not_read_are_compared_when_asked_for() -> None:
    """Columns of the header alone do without, unless `verifyCrc` is set."""
    data = bytearray(encoded(3))
    data[120 + BODY_AT] ^= 1
    assert len(rows(bytes(data), view="meta")) == 3
    with pytest.raises(CorruptRecord, match="offset 120: the body does not fit its checksum"):
        rows(bytes(data), view="meta", verifyCrc="true")


def test_long_slices_are_cut_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has a bounded number of rows."""
    monkeypatch.setattr(module, "BATCH_ROWS_MAX", 2)
    options = directory(columns="queueOffset")
    made = list(Batches(schema(options), options).of(found(encoded(5)), "here"))
    assert [batch.num_rows for batch in made] == [2, 2, 1]


@pytest.mark.slow
@given(similar_logs(), st.permutations(FULL), st.integers(1, len(FULL)), st.integers(1, 100))
@settings(max_examples=60)
def test_rows_are_those_of_the_plain_decoder(
    data: bytes, names: list[str], count: int, rows_max: int
) -> None:
    """Any columns in any order, of records that are alike and of odd ones, in batches of any size.

    Bodies are unpacked; what is in no queue of a user's topic is left out.
    """
    options = directory(columns=",".join(names[:count]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH_ROWS_MAX", rows_max)
        made = list(Batches(schema(options), options).of(found(data), "here"))
    wanted = []
    for message in plain(data):
        if not message.sys_flag & 4 and not is_internal_topic(message.topic):
            row = {**row_of(message), "body": message.body}
            row["bornTimestamp"] = row["bornTimestamp"] if row["bornTimestamp"] < 2**62 else None
            wanted.append({name: row[name] for name in names[:count]})
    assert plain_rows(made) == wanted
    assert all(batch.num_rows <= rows_max for batch in made)


def test_who_wants_bodies() -> None:
    """Whoever carries them or compares their checksums; all other columns can do without."""

    def has_bodies(**given: str) -> bool:
        options = directory(**given)
        return Batches(schema(options), options).has_bodies

    assert has_bodies()
    assert has_bodies(view="raw")
    assert has_bodies(view="meta", verifyCrc="true")
    assert not has_bodies(view="meta")
    assert has_bodies(columns="tags")
    assert has_bodies(view="meta", subExpression="A")
    assert has_bodies(view="meta", filter="TAGS = 'A'")
    assert not has_bodies(columns="properties,tags,msgId,size", verifyCrc="false")
