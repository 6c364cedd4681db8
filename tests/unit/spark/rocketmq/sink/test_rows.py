"""Rows as messages: what each column becomes, and every row that is refused."""

from typing import Any

import pyarrow as pa
import pytest

from sprocket.base.errors import InvalidMessage, SettingsError
from sprocket.rocketmq.client.producer import queue_of_key
from sprocket.rocketmq.codec.record import batch, properties
from sprocket.rocketmq.errors import NoSuchTopic
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq import read_sink
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.sink.rows import Encoded, Encoder, Target, check_columns
from sprocket.spark.rocketmq.sink.unique_keys import Writing

MAP = pa.map_(pa.string(), pa.string())
QUEUES = {
    "orders": [MessageQueue("orders", "a", number) for number in range(4)],
    "wide": [MessageQueue("wide", name, number) for name in "ab" for number in range(2)],
}


def options(**given: str) -> Options:
    """Return the options of a write to `orders`."""
    return read_sink({"nameServer": "n:1", "topic": "orders", **given})


def queues(topic: str) -> list[MessageQueue]:
    """Return the queues of a topic of the fake cluster."""
    if topic not in QUEUES:
        raise NoSuchTopic(f"no NameServer knows topic {topic!r}; did you mean orders?")
    return QUEUES[topic]


def encode(
    rows: pa.RecordBatch,
    chosen: Options | None = None,
    first: int = 0,
    alone_bytes_min: int | None = 4096,
) -> Encoded:
    """Encode rows as partition 3 has them."""
    encoder = Encoder(
        rows.schema.names,
        chosen or options(),
        Writing("w", "", 3),
        queues,
        level_max=18,
        alone_bytes_min=alone_bytes_min,
        batch_bytes_max=512 * 1024,
    )
    return encoder.encode(rows, first)


def rows_of(**columns: Any) -> pa.RecordBatch:
    """Return rows; `body` is there by itself."""
    count = len(next(iter(columns.values())))
    arrays = {"body": pa.array([b"x"] * count, pa.binary())}
    for name, values in columns.items():
        arrays[name] = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.RecordBatch.from_pydict(arrays)


def pairs(encoded: Encoded) -> list[dict[str, str]]:
    """Return the properties of each row but for the unique key."""
    found = [properties.decode(one) for one in encoded.properties.to_pylist()]
    for one in found:
        del one["UNIQ_KEY"]
    return found


def test_bodies_of_both_types_and_frames() -> None:
    """Text goes as UTF-8; a frame is what a batch holds of a row."""
    encoded = encode(rows_of(body=["ä", "b"], tags=["A", None], flag=pa.array([-1, None])))
    assert encoded.bodies.to_pylist() == ["ä".encode(), b"b"]
    parts = batch.split(b"".join(encoded.frames.to_pylist()))
    assert list(parts.flags) == [-1, 0]
    assert list(parts.bodies) == encoded.bodies.to_pylist()
    assert list(parts.properties) == encoded.properties.to_pylist()
    assert pairs(encoded) == [{"TAGS": "A"}, {}]
    assert not encoded.is_alone.any()


def test_empty_bodies_on_request() -> None:
    """In a batch alone: a message by itself has none that clients would send."""
    taken = options(emptyBodies="true")
    assert encode(rows_of(body=[b"", b"b"]), taken).bodies.to_pylist() == [b"", b"b"]
    with pytest.raises(InvalidMessage, match="row 0, column 'body': has 0 bytes; 1 to"):
        encode(rows_of(body=[b"", b"b"]))
    with pytest.raises(InvalidMessage, match="row 1, column 'body': is empty, and delayed"):
        encode(rows_of(body=[b"a", b""], delayLevel=[1, 1]), taken)


def test_a_slice_of_a_batch() -> None:
    """Arrow gives slices with an offset into shared buffers."""
    whole = rows_of(
        body=[b"a", b"bb", b"ccc"],
        tags=["A", "B", "C"],
        properties=pa.array([[("p", "1")], [("p", "2"), ("q", "3")], None], MAP),
    )
    encoded = encode(whole.slice(1), first=1)
    assert encoded.bodies.to_pylist() == [b"bb", b"ccc"]
    assert pairs(encoded) == [{"TAGS": "B", "p": "2", "q": "3"}, {"TAGS": "C"}]
    assert encoded.unique_keys.to_pylist() == encode(whole).unique_keys.to_pylist()[1:]


def test_keys_are_words_or_an_array() -> None:
    """Both become the property KEYS; empty ones none."""
    assert pairs(encode(rows_of(keys=["a b", "", None]))) == [{"KEYS": "a b"}, {}, {}]
    array = pa.array([["a", "b"], [], None], pa.list_(pa.string()))
    assert pairs(encode(rows_of(keys=array))) == [{"KEYS": "a b"}, {}, {}]


def test_properties_of_clients_and_brokers_are_left_out() -> None:
    """A copy gets its own; a column stands for its property, null for none."""
    given = [("CLUSTER", "c"), ("WAIT", "true"), ("TAGS", "old"), ("DELAY", "3"), ("mine", "m")]
    maps = pa.array([given, given], MAP)
    assert pairs(encode(rows_of(properties=maps))) == [{"TAGS": "old", "mine": "m"}] * 2
    found = pairs(encode(rows_of(properties=maps, tags=["new", None])))
    assert found == [{"TAGS": "new", "mine": "m"}, {"mine": "m"}]


def test_unique_keys_in_their_order() -> None:
    """What `keyColumn` names, else `msgId`, else the property, else a number."""
    maps = pa.array([[("UNIQ_KEY", "P1")], None], MAP)
    ids = pa.array(["M1", None])
    rows = rows_of(properties=maps, msgId=ids, number=[5, 5])
    by_property = encode(rows.select(["body", "properties"])).unique_keys.to_pylist()
    assert by_property[0] == b"P1"
    assert len(by_property[1]) == 32
    by_id = encode(rows.select(["body", "properties", "msgId"])).unique_keys.to_pylist()
    assert by_id[0] == b"M1"
    assert len(by_id[1]) == 32
    made = encode(rows, options(keyColumn="Number")).unique_keys.to_pylist()
    assert made[0] == made[1]
    assert len(made[0]) == 32


def test_the_topic_of_the_option_wins() -> None:
    """As in Kafka; without it each row has its own."""
    rows = rows_of(topic=["wide", "orders", "wide"])
    assert encode(rows).targets == [Target("orders", None)]
    own = encode(rows, read_sink({"nameServer": "n:1"}))
    chosen = [own.targets[number].topic for number in own.target.tolist()]
    assert chosen == ["wide", "orders", "wide"]


def test_sharding_keys_choose_queues_as_the_client_does() -> None:
    """The same key the same queue; none any queue."""
    names = ["k1", "k2", None, "k1", "k3"]
    encoded = encode(rows_of(shardingKey=pa.array(names)))
    found = [encoded.targets[number].queue for number in encoded.target.tolist()]
    assert found == [name and queue_of_key(name, QUEUES["orders"]) for name in names]
    assert len(set(encoded.targets)) == len(encoded.targets)


def test_queues_by_id_and_broker() -> None:
    """A broker's name is needed where several have a queue of the id, and ignored elsewhere."""
    encoded = encode(rows_of(queueId=[2, None], brokerName=["other", None]))
    found = [encoded.targets[number].queue for number in encoded.target.tolist()]
    assert found == [QUEUES["orders"][2], None]
    wide = encode(rows_of(queueId=[1], brokerName=["b"]), options(topic="wide"))
    assert wide.targets[0].queue == MessageQueue("wide", "b", 1)


def test_delays() -> None:
    """By level or by time; those rows are sent by themselves."""
    encoded = encode(rows_of(delayLevel=pa.array([0, 3, None])))
    assert pairs(encoded) == [{}, {"DELAY": "3"}, {}]
    assert encoded.is_alone.tolist() == [False, True, False]
    times = pa.array([None, 1_700_000_000_123_456], pa.timestamp("us", "UTC"))
    encoded = encode(rows_of(deliverAt=times, delayLevel=pa.array([1, 0])))
    assert pairs(encoded) == [{"DELAY": "1"}, {"TIMER_DELIVER_MS": "1700000000123"}]
    assert pairs(encode(rows_of(deliverAt=[1_700]))) == [{"TIMER_DELIVER_MS": "1700"}]


def test_long_bodies_are_sent_by_themselves() -> None:
    """The client packs them, and a batch cannot say which of its messages are packed.

    If it packs none, those that have no room in a batch.
    """
    bodies = [b"x" * 4095, b"x" * 4096, b"x" * 512 * 1024]
    assert encode(rows_of(body=bodies)).is_alone.tolist() == [False, True, True]
    unpacked = encode(rows_of(body=bodies), alone_bytes_min=None)
    assert unpacked.is_alone.tolist() == [False, False, True]


_NULL = pa.array(["a", None])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"body": [b"a", None]}, "row 11, column 'body': is null"),
        ({"body": [b"a", b""]}, "row 11, column 'body': has 0 bytes"),
        ({"body": [b"a", b"x" * 5000]}, "has 5000 bytes; 1 to 4096 may be sent"),
        ({"topic": ["orders", None]}, "row 11, column 'topic': is null"),
        ({"topic": ["orders", "a b"]}, "row 11, column 'topic': topic 'a b'"),
        ({"topic": ["orders", "SCHEDULE_TOPIC_XXXX"]}, "belongs to the broker"),
        (
            {"topic": ["orders", "order"], "shardingKey": ["k", "k"]},
            "row 11, column 'topic': .*did you mean orders",
        ),
        ({"tags": ["A", "B\x02"]}, "row 11, column 'tags': holds the byte 0x02"),
        ({"keys": ["A", "B\x02"]}, "row 11, column 'keys': holds the byte 0x02"),
        ({"keys": [["a"], ["a b"]]}, "row 11, column 'keys': has a word"),
        ({"msgId": ["A", "B\x02"]}, "row 11, column 'msgId': holds"),
        ({"flag": [0, 2**31]}, "row 11, column 'flag': is 2147483648"),
        ({"sysFlag": [0, 0x80]}, "row 11, column 'sysFlag': is of a batch"),
        ({"delayLevel": [0, 19]}, "row 11, column 'delayLevel': is 19; 0 to 18"),
        ({"delayLevel": [0, -1]}, "row 11, column 'delayLevel': is -1"),
        ({"deliverAt": [1, -1]}, "row 11, column 'deliverAt': is -1 ms"),
        ({"delayLevel": [0, 1], "deliverAt": [1, 1]}, "'deliverAt': stands with delayLevel"),
        ({"queueId": [0, 4]}, "row 11, column 'queueId': is 4; topic 'orders' has 4 queues"),
        ({"queueId": [0, -1]}, "row 11, column 'queueId': is -1"),
        ({"queueId": [0, 1], "topic": ["orders", "wide"]}, "1 is on a, b: give brokerName"),
        ({"queueId": [0, 1], "shardingKey": [None, "k"]}, "stands with shardingKey"),
        ({"number": pa.array([1, None])}, "row 11, column 'number': is null"),
    ],
)
def test_rows_that_are_refused(columns: dict[str, Any], said: str) -> None:
    """Each names partition, row and column."""
    given = {"nameServer": "n:1", "maxMessageBytes": "4k"}
    if "topic" not in columns:
        given["topic"] = "orders"
    if "number" in columns:
        given["keyColumn"] = "number"
    with pytest.raises(InvalidMessage, match=f"partition 3, .*{said}"):
        encode(rows_of(**columns), read_sink(given), first=10)


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("", "v"), "the name of '' is null or empty"),
        (("a\x01", "v"), "the name of 'a.+x01' holds a byte"),
        (("a\x02", "v"), "the name of 'a.+x02' holds a byte"),
        (("a", "v\x02"), "the value of 'a' holds a byte"),
        (("a", ""), "the value of 'a' is null or empty"),
        (("a", None), "the value of 'a' is null or empty"),
    ],
)
def test_properties_that_the_format_cannot_carry(pair: tuple[str, str | None], said: str) -> None:
    """A reader would drop or mistake them, so they are refused."""
    maps = pa.array([[("fine", "x\x01y")], None, [("b", "1"), pair]], MAP)
    with pytest.raises(InvalidMessage, match=f"row 2, column 'properties': {said}"):
        encode(rows_of(properties=maps))


def test_empty_properties_are_left_out_on_request() -> None:
    """Null ones, too; a name that is empty is an error all the same."""
    maps = pa.array([[("a", ""), ("b", "1"), ("c", None)], None, [("a", None)]], MAP)
    drops = options(dropEmptyProperties="true")
    assert pairs(encode(rows_of(properties=maps), drops)) == [{"b": "1"}, {}, {}]
    with pytest.raises(InvalidMessage, match=r"the name of '' is null or empty$"):
        encode(rows_of(properties=pa.array([[("", "v")]], MAP)), drops)
    with pytest.raises(InvalidMessage, match=r"the value of 'a' .*; dropEmptyProperties leaves"):
        encode(rows_of(properties=maps))


def test_too_many_properties() -> None:
    """The format has 15 bits for their length."""
    maps = pa.array([None, [("a", "v" * 32_767)]], MAP)
    with pytest.raises(InvalidMessage, match="row 1, column 'properties': takes"):
        encode(rows_of(properties=maps))


@pytest.mark.parametrize(
    ("fields", "given", "said"),
    [
        ({"topic": "string"}, {}, "no column 'body'"),
        ({"body": "string"}, {"topic": ""}, "say where to write"),
        ({"body": "int"}, {}, "column 'body' is int, and must be binary or string"),
        ({"body": "string", "tag": "string"}, {}, "unknown column 'tag'; did you mean tags"),
        ({"body": "string"}, {"keyColumn": "bodi"}, "keyColumn names 'bodi'.*body"),
    ],
)
def test_columns_that_are_refused(fields: dict[str, str], given: dict[str, str], said: str) -> None:
    """Before anything is sent."""
    with pytest.raises(SettingsError, match=said):
        check_columns(fields, options(**given))


def test_what_the_source_gives_can_be_written() -> None:
    """Capitals do not matter, and columns that say nothing here are let pass."""
    check_columns(
        {"Body": "binary", "queueOffset": "bigint", "storeTimestamp": "timestamp"}, options()
    )
    check_columns({"body": "string", "id": "bigint"}, options(keyColumn="id"))


def test_texts_of_a_collation_or_a_length_are_texts() -> None:
    """Within lists and maps, too."""
    check_columns(
        {
            "body": "string collate UTF8_LCASE",
            "tags": "varchar(10)",
            "keys": "array<string collate UNICODE_CI>",
            "properties": "map<char(3),varchar(20)>",
        },
        options(),
    )
