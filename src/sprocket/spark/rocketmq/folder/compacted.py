"""The reader of compacted topics in store directories: of each key of a queue the last message.

A round of compaction leaves what was replaced since then, and RocketMQ runs one every quarter of an
hour; so a task reads one queue as consumers see it, twice. First it notes the newest offset of each
key, 150 bytes a key, then it gives the messages at these offsets, unless one is without a body: it
deletes its key.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sprocket.base.disk import Buffer
from sprocket.base.errors import SettingsError
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.columns import records, scan
from sprocket.rocketmq.codec.record import keyed
from sprocket.rocketmq.store.store import Store
from sprocket.spark.files import open_disk, open_files
from sprocket.spark.rocketmq.folder.known_topics import require_topics
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches

_READ_BYTES = MIB
_READ_COUNT = 4096
_BATCH_BYTES = 4 * MIB
_DIGEST_BYTES = 16


class CompactedPart(NamedTuple):
    """What a task reads."""

    folder: str
    topic: str
    queue_id: int


class CompactedReader(DataSourceReader):  # type: ignore[misc]
    """Reads the compacted topics of store directories.

    Args:
        schema: The StructType that Spark wants filled.
        options: Those of a batch over directories.
    """

    def __init__(self, schema: Any, options: Options) -> None:
        self._schema = schema
        self._options = options
        Batches(schema, options)

    def partitions(self) -> list[Any]:
        """Plan a task for each queue.

        Raises:
            SettingsError: A topic that is named is not there, or is not compacted.
        """
        folders = self._options.paths or (self._options.path,)
        return [
            InputPartition(part) for folder in folders for part in self._parts(folder.rstrip("/"))
        ]

    def _parts(self, folder: str) -> list[CompactedPart]:
        options = self._options
        named = options.topics or tuple(options.assigned or ())
        require_topics(open_files(folder, self._settings), folder, named)
        with closing(self._store(folder)) as store:
            for topic in named:
                if topic not in store.compacted_topics:
                    raise SettingsError(
                        f"topic {topic!r} in {folder} is not compacted; read it without `compacted`"
                    )
            return [
                CompactedPart(folder, topic, queue_id)
                for topic, queue_id, _ in store.queues()
                if topic in store.compacted_topics and self._is_wanted(topic, queue_id)
            ]

    def _is_wanted(self, topic: str, queue_id: int) -> bool:
        options = self._options
        if options.assigned is not None:
            queues = options.assigned.get(topic, {}).values()
            return any(queue_id in some for some in queues)
        return options.names_topic(topic)

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the batches of one queue."""
        part: CompactedPart | None = partition.value
        if part is None:  # Spark gives it in place of an empty list
            return
        batches = Batches(self._schema, self._options)
        where = f"queue {part.queue_id} of topic {part.topic} in {part.folder}"
        with closing(self._store(part.folder)) as store:
            newest: dict[bytes, int] = {}
            for stored in _messages(store, part):
                one = keyed.read(stored)
                if one.key:
                    newest[_digest(one.key)] = one.entry.queue_offset
            yield from batches.added_up(
                _rows(_last(_messages(store, part), newest), batches, where)
            )

    def _store(self, folder: str) -> Store:
        return Store.open_read_only(open_disk(folder, self._settings), folder)

    @property
    def _settings(self) -> Mapping[str, str]:
        return dict(self._options.file_system)


def _messages(store: Store, part: CompactedPart) -> Iterator[memoryview]:
    """Give the records of a queue, as stored, up to where it ends now."""
    offset, end = store.queue_range(part.topic, part.queue_id)
    while offset < end:
        got = store.get_messages(
            part.topic, part.queue_id, offset, max_count=_READ_COUNT, max_bytes=_READ_BYTES
        )
        yield from got.records
        if got.next_offset <= offset:
            return
        offset = got.next_offset


def _last(found: Iterable[memoryview], newest: Mapping[bytes, int]) -> Iterator[memoryview]:
    """Give those records that are the newest of their key, and are values."""
    for stored in found:
        one = keyed.read(stored)
        if one.key and one.has_body and newest.get(_digest(one.key)) == one.entry.queue_offset:
            yield stored


def _rows(found: Iterable[Buffer], batches: Batches, where: str) -> Iterator[Any]:
    """Give the batches of some records, many together."""
    waiting: list[Buffer] = []
    size = 0
    for stored in found:
        waiting.append(stored)
        size += len(stored)
        if size >= _BATCH_BYTES:
            yield from _decoded(b"".join(waiting), batches, where)
            waiting, size = [], 0
    yield from _decoded(b"".join(waiting), batches, where)


def _decoded(data: bytes, batches: Batches, where: str) -> Iterator[Any]:
    seen = scan(data, 0, len(data))
    yield from batches.of(records(data, seen.positions, seen.stopped_at), where)


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).digest()
