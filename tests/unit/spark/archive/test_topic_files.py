"""Files of one task: every row once, in the order of the log, those of large topics apart."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sprocket.base.disk import RealDisk
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.spark.archive import FileName, TopicFiles
from sprocket.spark.archive.topic_files import SHARED, split
from sprocket.spark.files import LocalFiles
from sprocket.testing.disk import SimulatedDisk

NAME = FileName.of(7, "0123abcd", 3, 4)
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("body", pa.binary()),
        ("physicalOffset", pa.int64()),
        ("storeTimestamp", pa.timestamp("us", "UTC")),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)


def batch(topics: list[str], first: int = 0, size: int = 10) -> Any:
    """Rows of some topics, their offsets counted from `first`."""
    offsets = range(first, first + len(topics))
    columns = [
        topics,
        [b"%d" % offset + bytes(size) for offset in offsets],
        list(offsets),
        [offset * 1_000_000 for offset in offsets],
        [[("TAGS", topic)] for topic in topics],
    ]
    arrays = [pa.array(one, field.type) for one, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def read(folder: Path, path: str) -> list[dict[str, Any]]:
    """The rows of a file."""
    rows: list[dict[str, Any]] = pq.read_table(folder / path).to_pylist()
    return rows


FEW = ["a", "b", "ü/%", "c" * 200]
MANY = [f"topic-{number}" for number in range(200)]


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(FEW), min_size=1),
            st.randoms(use_true_random=False).map(lambda chosen: chosen.choices(FEW + MANY, k=300)),
        ),
        max_size=6,
    ),
    st.sampled_from([1, 300, 100_000]),
)
def test_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str]], row_group_bytes: int
) -> None:
    """Whatever topics the batches have, and whenever row groups are full."""
    folder = tmp_path_factory.mktemp("archive")
    files = TopicFiles(LocalFiles(RealDisk()), str(folder), NAME, row_group_bytes)
    wanted: list[tuple[str, int]] = []
    for topics in batches:
        files.add(batch(topics, len(wanted)))
        wanted += [(topic, len(wanted) + number) for number, topic in enumerate(topics)]
    found: list[tuple[str, int]] = []
    for file in files.close():
        rows = read(folder, file.path)
        by_topic: dict[str, int] = {}
        for row in rows:
            by_topic[row["topic"]] = by_topic.get(row["topic"], 0) + 1
        assert (file.topics, file.messages) == (by_topic, len(rows))
        offsets = [row["physicalOffset"] for row in rows]
        assert (file.first_offset, file.last_offset) == (min(offsets), max(offsets))
        assert file.first_stored_at_ms == min(offsets) * 1000
        assert file.bytes == (folder / file.path).stat().st_size
        if f"/{SHARED}/" not in file.path:
            assert len(file.topics) == 1
        for topic in by_topic:
            own = [row["physicalOffset"] for row in rows if row["topic"] == topic]
            assert own == sorted(own)
        found += [(row["topic"], row["physicalOffset"]) for row in rows]
    assert sorted(found) == sorted(wanted)


def test_a_large_topic_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Small ones share theirs; the folder of each begins with no sign that readers pass over."""
    files = TopicFiles(LocalFiles(RealDisk()), str(tmp_path), NAME, row_group_bytes=2_000)
    files.add(batch(["small", "_large%", "_large%", "tiny"], size=1_000))
    files.add(batch(["_large%"], first=4))
    shared, own = files.close()
    assert (shared.path, shared.topics) == (f"data/topics/{NAME}", {"small": 1, "tiny": 1})
    assert (own.path, own.topics) == (f"data/topic-_large_/{NAME}", {"_large%": 3})


def test_ten_thousand_topics_wait_together(tmp_path: Path) -> None:
    """A batch is cut into few pieces; what is written is sorted, each topic in the log's order."""
    chosen = random.Random(5)
    names = [f"topic-{number:04d}" for number in range(10_000)]
    files = TopicFiles(LocalFiles(RealDisk()), str(tmp_path), NAME)
    rows: list[tuple[str, int]] = []
    for _ in range(4):
        topics = [chosen.choice(names) for _ in range(4_000)] + ["large"] * 500
        chosen.shuffle(topics)
        one = batch(topics, len(rows))
        pieces = [topic for topic, _ in split(one, {topics[0]})]
        assert set(pieces) == {"large", topics[0], ""}
        files.add(one)
        rows += [(topic, len(rows) + number) for number, topic in enumerate(topics)]
    (file,) = files.close()
    found = pq.read_table(tmp_path / file.path, columns=["topic", "physicalOffset"])
    assert list(zip(*found.to_pydict().values(), strict=True)) == sorted(rows)


def test_one_topic_may_wait_in_both_ways(tmp_path: Path) -> None:
    """It is in order all the same."""
    files = TopicFiles(LocalFiles(RealDisk()), str(tmp_path), NAME, row_group_bytes=20_000)
    files.add(batch(["b"], size=10))
    files.add(batch(["a"] * 300 + ["b"], 1, size=100))
    files.add(batch(["b"], 302, size=10))
    shared, own = files.close()
    assert (shared.topics, own.topics) == ({"b": 3}, {"a": 300})
    assert [row["physicalOffset"] for row in read(tmp_path, shared.path)] == [0, 301, 302]


def test_what_waits_holds_no_more_than_is_counted(tmp_path: Path) -> None:
    """Few rows of a batch do not keep the rest of it in memory, which is written long before."""
    files = TopicFiles(LocalFiles(RealDisk()), str(tmp_path), NAME, row_group_bytes=1_000_000)
    before = pa.total_allocated_bytes()
    for number in range(30):
        topics = ["large"] * 980 + [f"small-{one}" for one in range(20)]
        files.add(batch(topics, 1000 * number, size=1000))
    assert pa.total_allocated_bytes() - before < 4_000_000  # 0.6 MB of small ones, and one batch
    files.close()


def test_files_are_packed_by_zstd_and_can_be_narrowed(tmp_path: Path) -> None:
    """Readers see the lowest and highest offset of each row group."""
    files = TopicFiles(LocalFiles(RealDisk()), str(tmp_path), NAME)
    files.add(batch(["a", "b"], first=5))
    (file,) = files.close()
    group = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    statistics = columns["physicalOffset"].statistics
    assert (statistics.min, statistics.max) == (5, 6)
    assert columns["body"].statistics is None


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    """Nothing that a manifest could name."""
    assert TopicFiles(LocalFiles(RealDisk()), str(tmp_path), NAME).close() == []


def test_a_full_disk_is_our_error(tmp_path: Path) -> None:
    """It passes Arrow unchanged."""

    class Failing(RealDisk):
        def open(self, path: str, **_how: Any) -> Any:
            raise DiskFailed("no", path)

    files = TopicFiles(LocalFiles(Failing()), str(tmp_path), NAME)
    files.add(batch(["a"]))
    with pytest.raises(DiskFailed):
        files.close()
    files.abandon()


@pytest.mark.parametrize("written", [0, 1, 3])
def test_a_full_disk_is_one_error_and_nothing_is_left(written: int) -> None:
    """What was written before takes no space any more."""
    disk = SimulatedDisk()
    disk.make_folder("/archive")
    files = TopicFiles(LocalFiles(disk), "/archive", NAME, row_group_bytes=200)
    for number in range(written):
        files.add(batch([f"topic-{number}"], size=1000))
    disk.is_full = True
    files.add(batch(["one-more"], size=0))
    with pytest.raises(DiskFull):
        files.close()
    files.abandon()
    assert [path for path in disk.contents() if path.endswith(".parquet")] == []
