"""The reader of compacted topics in store directories: of each key of a queue the last message.

A task reads one queue: first the files that compaction has made of it, then what is newer, by the
units of the queue. It notes where the newest message of each key lies, some 300 bytes a key, and
then reads these, unless one is without a body: it deletes its key. Damage is an error: an older
message in the place of one that cannot be read would be a wrong value.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sprocket.base.disk import is_segment_name
from sprocket.base.errors import CorruptRecord, SettingsError, WireError
from sprocket.base.nearest import hint
from sprocket.base.units import MIB
from sprocket.rocketmq.codec import compaction_swap
from sprocket.rocketmq.codec.columns import Stop, records, scan
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.codec.record import keyed
from sprocket.rocketmq.store import geometry
from sprocket.rocketmq.store.layout import COMPACTING, SWAP, StoreLayout
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.spark.files import Files, ReadableFile, open_disk, open_files, read_whole
from sprocket.spark.rocketmq.folder.plan import log_files, require_store
from sprocket.spark.rocketmq.folder.queue_files import queue_files
from sprocket.spark.rocketmq.folder.slices import slices
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches

_BATCH_BYTES = 4 * MIB
_DIGEST_BYTES = 16
_NO_RECORD = bytes(4)


class CompactedPart(NamedTuple):
    """What a task reads."""

    folder: str
    topic: str
    queue_id: int


class _Value(NamedTuple):
    """Where the newest message of a key lies: bytes from the beginning of a file."""

    path: str
    position: int
    size: int
    queue_offset: int
    has_body: bool


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
            ForeignStore: A folder holds no store.
            SettingsError: A topic is not compacted, or the queues lie in a RocksDB.
        """
        folders = self._options.paths or (self._options.path,)
        return [
            InputPartition(part) for folder in folders for part in self._parts(folder.rstrip("/"))
        ]

    def _parts(self, folder: str) -> list[CompactedPart]:
        options = self._options
        files, layout = self._files(folder), StoreLayout(folder)
        require_store(files, folder)
        settled = geometry.resolve(open_disk(folder, self._settings), layout, None)
        if settled.queue.engine != "files":
            raise SettingsError(
                f"{folder} has its queues in a RocksDB; `store convert` makes files of them"
            )
        known = _compacted_topics(files, layout)
        for topic in options.topics or tuple(options.assigned or ()):
            if topic not in known:
                meant = hint(topic, known) or f"; there are {len(known)} that are"
                raise SettingsError(f"topic {topic!r} in {folder} is not compacted{meant}")
        return [
            CompactedPart(folder, topic, queue_id)
            for topic in sorted(known)
            for queue_id in _queue_ids(files, layout, topic)
            if self._is_wanted(topic, queue_id)
        ]

    @property
    def _settings(self) -> dict[str, str]:
        return dict(self._options.file_system)

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
        files = self._files(part.folder)
        values = _newest(files, part)
        where = f"queue {part.queue_id} of topic {part.topic} in {part.folder}"
        yield from batches.added_up(_rows(_stored(files, values), batches, where))

    def _files(self, folder: str) -> Files:
        return open_files(folder, self._settings)


def _compacted_topics(files: Files, layout: StoreLayout) -> set[str]:
    """Return the topics of which compaction has kept something, or is to."""
    found = set(files.folders(layout.compaction_log))
    if files.exists(layout.topics):
        table = fastjson.read_large(read_whole(files, layout.topics))
        topics = table.get("topicConfigTable") if isinstance(table, dict) else None
        for topic, config in topics.items() if isinstance(topics, dict) else ():
            attributes = config.get("attributes") if isinstance(config, dict) else None
            policy = attributes.get("cleanup.policy") if isinstance(attributes, dict) else None
            if str(policy).upper() == "COMPACTION":
                found.add(topic)
    return found


def _queue_ids(files: Files, layout: StoreLayout, topic: str) -> list[int]:
    folders = (f"{layout.compaction_log}/{topic}", f"{layout.consumequeue}/{topic}")
    names = {name for folder in folders for name in files.folders(folder)}
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _newest(files: Files, part: CompactedPart) -> list[_Value]:
    """Return where the last values of a queue are, in the order of the files."""
    layout = StoreLayout(part.folder)
    newest: dict[bytes, _Value] = {}
    next_offset = 0
    for path, position, one in _kept(files, layout, part):
        _note(newest, path, position, one)
        next_offset = max(next_offset, one.entry.next_offset)
    for path, position, one in _newer(files, layout, part, next_offset):
        _note(newest, path, position, one)
    return sorted(one for one in newest.values() if one.has_body)


def _note(newest: dict[bytes, _Value], path: str, position: int, one: keyed.KeyedRecord) -> None:
    if not one.key:
        return
    key = hashlib.blake2b(one.key.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).digest()
    offset, before = one.entry.queue_offset, newest.get(key)
    if before is None or before.queue_offset <= offset:
        newest[key] = _Value(path, position, one.entry.size, offset, one.has_body)


def _kept(
    files: Files, layout: StoreLayout, part: CompactedPart
) -> Iterator[tuple[str, int, keyed.KeyedRecord]]:
    """Give the records that compaction has kept, with their places in their files."""
    folder = f"{layout.compaction_log}/{part.topic}/{part.queue_id}"
    sizes = {name: n for name, n in files.sizes(folder).items() if is_segment_name(name)}
    counted = [int(name) for name in sizes]
    noted = f"{folder}/{COMPACTING}/{SWAP}"
    if files.exists(noted):
        try:
            counted = compaction_swap.decode(read_whole(files, noted)).counted(counted)
        except WireError as error:
            raise CorruptRecord(f"{noted} is {error}") from error
    for name, size in sizes.items():
        if int(name) not in counted:
            continue
        path = f"{folder}/{name}"
        with closing(files.open(path)) as file:
            for piece in slices(file, int(name), 0, size):
                data, found = memoryview(piece.records.data), piece.records
                for start, end in zip(found.start.tolist(), found.end.tolist(), strict=True):
                    place = int.from_bytes(data[start + 28 : start + 36], "big")
                    yield path, place - int(name), keyed.read(data[start:end])
                if piece.stop is Stop.BROKEN and file.read(piece.end, 4) not in (_NO_RECORD, b""):
                    raise CorruptRecord(f"{path}: {piece.why} at {piece.end}")


def _newer(
    files: Files, layout: StoreLayout, part: CompactedPart, next_offset: int
) -> Iterator[tuple[str, int, keyed.KeyedRecord]]:
    """Give the records of a queue from an offset on, with their places in the files of the log."""
    log = log_files(files, layout)
    queue = queue_files(files, layout, part.topic, part.queue_id)
    bounds = queue.offsets(log[0].start) if log else None
    if bounds is None or bounds.end <= next_offset:
        return
    unit = queue.unit(max(bounds.first, next_offset))
    units = queue.between(0 if unit is None else unit.start, 1 << 62)
    with ExitStack() as opened:
        file: ReadableFile | None = None
        base = end = 0
        for place, size in zip(
            units["physical_offset"].tolist(), units["size"].tolist(), strict=True
        ):
            if size == FILLER_SIZE:
                continue
            if file is None or not base <= place < end:
                found = next((one for one in log if one.start <= place < one.end), None)
                if found is None:
                    continue  # cleaned away
                file = opened.enter_context(closing(files.open(found.path)))
                base, end = found.start, found.end
            data = file.read(place - base, size)
            try:
                one = keyed.read(data)
            except WireError as error:
                raise CorruptRecord(f"{file.path}: the record at {place}: {error}") from error
            if one.entry.queue_offset >= next_offset:
                yield file.path, place - base, one


def _stored(files: Files, values: Iterable[_Value]) -> Iterator[bytes]:
    """Give the records at some places, those of a file with one opening."""
    with ExitStack() as opened:
        path, file = "", None
        for value in values:
            if file is None or value.path != path:
                opened.close()
                path, file = value.path, opened.enter_context(closing(files.open(value.path)))
            yield file.read(value.position, value.size)


def _rows(found: Iterable[bytes], batches: Batches, where: str) -> Iterator[Any]:
    """Give the batches of some records, many together."""
    waiting: list[bytes] = []
    size = 0
    for stored in found:
        waiting.append(stored)
        size += len(stored)
        if size >= _BATCH_BYTES:
            yield from _decoded(b"".join(waiting), batches, where)
            waiting, size = [], 0
    if waiting:
        yield from _decoded(b"".join(waiting), batches, where)


def _decoded(data: bytes, batches: Batches, where: str) -> Iterator[Any]:
    seen = scan(data, 0, len(data))
    found = records(data, seen.positions, seen.stopped_at)
    if found.defect or seen.stop is not Stop.END:
        raise CorruptRecord(f"{where}: {found.defect or 'a record is not what was written'}")
    yield from batches.of(found, where)
