"""Columns of a batch say what the entries of its records say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.rocketmq.codec.given import new_record

from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import INNER_BATCH, NewRecord

_texts = st.text("aé \U0001f600", max_size=4) | st.text("ab", max_size=3)
_names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "TAG", "UNIQ_KEYS", "DELAY"])
_closed = st.lists(st.tuples(_names, _texts | st.sampled_from("139")), max_size=6).map(
    lambda pairs: "".join(f"{name}\1{value}\2" for name, value in pairs).encode()
)
_rubbish = st.lists(
    st.sampled_from([b"\1", b"\2", b"TAGS\1", b"\2KEYS\1", b" ", b"\xff", b"UNIQ_KEY\1"])
).map(b"".join)
_property_strings = st.one_of(
    _closed, _closed.map(lambda text: text[:-1]), _rubbish, st.just(b"KEYS\1" + b"long " * 400)
)
_new = st.builds(
    new_record,
    topic=st.sampled_from(["t", "longer", "ü", SCHEDULE_TOPIC]),
    queue_id=st.sampled_from([0, 1, 70_000, -1]),
    body=st.sampled_from([b"", b"body", b"\2TAGS\1no\2", bytes(range(256))]),
    properties=_property_strings,
    sys_flag=st.sampled_from([0, 0, 1, 4, 8, 12]),
)


def _batch(records: list[tuple[NewRecord, int]], crc_tail: bool = False) -> RecordBatch:
    """Return a batch of records given with their queue offsets."""
    data = b""
    for new, queue_offset in records:
        data += record.encode(
            new,
            queue_offset=queue_offset,
            physical_offset=len(data),
            stored_at_ms=1_700_000_000_000 + len(data),
            crc_tail=crc_tail,
        )
    scanned = columns.scan(data, 0, len(data))
    return RecordBatch(columns.records(data, scanned.positions, scanned.stopped_at, 0))


def _assert_same(batch: RecordBatch) -> None:
    entries = batch.entries()
    assert [e.physical_offset for e in entries] == batch.physical_offset.tolist()
    assert [e.size for e in entries] == batch.size.tolist()
    assert [e.queue_offset for e in entries] == batch.queue_offset.tolist()
    assert [e.stored_at_ms for e in entries] == batch.stored_at_ms.tolist()
    assert [e.tags_code for e in entries] == batch.tags_code.tolist()
    assert entries[-1].physical_offset + entries[-1].size == batch.end
    keys = [(row, key) for row, entry in enumerate(entries) for key in entry.keys]
    assert [row for row, _ in keys] == batch.keys.row.tolist()
    assert [hash32(key) & 0xFFFF_FFFF for _, key in keys] == batch.keys.hash.tolist()
    units = [len(key.encode("utf-16-le")) // 2 for _, key in keys]
    assert units == batch.keys.units.tolist()
    rows: dict[tuple[str, int], list[int]] = {}
    for row, entry in enumerate(entries):
        if entry.queueable:
            rows.setdefault((entry.topic, entry.queue_id), []).append(row)
    assert rows == {(topic, queue): own.tolist() for topic, queue, own in batch.runs}


@given(st.lists(st.tuples(_new, st.integers(0, 3)), min_size=1, max_size=8), st.booleans())
@settings(max_examples=300)
@pytest.mark.slow
def test_columns_and_entries_are_the_same(
    records: list[tuple[NewRecord, int]], crc_tail: bool
) -> None:
    """For any properties: repeated, empty, unclosed, of several words, or no text at all."""
    _assert_same(_batch(records, crc_tail))


def test_long_properties_among_short_ones_are_not_made_rows() -> None:
    """One record with 32 KB of them would make every row that long."""
    long = new_record(properties=b"a\1" + b"x" * 32_000 + b"\2KEYS\1one two\2TAGS\1T\2")
    short = new_record()
    batch = _batch([(short, 0), (long, 1), (short, 2), (short, 3)])
    assert len(batch.pieces.data) < 40_000
    _assert_same(batch)


def test_the_order_of_many_queues_is_kept() -> None:
    """Each run has its records as they lie in the log."""
    numbers = np.random.default_rng(1).integers(0, 50, 500).tolist()
    _assert_same(_batch([(new_record(queue_id=n, body=b""), n) for n in numbers]))


def test_without_a_unit_there_is_no_run() -> None:
    """Prepared records have keys all the same."""
    batch = _batch([(new_record(sys_flag=4), 0)])
    assert batch.runs == []
    assert batch.indexable.tolist() == [True]
    _assert_same(batch)


def test_columns_say_when_they_do_not_tell_all() -> None:
    """Inner batches, light queues and delayed messages need the entries."""
    plain = (new_record(), 0)
    percent = (new_record(properties=b"TAGS\1100%\2"), 1)
    assert _batch([plain, percent]).is_plain
    light = new_record(properties=b"INNER_MULTI_DISPATCH\1%LMQ%a\2")
    inner = new_record(sys_flag=INNER_BATCH, properties=b"INNER_NUM\0017\2")
    for odd in (light, inner, new_record(topic=SCHEDULE_TOPIC)):
        assert not _batch([plain, (odd, 5), plain]).is_plain
    batch = _batch([plain, (inner, 5)])
    assert [batch.next_offset(number) for number in (0, 1)] == [1, 12]


_patterns = (
    *("UNIQ_KEY\1%04d\2", "KEYS\1%04d\2", "KEYS\1a %02d\2", "TAGS\1%03d\2", "KEYS\1\2"),
    *("x%03d\1y\2", "%03d", "TAGS\1\u00e9%02d\2", "\2", "z\1%02d\1w\2", "TAGS\1b"),
)
_alike = st.lists(st.sampled_from(_patterns), max_size=5).map("".join)


@given(
    _alike, st.integers(0, 30), st.booleans(), st.lists(st.integers(0, 2), min_size=2, max_size=6)
)
@settings(max_examples=300)
@pytest.mark.slow
def test_strings_that_are_parted_alike_are_no_different(
    pattern: str, length: int, crc_tail: bool, numbers: list[int]
) -> None:
    """One length, and one layout or nearly so."""
    records = []
    for offset, number in enumerate(numbers):
        text = pattern.replace("%02d", f"{number:02d}").replace("%03d", f"{number:03d}")
        text = text.replace("%04d", f"{number:04d}" if number else "0\1\2 ")
        records.append((new_record(properties=text.encode(), body=b"b" * length), offset))
    _assert_same(_batch(records, crc_tail))


def test_one_layout_is_parted_once() -> None:
    """A name at another place, or one mark more, is another layout."""
    plain = b"UNIQ_KEY\1%d%d\2KEYS\1k%d\2TAGS\1T\2"
    strings = [plain % (n, n, n) for n in range(4)]
    batch = _batch([(new_record(properties=text), n) for n, text in enumerate(strings)], True)
    assert type(batch.pieces).__name__ == "_Alike"
    _assert_same(batch)
    for other in (b"UNIQ_KEY\1\2\1\2KEYS\1k1\2TAGS\1T\2", b"UNIQ_KEY\00101\2KEYX\1k1\2TAGS\1T\2"):
        assert len(other) == len(strings[0])
        texts = [*strings, other]
        batch = _batch([(new_record(properties=text), n) for n, text in enumerate(texts)], True)
        assert type(batch.pieces).__name__ == "_Pieces"
        _assert_same(batch)


def test_many_topics_do_not_mix_with_queues() -> None:
    """Negative queue ids and ones of 31 bits beside each other."""
    ids = [0, -1, (1 << 31) - 1, -(1 << 31)]
    records = [(new_record(topic=f"t{n % 3}", queue_id=ids[n % 4], body=b""), n) for n in range(60)]
    _assert_same(_batch(records))


_odd = "KEYS\1longer\2UNIQ_KEY\1another\2TAGS\1a\2REAL_TOPIC\1t\2"
_halves = ("KEYS\1k%04d\2UNIQ_KEY\1U%04d\2TAGS\1a\2REAL_TOPIC\1t\2", "TAGS\1d\2FOLLOWED\1%d\2")


@pytest.mark.parametrize("crc_tail", [False, True])
@pytest.mark.parametrize(
    "odd",
    ["", _odd, "KEYS\1one two\2TAGS\1x\2", "UNIQ_KEY\1é\2", "TAGS\1\2KEYS\1 \2", "\2", "many"],
)
def test_strings_of_some_kinds_are_no_different(odd: str, crc_tail: bool) -> None:
    """Half messages, what is committed of them, and op messages; and others among them."""
    records = []
    for offset in range(400):
        text = _halves[0].replace("%04d", f"{offset:04d}")
        if offset % 20 == 19:
            text = _halves[1] % (offset // 2)
        elif odd == "many":
            text += "x" * (offset % 17)
        elif odd and offset % 50 == 7:
            text = odd
        topic = ("RMQ_SYS_TRANS_HALF_TOPIC", "t")[offset % 2]
        records.append((new_record(properties=text.encode(), topic=topic), offset))
    batch = _batch(records, crc_tail)
    kinds = {"": "_Kinds", "many": "_Pieces"}
    assert type(batch.pieces).__name__ == kinds.get(odd, type(batch.pieces).__name__)
    _assert_same(batch)
