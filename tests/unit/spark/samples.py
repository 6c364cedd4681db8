"""Records, stores and clusters for the tests of the Spark source."""

import json
import lzma
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from pyspark.sql import types
from tests.recorded import unpack_archive

from sprocket.base.errors import BrokerRefused, ClientError, WireError
from sprocket.rocketmq.client import QueueSlice, SliceAnswer
from sprocket.rocketmq.client.network import PullResult, PullStatus
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.columns import Records, records, scan
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.errors import NoSuchTopic
from sprocket.rocketmq.model.internal import HALF_TOPIC
from sprocket.rocketmq.model.message import COMPRESSED, NewRecord, StoredMessage
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.blocking import ThreadFuture
from sprocket.spark.rocketmq.options import Options, read_directory
from sprocket.spark.rocketmq.rows.batches import schema_of
from sprocket.spark.rocketmq.rows.columns import COLUMNS, FULL, RecordRows
from sprocket.testing.clock import FakeClock

DATA = Path(__file__).resolve().parents[2] / "data" / "rocketmq-5.3.3"
"""Stores that a real RocketMQ 5.3.3 wrote."""
STORED_AT_MS = 1_700_000_001_000
"""When the first of some `encoded` records was stored; each further one a millisecond later."""
NARROW, WIDE = bytes((127, 0, 0, 1, 0, 0, 42, 159)), bytes(range(16)) + bytes((0, 0, 42, 159))


def encoded(
    count: int = 3,
    *,
    base: int = 0,
    topic: str = "orders",
    body: bytes = b"body",
    pairs: dict[str, str] | None = None,
    host: bytes = NARROW,
    sys_flag: int = 0,
    first: int = 0,
    queue: int = 0,
    crc_tail: bool = False,
    stored_at_ms: int = STORED_AT_MS,
) -> bytes:
    """Return some records that lie back to back from physical offset `base` on."""
    data = b""
    for number in range(first, first + count):
        new = NewRecord(
            topic,
            queue,
            body,
            properties.encode(pairs or {"UNIQ_KEY": f"U{number}", "TAGS": "A"}),
            born_host=host,
            store_host=host,
            sys_flag=sys_flag,
            born_at_ms=1_700_000_000_000 + number,
        )
        data += record.encode(
            new,
            queue_offset=number,
            physical_offset=base + len(data),
            stored_at_ms=stored_at_ms + number,
            crc_tail=crc_tail,
        )
    return data


def found(data: bytes, base: int | None = None) -> Records:
    """Return the records of a buffer, from its start to the first place where none begins."""
    scanned = scan(data, 0, len(data))
    return records(data, scanned.positions, scanned.stopped_at, base)


def plain(data: bytes) -> list[StoredMessage]:
    """Return the same by the plain decoder."""
    messages: list[StoredMessage] = []
    at = 0
    while at < len(data):
        try:
            messages.append(record.decode(data, at, check_crc=False))
        except WireError:
            break
        at += messages[-1].store_size
    return messages


def rows(kept: Records, names: Sequence[str] = FULL) -> list[dict[str, Any]]:
    """Return rows as Python values; bodies as stored."""
    made = RecordRows(kept)
    columns = {name: COLUMNS[name].make(made).to_pylist() for name in names}
    return [
        _plain_row(dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]


def row_of(message: StoredMessage) -> dict[str, Any]:
    """Return the row that a message must give."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "body": message.stored_body,
        "tags": message.properties.get("TAGS"),
        "keys": message.properties.get("KEYS"),
        "properties": message.properties,
        "msgId": message.message_id,
        "bornTimestamp": message.born_at_ms,
        "storeTimestamp": message.stored_at_ms,
        "brokerName": None,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bodyCRC": message.body_crc,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "transactionState": "prepared"
        if message.topic == HALF_TOPIC
        else ("none", "prepared", "commit", "rollback")[message.sys_flag >> 2 & 3],
        "physicalOffset": message.physical_offset,
        "size": message.store_size,
        "offsetMsgId": message.offset_message_id,
    }


def plain_rows(batches: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows of Arrow batches, maps as dicts and times in ms."""
    return [_plain_row(row) for batch in batches for row in batch.to_pylist()]


def _plain_row(row: dict[str, Any]) -> dict[str, Any]:
    if isinstance(row.get("properties"), list):
        assert len({name for name, _ in row["properties"]}) == len(row["properties"])
        row["properties"] = dict(row["properties"])
    for name in ("bornTimestamp", "storeTimestamp"):
        if row.get(name) is not None:
            row[name] = round(row[name].astimezone(UTC).timestamp() * 1000)
    return row


def schema(options: Options) -> types.StructType:
    """Return the schema that Spark makes of what the options ask for."""
    return schema_of(options, {})


def directory(**given: str) -> Options:
    """Return the options of a query on a directory."""
    return read_directory({"path": "store"} | given)


def unpack(case: str, folder: Path) -> str:
    """Unpack a store of a real broker; return its folder."""
    unpack_archive(DATA / case / "store.tar.xz", folder)
    return str(folder / "store")


def expected(case: str) -> list[dict[str, Any]]:
    """Return every record of that store as RocketMQ's own decoder saw it."""
    with lzma.open(DATA / case / "records.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


_text = st.text(st.characters(exclude_characters="\x02", exclude_categories=["Cs"]), min_size=1)
_names = st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "a", "größe", "TAGS\0", "CONSUMER_A", "CONSUMER_B"]
) | st.text("abc", min_size=1)
"""Some differ in their length alone, or behind the first eight bytes alone."""


@st.composite
def property_strings(draw: st.DrawFn) -> bytes:
    """Draw property strings: well made, with repeats, or any bytes with many separators."""
    if draw(st.integers(0, 3)) == 0:
        return draw(
            st.lists(st.sampled_from([b"\1", b"\2", b"a", b"\xff", b"\xc3\xa4"])).map(b"".join)
        )
    pairs = draw(st.lists(st.tuples(_names, _text | st.just("")), max_size=6))
    closed = "".join(f"{name}\1{value}\2" for name, value in pairs).encode()
    return closed if draw(st.booleans()) else closed[:-1]


_new_records = st.builds(
    NewRecord,
    st.sampled_from(["a", "orders", "ü" * 70, "t" * 200, "", "%RETRY%g"]),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=40),
    property_strings(),
    born_host=st.sampled_from([NARROW, WIDE]),
    store_host=st.sampled_from([NARROW, WIDE]),
    flag=st.integers(-5, 5),
    sys_flag=st.sampled_from([0, 1, 4, 8, 12, 0x700]),
    born_at_ms=st.sampled_from([0, -1, 1_700_000_000_000, 2**63 - 1]),
    reconsume_times=st.integers(0, 3),
    prepared_transaction_offset=st.integers(-1, 2**62),
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Draw records back to back, of both versions, with hosts of both widths."""
    data = b""
    for _ in range(draw(st.integers(1, 8))):
        data += record.encode(
            draw(_new_records),
            queue_offset=draw(st.integers(0, 2**62)),
            physical_offset=len(data),
            stored_at_ms=1_700_000_000_123,
            crc_tail=draw(st.booleans()),
        )
    return data


@st.composite
def similar_logs(draw: st.DrawFn) -> bytes:
    """Draw records of one kind or of a few, in any order, bodies packed or not.

    Most of a log is like that; what is made of many records at once has shorter ways for it.
    """
    kinds = draw(st.lists(_new_records, min_size=1, max_size=3))
    bodies = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=3))
    crc_tail = draw(st.booleans())
    data = b""
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=90))):
        body = bodies[number % len(bodies)]
        packed = kind.sys_flag & COMPRESSED and number % 3
        data += record.encode(
            msgspec.structs.replace(
                kind,
                body=zlib.compress(body) if packed else body,
                sys_flag=kind.sys_flag if packed else kind.sys_flag & ~COMPRESSED,
            ),
            queue_offset=number,
            physical_offset=len(data),
            stored_at_ms=1_700_000_000_123 + number,
            crc_tail=crc_tail,
        )
    return data


class FakeCluster:
    """A cluster of lists: each queue holds whole records, the first at its lowest offset.

    Args:
        queues: Records by queue.
        lowest: The offset of a queue's first record, where it is not 0.
    """

    def __init__(
        self, queues: dict[MessageQueue, list[bytes]], lowest: dict[MessageQueue, int] | None = None
    ) -> None:
        self.records = queues
        self.lowest = lowest or {}
        self.failures: list[Exception | None] = []
        """Raised by the next questions, one each; None lets one pass."""
        self.clock = FakeClock()
        self.asked: list[str] = []
        self.committed: dict[MessageQueue, int] = {}
        self.withdrawn: set[MessageQueue] = set()
        """Queues that their topic has not any more: nobody reads them, but they have an end."""
        self.tags = ""

    def _enter(self, question: str) -> None:
        self.asked.append(question)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic."""
        self._enter("queues")
        queues = sorted(queue for queue in self.records if queue.topic == topic)
        if not queues:
            raise NoSuchTopic(topic)
        return [queue for queue in queues if queue not in self.withdrawn]

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        self._enter("topics")
        return sorted({queue.topic for queue in self.records})

    def min_offsets(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the lowest offsets."""
        self._enter("min")
        return {queue: self.lowest.get(queue, 0) for queue in queues}

    def max_offsets(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the ends."""
        self._enter("max")
        return {
            queue: self.lowest.get(queue, 0) + len(self.records.get(queue, ())) for queue in queues
        }

    def offsets_by_time(self, at_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return the offsets behind the last records that were stored earlier."""
        self._enter("time")
        found = {}
        for queue, wanted in at_ms.items():
            times = [record.decode(data).stored_at_ms for data in self.records[queue]]
            older = [number for number, time in enumerate(times, 1) if time < wanted]
            found[queue] = self.lowest.get(queue, 0) + max(older, default=0)
        return found

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Note progress."""
        self._enter("commit")
        self.committed[queue] = offset

    def pull(
        self, queue: MessageQueue, offset: int, count_max: int, *, tags: str = "*"
    ) -> PullResult:
        """Return some records; `tags` are what the last pull asked for."""
        self._enter(f"pull {offset}")
        self.tags = tags
        low = self.lowest.get(queue, 0)
        high = low + len(self.records[queue])
        if not low <= offset <= high:
            nearest = low if offset < low else high
            return _result(PullStatus.OFFSET_MOVED, nearest, low, high)
        chosen = self.records[queue][offset - low : offset - low + count_max]
        if not chosen:
            return _result(PullStatus.NO_NEW_MESSAGE, offset, low, high)
        return _result(PullStatus.FOUND, offset + len(chosen), low, high, b"".join(chosen))

    def pull_each(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, PullResult]:
        """Return one record of each queue."""
        for queue in places:
            if queue in self.withdrawn:
                raise BrokerRefused(ResponseCode.INVALID_PARAMETER, f"{queue} is illegal")
        return {queue: self.pull(queue, offset, 1) for queue, offset in places.items()}

    def pull_slices_soon(
        self, slices: Sequence[QueueSlice], *, bytes_max: int, count_max: int, tags: str
    ) -> ThreadFuture[list[SliceAnswer]]:
        """Return what is done already: answers up to a size, as a puller's `pull_slices` gives."""
        begun: ThreadFuture[list[SliceAnswer]] = ThreadFuture()
        found: list[SliceAnswer] = []
        try:
            for one in slices:
                at = one.start
                while at < one.end and sum(len(a.result.body) for a in found) < bytes_max:
                    result = self.pull(one.queue, at, min(count_max, one.end - at), tags=tags)
                    if result.status is PullStatus.FOUND or not found:
                        found.append(SliceAnswer(one, result))
                    if result.status is not PullStatus.FOUND:
                        begun.set_result(found)
                        return begun
                    at = result.next_offset
        except ClientError as error:
            if not found:
                begun.set_exception(error)
                return begun
        begun.set_result(found)
        return begun

    def close(self) -> None:
        """Forget nothing: the same lists are found again."""
        self.asked.append("close")


def _result(status: PullStatus, after: int, low: int, high: int, body: bytes = b"") -> PullResult:
    return PullResult(status, after, low, high, body)  # type: ignore[arg-type]


class FakeDoor:
    """Gives the same cluster again and again, and counts the waits."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.waits: list[float] = []
        self.on_wait: Callable[[], None] = lambda: None

    def connect(self) -> Any:
        """Return the cluster, which has of a puller what a stream asks for."""
        return self.cluster

    def wait(self, seconds: float) -> None:
        """Note that somebody would wait."""
        self.waits.append(seconds)
        self.on_wait()
