"""The rows of the format, against the reader that takes one message at a time."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.recorded_rabbitmq import CASES, RecordedVhosts

from sprocket.base.checksum import crc32
from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, ForeignStore, SettingsError
from sprocket.rabbitmq.codec import checksums
from sprocket.rabbitmq.codec.amqp import properties as properties_codec
from sprocket.rabbitmq.codec.checksums import TermSum
from sprocket.rabbitmq.codec.columns import store_entries
from sprocket.rabbitmq.codec.store import entries
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, ScaledInteger
from sprocket.rabbitmq.model.names import QueueName, name_bytes
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.reading import (
    FoundMessage,
    MessageState,
    VhostReader,
    vhost_folders,
)
from sprocket.spark.rabbitmq.batches import schema_of
from sprocket.spark.rabbitmq.columns import COLUMNS
from sprocket.spark.rabbitmq.options import read_options
from sprocket.spark.rabbitmq.reader import VhostsReader

EVERYTHING = ",".join(name for name in COLUMNS if name != "corruption")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(folder: str, **given: str) -> list[dict[str, Any]]:
    """Return the rows that the options ask for, as Spark's tasks would give them."""
    options = read_options({"path": folder, **given})
    schema = schema_of(options, {})
    reader = VhostsReader(schema, options)
    rows: list[dict[str, Any]] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            batch.validate(full=True)
            rows += pa.Table.from_batches([batch]).to_pylist(maps_as_pydicts="strict")
    return rows


def tasks(folder: str, **given: str) -> int:
    """Return how many tasks there are."""
    options = read_options({"path": folder, **given})
    return len(VhostsReader(schema_of(options, {}), options).partitions())


def readable(name: str) -> str:
    """Return a text as Arrow has it."""
    return name_bytes(name).decode("utf-8", "replace")


def plain(field: Field) -> Any:
    """Return a header's value as the guide says."""
    kind, value = field
    if isinstance(value, FieldTable):
        named: dict[str, Any] = {}
        for name, one in value:
            named.setdefault(readable(name), plain(one))
        return named
    if isinstance(value, ScaledInteger):
        return f"{value.unscaled / 10**value.scale:.{value.scale}f}"
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex() if kind is FieldKind.BINARY else value.decode("utf-8", "replace")
    return value


def as_text(field: Field) -> str | None:
    """Return a header's value as the map has it."""
    value = plain(field)
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def headers(table: FieldTable | None) -> dict[str, str | None] | None:
    """Return headers as the map."""
    if table is None:
        return None
    return {readable(name): as_text(field) for name, field in reversed(table.entries)}


def as_row(found: FoundMessage) -> dict[str, Any]:
    """Return what a message is as a row of all columns."""
    message = found.message
    assert message is not None
    octets = message.properties
    if not isinstance(octets, bytes):
        octets = properties_codec.encode(octets)
    told = properties_codec.decode(octets)
    at = told.timestamp
    return {
        "vhost": readable(found.queue.vhost),
        "queue": readable(found.queue.name),
        "queuePriority": found.queue.priority,
        "seqId": found.seq_id,
        "state": found.state.value,
        "isPersistent": found.is_persistent,
        "expiresAt": EPOCH + timedelta(microseconds=found.expiry_us) if found.expiry_us else None,
        "bodySize": found.body_size,
        "exchange": readable(message.exchange),
        "routingKeys": [readable(key) for key in message.routing_keys],
        "body": message.body,
        "contentType": told.content_type,
        "contentEncoding": told.content_encoding,
        "headers": headers(told.headers),
        "deliveryMode": told.delivery_mode,
        "priority": told.priority,
        "correlationId": told.correlation_id,
        "replyTo": told.reply_to,
        "expiration": told.expiration,
        "messageId": told.message_id,
        "timestamp": None if at is None or at > 253_402_300_799 else EPOCH + timedelta(seconds=at),
        "type": told.type,
        "userId": told.user_id,
        "appId": told.app_id,
        "clusterId": told.cluster_id,
        "id": message.id,
        "properties": octets,
    }


def one_by_one(folder: str) -> Iterator[FoundMessage]:
    """Give all messages of all queues."""
    disk = RealDisk()
    for one in vhost_folders(disk, folder):
        reader = VhostReader(disk, one)
        for queue in reader.queues():
            yield from reader.messages(queue, with_gone=True)
        reader.close()


def order(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return by what rows are sorted."""
    return row["vhost"], row["queue"], row["queuePriority"] or 0, row["seqId"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_the_other_reader(case: str, tmp_path: Path) -> None:
    """Every message of a real RabbitMQ, in every column; divided among tasks, too."""
    folder = RecordedVhosts(case).unpack(tmp_path)
    expected = sorted(map(as_row, one_by_one(folder)), key=order)
    for given in ({}, {"minPartitions": "7", "maxPartitionBytes": "1m"}):
        found = sorted(read(folder, columns=EVERYTHING, **given), key=order)
        assert len(found) == len(expected)
        for row, wanted in zip(found, expected, strict=True):
            assert row == wanted


def queue_file(folder: str, queue: str, suffix: str) -> Path:
    """Return a queue's only file with that suffix."""
    disk = RealDisk()
    for one in vhost_folders(disk, folder):
        reader = VhostReader(disk, one)
        for found in reader.queues():
            if found.name == queue:
                root = Path(reader.layout.queue(found.parts[0].folder).root)
                return next(iter(sorted(root.glob(f"*{suffix}"))))
    raise AssertionError(queue)


def test_a_queue_by_its_name(tmp_path: Path) -> None:
    """By names or by a pattern; one that is not there is named with the nearest."""
    folder = RecordedVhosts("05-properties-ttl").unpack(tmp_path)
    orders = read(folder, queue="orders", view="meta")
    assert {row["queue"] for row in orders} == {"orders"}
    assert read(folder, vhost="sprocket/β vhost", view="meta") == orders
    assert read(folder, queuePattern="or.*rs", view="meta") == orders
    assert read(folder, queuePattern="or", view="meta") == []
    with pytest.raises(SettingsError, match="no queue 'order'; did you mean orders"):
        read(folder, queue="order")
    with pytest.raises(SettingsError, match="no virtual host 'other'"):
        read(folder, vhost="other")
    with pytest.raises(ForeignStore, match="no folder of a virtual host"):
        read(str(tmp_path / "nothing"))


def test_what_no_server_would_have_can_be_left_out(tmp_path: Path) -> None:
    """Acknowledged and transient messages."""
    folder = RecordedVhosts("05-properties-ttl").unpack(tmp_path)
    assert {row["isPersistent"] for row in read(folder, view="meta")} == {False, True}
    left = read(folder, view="meta", includeGone="false")
    assert {(row["isPersistent"], row["state"]) for row in left} == {(True, "published")}


@pytest.mark.slow
def test_a_large_queue_is_divided(tmp_path: Path) -> None:
    """Its segments are read by different tasks; small queues share one."""
    folder = RecordedVhosts("02-segments-16384").unpack(tmp_path)
    assert tasks(folder) == 1
    assert tasks(folder, maxPartitionBytes="100k") == 3
    assert tasks(folder, minPartitions="2") == 2
    assert tasks(RecordedVhosts("05-properties-ttl").unpack(tmp_path / "other")) == 1


@pytest.mark.slow
def test_a_message_that_is_missing(tmp_path: Path) -> None:
    """It fails the query, is told in its row, or left out; what needs no message is all there."""
    folder = RecordedVhosts("03-store-fanout").unpack(tmp_path)
    (path,) = Path(folder).glob("*/msg_store_persistent/1.rdq")
    path.unlink()
    count = len(read(folder, view="meta"))
    with pytest.raises(CorruptRecord, match=r"message \d+ of queue '.+': .+ has no message"):
        read(folder)
    rows = read(folder, mode="PERMISSIVE", columns="seqId,body")
    bad = [row for row in rows if row["corruption"] is not None]
    assert len(rows) == count
    assert 0 < len(bad) < count
    assert {row["body"] for row in bad} == {None}
    assert all(row["body"] is not None for row in rows if row not in bad)
    assert len(read(folder, mode="DROPMALFORMED", columns="seqId,body")) == count - len(bad)


@pytest.mark.slow
def test_an_index_that_is_cut(tmp_path: Path) -> None:
    """The rest of it is told once, however many tasks read the queue."""
    folder = RecordedVhosts("02-segments-16384").unpack(tmp_path)
    queue = next(one_by_one(folder)).queue.name
    path = queue_file(folder, queue, ".idx")
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(CorruptRecord, match="goes on beyond the end"):
        read(folder, view="meta")
    rows = read(folder, mode="PERMISSIVE", view="meta", minPartitions="3")
    (told,) = [row for row in rows if row["corruption"]]
    assert path.name in told["corruption"]
    assert (told["queue"], told["seqId"]) == (queue, None)
    sound = read(folder, mode="DROPMALFORMED", view="meta")
    assert sorted(row["seqId"] for row in rows if row is not told) == [
        row["seqId"] for row in sound
    ]


def test_messages_that_are_damaged(tmp_path: Path) -> None:
    """One without its form, one with other properties, one of another id: each in its row."""
    folder = RecordedVhosts("01-journal-only").unpack(tmp_path)
    first = next(
        one
        for one in one_by_one(folder)
        if one.is_persistent and one.state is not MessageState.ACKNOWLEDGED
    )
    path = Path(first.path)
    data = bytearray(path.read_bytes())
    at = data.index(b"basic_message", first.position)
    data[at] ^= 1
    second = data.index(b"basic_message", at + 20)
    properties = data.index(b"d\0\x04nonem", second) + 12
    data[properties] ^= 0x01
    third = data.index(b"basic_message", second + 20)
    own_id = data.index(b"m\0\0\0\x10", third) + 5
    data[own_id] ^= 1
    path.write_bytes(data)
    rows = read(folder, mode="PERMISSIVE", columns=EVERYTHING)
    bad = [row for row in rows if row["corruption"]]
    assert [row["seqId"] - first.seq_id for row in bad] == [0, 1, 2]
    assert "term of a message" in bad[0]["corruption"]
    assert "malformed properties" in bad[1]["corruption"]
    assert bad[1]["body"] is not None
    assert "expected" in bad[2]["corruption"]
    assert bad[0]["body"] is bad[2]["body"] is None


@pytest.mark.slow
def test_headers_as_json(tmp_path: Path) -> None:
    """The same values as the map."""
    folder = RecordedVhosts("05-properties-ttl").unpack(tmp_path)
    maps = [row["headers"] for row in read(folder, columns="headers")]
    texts = [row["headers"] for row in read(folder, columns="headers", headersFormat="json")]
    assert any(maps)
    assert [None if text is None else json.loads(text) for text in texts] == maps


@pytest.mark.slow
def test_ten_thousand_queues_are_planned(tmp_path: Path) -> None:
    """In few tasks, none of which has most of them."""
    vhost = tmp_path / "vhost"
    for number in range(10_000):
        name = QueueName("/", f"q{number}")
        queue = vhost / "queues" / layout.queue_folder(name)
        queue.mkdir(parents=True)
        (queue / ".queue_name").write_bytes(layout.encode_queue_name(name))
    assert 5 <= tasks(str(vhost)) <= 20
    assert tasks(str(vhost), queue="q77") == 1


@pytest.mark.slow
def test_checksums_of_ours_are_compared(tmp_path: Path) -> None:
    """A message that is not as it was written is damage; those that are go by."""
    folder = RecordedVhosts("03-store-fanout").unpack(tmp_path)
    (path,) = Path(folder).glob("*/msg_store_persistent/1.rdq")
    data = path.read_bytes()
    found = store_entries(lambda start, size: data[start : start + size], len(data))
    records = []
    for number in range(2):
        start = int(found.positions[number]) + entries.HEAD.size
        term = data[start : start + int(found.sizes[number]) - entries.OVERHEAD_BYTES]
        crc = crc32(term) ^ number
        records.append(checksums.encode(found.ids[number].tobytes(), TermSum(len(term), crc)))
    path.with_suffix(".sums").write_bytes(b"".join(records))
    rows = read(folder, mode="PERMISSIVE", columns="id,state")
    bad = [row for row in rows if row["corruption"]]
    assert bad
    assert all("another checksum" in row["corruption"] for row in bad)
    assert found.ids[1].tobytes() not in {row["id"] for row in rows}
    assert found.ids[0].tobytes() in {row["id"] for row in rows}


@pytest.mark.parametrize(
    ("name", "has_others"),
    [
        ("02-segments-16384", False),
        ("06-segments-2048-default", True),
        ("07-journal-over-segment", False),
        ("08-classic-v2", True),
    ],
)
def test_what_was_there_at_the_clean_stop_is_missed(
    tmp_path: Path, name: str, has_others: bool
) -> None:
    """A segment, or the folder of a queue, that is missing leaves a folder that looks whole."""
    folder = RecordedVhosts(name).unpack(tmp_path)
    whole = read(folder, view="meta", includeGone="false")
    files = sorted(Path(folder).rglob("*.idx")) + sorted(Path(folder).rglob("*.qi"))
    segment = next(path for path in files if path.stat().st_size > 1000)
    kept = segment.read_bytes()
    segment.unlink()
    missing = rf"{segment.name} at 0: \d+ of \d+ messages are missing"
    with pytest.raises(CorruptRecord, match=missing):
        read(folder, view="meta")
    rest = read(folder, view="meta", mode="DROPMALFORMED", includeGone="false")
    assert len(rest) < len(whole)
    told = read(folder, view="meta", mode="PERMISSIVE", includeGone="false")
    assert [row["corruption"] is not None for row in told].count(True) == 1
    segment.write_bytes(kept)
    shutil.rmtree(segment.parent)
    with pytest.raises(CorruptRecord, match="the folder of a queue is missing, with"):
        read(folder, view="meta")
    told = read(folder, view="meta", mode="PERMISSIVE")
    assert [row["corruption"] is not None for row in told].count(True) == has_others


def test_filters_leave_queues_out(tmp_path: Path) -> None:
    """By name and virtual host; what is told of the folder stays as it is."""
    folder = RecordedVhosts("05-properties-ttl").unpack(tmp_path)
    every = read(folder)
    queues = {(row["vhost"], row["queue"]) for row in every}
    assert len(queues) > 1
    for vhost, name in queues:
        found = read(folder, filters=json.dumps({"queue": [name, "x"], "vhost": [vhost]}))
        assert found == [row for row in every if (row["vhost"], row["queue"]) == (vhost, name)]
    assert read(folder, filters='{"vhost": ["x"]}') == []
