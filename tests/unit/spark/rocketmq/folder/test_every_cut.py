"""Rows equal those of the store's own reader, wherever a task or the log itself is cut.

The log has a record of each kind, and nothing is compared with what this source says of it: what
must come out is what `Store` reads and `codec.record` decodes.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.samples import NARROW, WIDE, directory, plain_rows, row_of, schema

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.store.store import Store
from sprocket.spark.rocketmq.folder.plan import Span, plan
from sprocket.spark.rocketmq.folder.scan import scan
from sprocket.spark.rocketmq.folder.slices import resync
from sprocket.spark.rocketmq.rows.batches import Batches

FILE_BYTES = 1024
PAIRS = {"TAGS": "A", "KEYS": "k1 k2", "UNIQ_KEY": "U1", "größe": "ü\n"}
KINDS: Sequence[tuple[str, bytes, dict[str, str], bytes, bytes, int]] = (
    ("orders", b"plain", PAIRS, NARROW, NARROW, 0),
    ("orders", b"", {}, NARROW, NARROW, 0),
    ("t" * 200, b"long topic: version 2", {"TAGS": "B"}, NARROW, NARROW, 0),
    ("%RETRY%g", b"hosts of 16 bytes", PAIRS, WIDE, WIDE, 0x30),
    ("orders", b"born there", PAIRS, WIDE, NARROW, 0x10),
    ("RMQ_SYS_TRANS_HALF_TOPIC", b"half", PAIRS, NARROW, NARROW, 0x4),
    ("orders", zlib.compress(b"packed" * 40), PAIRS, NARROW, NARROW, 0x301),
    ("orders", b"\xda\xa3\x20\xa7" * 9, {"a": "b"}, NARROW, NARROW, 0),
    ("orders", b"last", {"TAGS": ""}, NARROW, NARROW, 0x8),
)
"""Topic, body, properties, hosts and flags of each record; one body is made of a record's magic."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A closed store whose log has two files; the first ends with padding."""
    log = tmp_path / "commitlog"
    log.mkdir()
    files = [b""]
    for number, (topic, body, pairs, born, stored, flags) in enumerate(KINDS):
        new = NewRecord(
            topic,
            number % 3,
            body,
            properties.encode(pairs),
            born_host=born,
            store_host=stored,
            flag=number,
            sys_flag=flags,
            born_at_ms=1_700_000_000_000 + number,
            reconsume_times=number % 2,
        )

        def encode(at: int, new: NewRecord = new, number: int = number) -> bytes:
            return record.encode(
                new,
                queue_offset=number,
                physical_offset=at,
                stored_at_ms=1_700_000_001_000 + number,
                crc_tail=False,
            )

        made = encode((len(files) - 1) * FILE_BYTES + len(files[-1]))
        if len(files[-1]) + len(made) + 8 > FILE_BYTES:
            files[-1] += record.blank(FILE_BYTES - len(files[-1]))
            files.append(encode(len(files) * FILE_BYTES))
        else:
            files[-1] += made
    assert len(files) == 2
    for number, data in enumerate(files):
        (log / f"{number * FILE_BYTES:020d}").write_bytes(data.ljust(FILE_BYTES, b"\0"))
    return str(tmp_path)


def own(folder: str) -> list[dict[str, Any]]:
    """Return the rows that the store's own reader makes of a folder."""
    opened = Store.open_read_only(RealDisk(), folder)
    try:
        return [
            {**row_of(message), "body": message.body}
            for message in (record.decode(stored, 0) for _, stored in opened.records())
        ]
    finally:
        opened.close()


def rows_of(groups: Sequence[Sequence[Span]]) -> list[dict[str, Any]]:
    """Return the rows that tasks give, each made by itself."""
    options = directory(includeInternalTopics="true", verifyCrc="true")
    return [
        row
        for spans in groups
        for row in plain_rows(
            list(scan(RealDisk(), spans, Batches(schema(options), options), fail_on_data_loss=True))
        )
    ]


@pytest.mark.slow
def test_a_task_may_end_at_every_byte(store: str) -> None:
    """Each place that somebody may wish to cut at gives two tasks that have all rows together."""
    wanted = own(store)
    assert [row["topic"] for row in wanted] == [kind[0] for kind in KINDS]
    whole = [span for spans in plan(RealDisk(), store, 1 << 20) for span in spans]
    assert rows_of([whole]) == wanted
    starts = {row["physicalOffset"] for row in wanted}
    for span in whole:
        cuts = set()
        with_file = RealDisk().open(span.path)
        for at in range(span.start + 1, span.end):
            found = resync(with_file, span.base, at - span.base, span.end - span.base)
            nearest = min((one for one in starts if at <= one < span.end), default=None)
            assert (None if found < 0 else span.base + found) == nearest
            cuts |= {span.base + found} if found >= 0 else set()
        with_file.close()
        assert cuts == {one for one in starts if span.start < one < span.end}
        others = (
            [one for one in whole if one.start < span.start],
            [one for one in whole if one.start > span.start],
        )
        for cut in cuts:
            halves = (
                [Span(span.path, span.base, span.start, cut, False)],
                [Span(span.path, span.base, cut, span.end, span.may_pad)],
            )
            assert rows_of([others[0], *halves, others[1]]) == wanted


@pytest.mark.slow
def test_tasks_of_every_size(store: str) -> None:
    """As `maxPartitionBytes` asks for them, found by resync or by following the records."""
    wanted = own(store)
    for target in range(1, 2 * FILE_BYTES + 1, 23):
        for by_chain in (False, True):
            groups = plan(RealDisk(), store, target, by_chain=by_chain, no_cut_bytes=8)
            assert rows_of(groups) == wanted, (target, by_chain)


@pytest.mark.slow
def test_a_killed_log_may_end_at_every_byte(store: str) -> None:
    """Of what was written up to any byte, with zeros behind, both readers have the same rows."""
    last = Path(store) / "commitlog" / f"{FILE_BYTES:020d}"
    data = last.read_bytes()
    wanted = own(store)
    (Path(store) / "abort").touch()
    counts = set()
    for size in range(len(data.rstrip(b"\0")) + 2):
        last.write_bytes(data[:size].ljust(FILE_BYTES, b"\0"))
        kept = own(store)
        assert kept == wanted[: len(kept)]
        assert rows_of(plan(RealDisk(), store)) == kept, size
        counts.add(len(kept))
    assert counts == set(range(first_of_the_second_file(wanted), len(wanted) + 1))


@pytest.mark.slow
def test_a_copy_may_end_at_every_byte(store: str) -> None:
    """Of a last file that was not copied to its end, the whole records are there."""
    last = Path(store) / "commitlog" / f"{FILE_BYTES:020d}"
    data = last.read_bytes()
    wanted = own(store)
    ends = [row["physicalOffset"] + row["size"] for row in wanted]
    for size in range(len(data.rstrip(b"\0")) + 2):
        last.write_bytes(data[:size])
        kept = sum(
            end <= max(FILE_BYTES + size, ends[first_of_the_second_file(wanted) - 1])
            for end in ends
        )
        assert rows_of(plan(RealDisk(), store)) == wanted[:kept], size


def first_of_the_second_file(wanted: list[dict[str, Any]]) -> int:
    """Return how many rows are of the first file."""
    return sum(row["physicalOffset"] < FILE_BYTES for row in wanted)
