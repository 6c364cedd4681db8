"""Records of a queue's index: their bytes, and whole files of them, whatever is in those."""

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.index import (
    IndexFinding,
    IndexRecords,
    IndexStop,
    PublishRecord,
    RecordKind,
)

ID = bytes(range(16))
WHAT_AGAIN = "published again later: the later record counts"


def published(seq_id: int, term: bytes = b"", *, is_persistent: bool = True) -> bytes:
    """Return a journal's publish record."""
    return index.publish(seq_id, ID, 7, len(term), term, is_persistent=is_persistent)


def test_the_bytes_of_a_journal() -> None:
    """As RabbitMQ 3.10.8 has written them."""
    head = "0000000000000000646307995ed3dc325ac6e4042355a7ed00000000000000000000000d"
    message_id = bytes.fromhex("646307995ed3dc325ac6e4042355a7ed")
    record = index.publish(0, message_id, 0, 13, b"\x83abc", is_persistent=True)
    assert record == bytes.fromhex(head) + bytes.fromhex("00000004") + b"\x83abc"
    assert index.publish(5, ID, 0, 1, b"", is_persistent=False)[:8].hex() == "4000000000000005"
    assert index.deliver(0).hex() == "8000000000000000"
    assert index.ack((1 << 62) - 1).hex() == "ffffffffffffffff"


def test_records_of_many_are_those_of_each() -> None:
    """Publishes, deliveries and acknowledgements."""
    many = index.publishes(7, [ID, ID[::-1]], 5, [1, 2], [b"", b"\x83abc"])
    assert many == [
        index.publish(7, ID, 5, 1, b"", is_persistent=True),
        index.publish(8, ID[::-1], 5, 2, b"\x83abc", is_persistent=True),
    ]
    assert index.delivers(7, 9) == [index.deliver(7), index.deliver(8)]
    assert index.acks([8, 3]) == [index.ack(8), index.ack(3)]


@given(
    st.lists(
        st.one_of(
            st.just(published(7, b"\x83abc")),
            st.just(published(8, is_persistent=False)),
            st.sampled_from([index.deliver(7), index.ack((1 << 62) - 1)]),
            st.binary(max_size=50),
        )
    ).map(b"".join)
)
def test_rows_of_a_journal_are_its_columns(data: bytes) -> None:
    """Record by record or all at once, whatever the bytes are, and why it stops."""
    columns = index.read_journal(data)
    ends = [*columns.starts.tolist(), columns.stopped_at][1:]
    parts = [data[start:end] for start, end in zip(columns.starts.tolist(), ends, strict=True)]
    expected = [*zip(columns.kinds.tolist(), columns.ids.tolist(), parts, strict=True)]
    assert index.journal_rows(data) == (expected, columns.stop)


def test_the_bytes_of_a_segment() -> None:
    """The prefix is another one, the rest is the same."""
    record = published(2050, b"\x83abc")
    assert index.segment_publish(2, record) == b"\xc0\x02" + record[8:]
    record = published(2050, is_persistent=False)
    assert index.segment_publish(2, record) == b"\x80\x02" + record[8:]
    assert index.segment_mark(0x3FFF).hex() == "7fff"


@given(st.booleans(), st.booleans(), st.binary(max_size=9), st.integers(0, (1 << 64) - 1))
def test_one_record_is_read_as_it_was_written(
    is_segment: bool, is_persistent: bool, term: bytes, expiry_us: int
) -> None:
    """Of a journal and of a segment; one that is cut is an error."""
    record = index.publish(9, ID, expiry_us, 77, term, is_persistent=is_persistent)
    data = index.segment_publish(9, record) if is_segment else record
    expected = PublishRecord(ID, expiry_us, 77, term, is_persistent)
    assert index.decode_publish(b"x" + data, 1, is_segment=is_segment) == expected
    for cut in {0, 1, len(data) - len(term) - 1, len(data) - 1}:
        with pytest.raises(CorruptRecord, match="cut"):
            index.decode_publish(data[:cut] or b"", 0, is_segment=is_segment)


@dataclass(frozen=True)
class Step:
    """A record to write."""

    kind: RecordKind
    number: int
    term: bytes = b""

    def encode(self, *, is_segment: bool) -> bytes:
        """Return its bytes in a file of either kind."""
        if self.kind <= RecordKind.PUBLISH_TRANSIENT:
            is_persistent = self.kind == RecordKind.PUBLISH_PERSISTENT
            record = published(self.number, self.term, is_persistent=is_persistent)
            return index.segment_publish(self.number, record) if is_segment else record
        if is_segment:
            return index.segment_mark(self.number)
        mark = index.deliver if self.kind == RecordKind.DELIVER else index.ack
        return mark(self.number)


def naive(data: bytes, *, is_segment: bool) -> tuple[list[tuple[int, int, int]], int, IndexStop]:
    """Read record by record: their places, kinds and ids, the end, and why it is there."""
    prefix = 2 if is_segment else 8
    found: list[tuple[int, int, int]] = []
    at = 0
    while True:
        rest = data[at:]
        if not rest:
            return found, at, IndexStop.END
        if not rest[:40].strip(b"\0"):
            return found, at, IndexStop.ZEROS
        top = rest[0] >> 6
        if is_segment and top == 0:
            return found, at, IndexStop.INVALID
        if len(rest) < prefix:
            return found, at, IndexStop.PARTIAL
        word = int.from_bytes(rest[:prefix], "big")
        if is_segment:
            kind = {
                1: RecordKind.DELIVER,
                2: RecordKind.PUBLISH_TRANSIENT,
                3: RecordKind.PUBLISH_PERSISTENT,
            }[top]
            number = word & 0x3FFF
        else:
            kind, number = RecordKind(top), word & ((1 << 62) - 1)
        size = prefix
        if kind <= RecordKind.PUBLISH_TRANSIENT:
            size += 32
            if len(rest) < size:
                return found, at, IndexStop.PARTIAL
            size += int.from_bytes(rest[size - 4 : size], "big")
        if len(rest) < size:
            return found, at, IndexStop.PARTIAL
        found.append((at, int(kind), number))
        at += size


def as_rows(records: IndexRecords) -> tuple[list[tuple[int, int, int]], int, IndexStop]:
    """Return what was read in the form of `naive`."""
    columns = (records.starts.tolist(), records.kinds.tolist(), records.ids.tolist())
    return list(zip(*columns, strict=True)), records.stopped_at, records.stop


def read(data: bytes, *, is_segment: bool) -> IndexRecords:
    """Read a file of either kind."""
    return index.read_segment(data) if is_segment else index.read_journal(data)


@st.composite
def files(draw: DrawFn, *, is_segment: bool) -> bytes:
    """Draw a file: runs of records of one shape, single ones, cut or with something behind."""
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        term = draw(st.binary(max_size=3))
        shape = draw(st.sampled_from(["publish", "both", "mark"]))
        first = draw(st.integers(1, 3000))
        for number in range(first, first + draw(st.sampled_from([1, 2, 63, 64, 65, 130, 300]))):
            if shape != "mark":
                parts.append(Step(RecordKind.PUBLISH_PERSISTENT, number, term))
            if shape != "publish":
                parts.append(Step(RecordKind.DELIVER, number))
    data = b"".join(part.encode(is_segment=is_segment) for part in parts)
    behind = draw(st.sampled_from([b"", b"\0", bytes(39), bytes(40), bytes(300), b"\x3f" * 9]))
    cut = draw(st.one_of(st.just(0), st.just(1), st.integers(0, len(data))))
    data = data[: len(data) - cut] + behind
    if data and draw(st.booleans()):
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + draw(st.binary(min_size=1, max_size=1)) + data[at + 1 :]
    return data


@given(st.data(), st.booleans())
def test_a_file_is_read_as_record_by_record(data: st.DataObject, is_segment: bool) -> None:
    """Many at once or one by one: the same records, the same end, the same reason."""
    file = data.draw(files(is_segment=is_segment))
    assert as_rows(read(file, is_segment=is_segment)) == naive(file, is_segment=is_segment)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_records_and_an_end(file: bytes, is_segment: bool) -> None:
    """And what is made of them raises nothing."""
    records = read(file, is_segment=is_segment)
    assert as_rows(records) == naive(file, is_segment=is_segment)
    found = index.states(records, 64)
    messages = index.messages(records, found.published_at[found.published_at >= 0])
    assert (messages.term_starts + messages.term_sizes <= len(file)).all()


def rows(records: IndexRecords, entry_count: int = 64) -> list[tuple[int, int, bool, bool]]:
    """Return what is known of each message."""
    found = index.states(records, entry_count)
    assert found.findings == ()
    return table(records, entry_count)


def table(records: IndexRecords, entry_count: int = 64) -> list[tuple[int, int, bool, bool]]:
    """Return the same where there may be findings."""
    found = index.states(records, entry_count)
    columns = (found.ids, found.published_at, found.is_delivered, found.is_acked)
    return [tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def test_what_a_journal_says_of_each_message() -> None:
    """An ack alone is of a message in a segment."""
    data = published(3, b"x") + index.deliver(3) + published(1) + index.deliver(1)
    data += index.ack(3) + index.deliver(0) + index.ack(2)
    expected = [
        (0, -1, True, False),
        (1, 49, True, False),
        (2, -1, False, True),
        (3, 0, True, True),
    ]
    assert rows(index.read_journal(data)) == expected


def test_what_a_segment_says_of_each_message() -> None:
    """The first of two marks is the deliver, the second the ack."""
    publishes = [index.segment_publish(n, published(n)) for n in range(3)]
    mark = index.segment_mark
    data = publishes[2] + mark(2) + publishes[0] + publishes[1] + mark(1) + mark(1)
    expected = [(0, 36, False, False), (1, 70, True, True), (2, 0, True, False)]
    assert rows(index.read_segment(data)) == expected


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("again", ([(1, 48, False, False)], (IndexFinding(0, WHAT_AGAIN),))),
        (
            "bare ack",
            (
                [(1, 0, True, True)],
                (IndexFinding(0, "acknowledged without having been delivered: taken for both"),),
            ),
        ),
    ],
)
def test_what_no_journal_should_say(
    what: Literal["again", "bare ack"], expected: tuple[object, object]
) -> None:
    """RabbitMQ does not start with these."""
    data = {
        "again": published(1) + index.deliver(1) + published(1),
        "bare ack": published(1) + index.ack(1),
    }[what]
    records = index.read_journal(data)
    assert (table(records), index.states(records).findings) == expected


def test_what_no_segment_should_say() -> None:
    """RabbitMQ does not start with these either; what is intact is kept."""
    first, mark = index.segment_publish(1, published(1)), index.segment_mark
    data = mark(5) + index.segment_publish(64, published(64)) + first + mark(1) * 3
    records = index.read_segment(data)
    assert table(records) == [(1, 36, True, True)]
    assert index.states(records, 64).findings == (
        IndexFinding(2, "a relative id of 64 or more: passed over"),
        IndexFinding(36, "acknowledged twice"),
        IndexFinding(0, "delivered or acknowledged, but never published: passed over"),
    )


def test_fields_of_many_messages() -> None:
    """One row for each, of a journal and of a segment."""
    journal = published(1, b"abc") + index.publish(2, 16 * b"z", 9, 5000, b"", is_persistent=False)
    segment = index.segment_publish(1, journal[:43]) + index.segment_publish(2, journal[43:])
    for records in (index.read_journal(journal), index.read_segment(segment)):
        found = index.messages(records, records.starts)
        assert [bytes(row) for row in found.message_ids] == [ID, 16 * b"z"]
        assert found.expiry_us.tolist() == [7, 9]
        assert found.body_sizes.tolist() == [3, 5000]
        assert found.term_sizes.tolist() == [3, 0]
        assert found.is_persistent.tolist() == [True, False]
        start = int(found.term_starts[0])
        assert bytes(records.data[start : start + 3]) == b"abc"
