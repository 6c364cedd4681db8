"""The Parquet files of one task: one for each topic that has much, one for all others.

With thousands of topics a file for each in every task would be thousands of small files. So a
topic gets a file of its own once a row group's worth of its rows waits; what has less shares a
file, sorted by topic. Within a topic rows keep the order of the log.

Nor are batches cut into thousands of pieces, as each has its cost in every column: a topic with few
rows of a batch waits together with all others of that kind, until they are sorted to be written.
Each piece has buffers of its own, so that what waits holds no more memory than is counted.
"""

import io
import re
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sprocket.base.errors import StoreError
from sprocket.base.units import MIB
from sprocket.spark.archive.archive_folder import DATA, SUFFIX, ArchivedFile
from sprocket.spark.files import WritableFile, WritableFiles

ROW_GROUP_BYTES = 32 * MIB
"""Unpacked; larger ones are packed no better, and take more memory."""
WAITING_BYTES_MAX = 128 * MIB
"""Rows that wait for their row group to be full, of all topics."""
OWN_FILES_MAX = 32
"""Topics with a file of their own, of one task; open files hold memory."""
APART_MAX = 32
"""Topics of a batch whose rows wait apart, at most: each has one row in this many at least."""
MIXED = ""
"""In the place of a topic, as none is called so: rows of several, and the file of them."""
SHARED = "topics"
"""The folder of files that several topics share."""

_REPEATED = ("topic", "tags", "bornHost", "storeHost", "transactionState", "properties.key")
"""Columns of few distinct values, which a dictionary makes small."""
_ORDERED = ("topic", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp")
"""Columns whose lowest and highest values let readers skip row groups."""
_RISING = ("queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp")
"""Columns whose values are near to the ones before: differences are smaller and quicker to pack."""


class FileName(str):
    """What the files of a task are called: offset where it begins, job, partition, attempt."""

    @classmethod
    def of(cls, start: int, job: str, partition: int, attempt: int) -> "FileName":
        """Return the name; `job` is eight hex digits that no other run has."""
        return cls(f"{start:020d}-{job}-{partition}-{attempt}{SUFFIX}")


class TopicFiles:
    """Writes rows to files of their topics.

    Args:
        files: The file system.
        folder: The archive's.
        name: Of each file; its folder says the topic.
        row_group_bytes: How much makes a row group.
    """

    def __init__(
        self,
        files: WritableFiles,
        folder: str,
        name: FileName,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self._system = files
        self._folder = folder
        self._name = name
        self._row_group_bytes = row_group_bytes
        self._waiting: dict[str, list[Any]] = {}
        self._bytes: dict[str, int] = {}
        self._files: dict[str, _ParquetFile] = {}

    def add(self, batch: Any) -> None:
        """Take rows; `batch` is an Arrow batch of the source, all of one schema."""
        for topic, rows in split(batch, self._files):
            self._waiting.setdefault(topic, []).append(rows)
            size = self._bytes.get(topic, 0) + rows.nbytes
            self._bytes[topic] = size
            is_own = topic in self._files or len(self._files) < OWN_FILES_MAX
            if topic != MIXED and size >= self._row_group_bytes and is_own:
                self._file(topic).write(self._taken([topic]))
        if sum(self._bytes.values()) > WAITING_BYTES_MAX:
            self._write_rest()

    def close(self) -> list[ArchivedFile]:
        """Write what waits; return the files, which are on the disk then."""
        self._write_rest()
        return [file.close() for _, file in sorted(self._files.items())]

    def abandon(self) -> None:
        """Give up: close the files as they are, and remove them. No manifest will name them.

        The disk may be full, and others may write to it.
        """
        for file in self._files.values():
            file.abandon()
            with suppress(StoreError):  # the next run removes it
                self._system.remove(f"{self._folder}/{file.path}")

    def _write_rest(self) -> None:
        for topic in [one for one in self._waiting if one != MIXED and one in self._files]:
            self._file(topic).write(self._taken([topic]))
        if self._waiting:
            topics = list(self._waiting)
            rows = self._taken(topics)
            self._file(MIXED).write(_sorted(rows) if len(topics) > 1 or MIXED in topics else rows)

    def _taken(self, topics: list[str]) -> Any:
        batches = [batch for topic in topics for batch in self._waiting.pop(topic)]
        for topic in topics:
            del self._bytes[topic]
        return pa.Table.from_batches(batches)

    def _file(self, topic: str) -> "_ParquetFile":
        """Return the file of a topic, or the one that is shared."""
        if topic not in self._files:
            inside = f"{DATA}/{_folder_name(topic)}"
            self._system.make_folder(f"{self._folder}/{inside}")
            path = f"{inside}/{self._name}"
            opened = self._system.create(f"{self._folder}/{path}")
            self._files[topic] = _ParquetFile(path, opened)
        return self._files[topic]


def _folder_name(topic: str) -> str:
    """Return a folder's name that every reader of Parquet takes; topics may share one."""
    name = re.sub(r"[^a-zA-Z0-9-]", "_", topic)[:100]
    return SHARED if topic == MIXED else f"topic-{name}"


def split(batch: Any, own: Container[str]) -> Iterator[tuple[str, Any]]:
    """Give the rows of topics that wait apart, then all others as `MIXED`, in their order.

    Args:
        batch: An Arrow batch with the column `topic`.
        own: Topics that wait apart however few their rows are.
    """
    coded = batch.column("topic").dictionary_encode()
    names = coded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], batch
        return
    codes = coded.indices.to_numpy(zero_copy_only=False)
    is_large = (np.bincount(codes, minlength=len(names)) * APART_MAX >= len(codes)).tolist()
    apart = [number for number, name in enumerate(names) if is_large[number] or name in own]
    pieces = np.full(len(names), len(apart))
    pieces[apart] = np.arange(len(apart))
    piece = pieces[codes]
    order = np.argsort(piece, kind="stable")
    bounds = np.searchsorted(piece[order], np.arange(len(apart) + 2)).tolist()
    for number, name in enumerate([*(names[number] for number in apart), MIXED]):
        if bounds[number] < bounds[number + 1]:
            yield name, batch.take(pa.array(order[bounds[number] : bounds[number + 1]]))


def _sorted(table: Any) -> Any:
    """Return rows by topic, each in the order of the log."""
    coded = table["topic"].combine_chunks().dictionary_encode()
    names = np.array(coded.dictionary.to_pylist(), object)
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(names)] = np.arange(len(names))
    topics = rank[coded.indices.to_numpy(zero_copy_only=False)]
    return table.take(pa.array(np.lexsort((table["physicalOffset"].to_numpy(), topics))))


class _ParquetFile:
    """A file that is being written, and what its manifest will say of it."""

    def __init__(self, path: str, file: WritableFile) -> None:
        self.path = path
        self._sink = _Sink(file)
        self._file = file
        self._writer: Any = None
        self._messages = 0
        self._topics: dict[str, int] = {}
        self._offsets: list[int] = []
        self._times_us: list[int] = []

    def write(self, table: Any) -> None:
        """Write a row group."""
        if self._writer is None:
            names = table.schema.names
            self._writer = pq.ParquetWriter(
                self._sink,
                table.schema,
                compression="zstd",
                use_dictionary=[
                    "properties.key_value.key" if name == "properties.key" else name
                    for name in _REPEATED
                    if name.partition(".")[0] in names
                ],
                column_encoding={name: "DELTA_BINARY_PACKED" for name in _RISING if name in names},
                write_statistics=[name for name in _ORDERED if name in names],
            )
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._messages += table.num_rows
        for count in pc.value_counts(table["topic"]).to_pylist():
            topic = count["values"]
            self._topics[topic] = self._topics.get(topic, 0) + count["counts"]
        for name, ends in (("physicalOffset", self._offsets), ("storeTimestamp", self._times_us)):
            found = pc.min_max(table[name].cast(pa.int64())).as_py()
            ends += [end for end in found.values() if end is not None]

    def close(self) -> ArchivedFile:
        """Write the footer, and see to it that all is on the disk."""
        self._writer.close()
        size = self._file.close()
        return ArchivedFile(
            path=self.path,
            bytes=size,
            messages=self._messages,
            topics=self._topics,
            first_offset=min(self._offsets),
            last_offset=max(self._offsets),
            first_stored_at_ms=min(self._times_us, default=0) // 1000,
            last_stored_at_ms=max(self._times_us, default=0) // 1000,
        )

    def abandon(self) -> None:
        """Close it as it is."""
        if self._writer is not None:
            self._writer.is_open = False  # or its end would write a footer to a closed file
        self._file.abandon()


class _Sink(io.RawIOBase):
    """A new file as Arrow writes to one."""

    def __init__(self, file: WritableFile) -> None:
        self._file = file
        self._position = 0

    def writable(self) -> bool:
        """Say that it can be written."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes after those that were written before."""
        size = self._file.write(memoryview(data))
        self._position += size
        return size

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._position
