"""The geometry of a store folder: read from its own file, or inferred from the sizes of its files.

A store that Sprocket made has its geometry in `config/sprocket.json`. RocketMQ has it in the
broker's settings only, so there it is inferred: from files that are whole; otherwise it is the one
that the caller wants, otherwise the default. A damaged file of queues or index is ignored, as it
can be made again in any geometry.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import msgspec

from sprocket.base.disk import (
    NAME_DIGITS,
    Disk,
    is_segment_name,
    read_file,
    read_written,
    replace_file,
)
from sprocket.base.errors import DiskFailed, ForeignStore
from sprocket.rocketmq.geometry import (
    BATCH_UNIT_BYTES,
    QUEUE_UNIT_BYTES,
    CompactionGeometry,
    Engine,
    Geometry,
    IndexGeometry,
    LogGeometry,
    QueueGeometry,
)
from sprocket.rocketmq.store.index import HEADER, HEADER_BYTES, INDEX_UNIT, SLOT_BYTES, UNIT_BYTES
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import engines

QUEUES_SAMPLED = 100
"""Queues whose files are asked for their size; a store may have very many."""


class _File(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What the geometry file holds."""

    format: int
    log_segment_bytes: int
    queue_units_per_file: int
    index_slots: int
    index_units: int
    queue_engine: Engine = "files"
    queue_batch_units_per_file: int = QueueGeometry().batch_units_per_file
    queue_extension_bytes: int = QueueGeometry().extension_bytes
    compaction_log_bytes: int = CompactionGeometry().log_bytes
    compaction_units_bytes: int = CompactionGeometry().units_bytes


_FORMAT = 1


def encode(geometry: Geometry) -> bytes:
    """Return the content of the geometry file."""
    content = _File(
        _FORMAT,
        geometry.log.segment_bytes,
        geometry.queue.units_per_file,
        geometry.index.slots,
        geometry.index.units,
        geometry.queue.engine,
        geometry.queue.batch_units_per_file,
        geometry.queue.extension_bytes,
        geometry.compaction.log_bytes,
        geometry.compaction.units_bytes,
    )
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def decode(data: bytes, path: str) -> Geometry:
    """Decode the content of the geometry file.

    Raises:
        ForeignStore: It is not what Sprocket writes.
    """
    try:
        content = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ForeignStore(f"{path}: {error}") from error
    if content.format != _FORMAT:
        raise ForeignStore(f"{path}: format {content.format}, this Sprocket knows {_FORMAT}")
    return Geometry(
        log=LogGeometry(segment_bytes=content.log_segment_bytes),
        queue=QueueGeometry(
            engine=content.queue_engine,
            units_per_file=content.queue_units_per_file,
            batch_units_per_file=content.queue_batch_units_per_file,
            extension_bytes=content.queue_extension_bytes,
        ),
        index=IndexGeometry(slots=content.index_slots, units=content.index_units),
        compaction=CompactionGeometry(
            log_bytes=content.compaction_log_bytes, units_bytes=content.compaction_units_bytes
        ),
    )


def resolve(disk: Disk, layout: StoreLayout, wanted: Geometry | None) -> Geometry:
    """Return the geometry of a store; `wanted`, or the default, if it is yet to be made.

    The engine of the queues is the one that is there, whatever was noted.

    Raises:
        ForeignStore: What is noted differs from `wanted`, or the engine does. Where nothing is
            noted, a log whose files have another size than is wanted is refused when it is loaded.
    """
    try:
        noted = decode(read_file(disk, layout.geometry), layout.geometry)
    except DiskFailed:  # it is not there, or the disk does not give it
        noted = _inferred(disk, layout, wanted)
        if wanted is not None:
            wanted = with_engine(noted, wanted.queue.engine)
    found = with_engine(noted, engines.found(disk, layout) or noted.queue.engine)
    if wanted is None or wanted == found:
        return found
    if wanted.queue.engine != found.queue.engine:
        raise ForeignStore(
            f"{layout.root}: its queues are kept in {found.queue.engine}, not in "
            f"{wanted.queue.engine}; `sprocket store convert` changes that"
        )
    raise ForeignStore(f"{layout.root}: expected {wanted}, the store was made with {found}")


def with_engine(geometry: Geometry, engine: Engine) -> Geometry:
    """Return a geometry with the queues in an engine."""
    return replace(geometry, queue=replace(geometry.queue, engine=engine))


def keep(disk: Disk, layout: StoreLayout, geometry: Geometry) -> None:
    """Write the geometry file, if it is not there."""
    if not disk.exists(layout.geometry):
        save(disk, layout, geometry)


def save(disk: Disk, layout: StoreLayout, geometry: Geometry) -> None:
    """Write the geometry file."""
    replace_file(disk, layout.geometry, encode(geometry))


def is_certain(disk: Disk, layout: StoreLayout) -> bool:
    """Say whether the length of log files is known: it is noted, or more than one file tells it."""
    if disk.exists(layout.geometry):
        return True
    return sum(map(_is_offset, disk.list(layout.commitlog))) > 1


def _is_offset(name: str) -> bool:
    return is_segment_name(name, 1)


def _inferred(disk: Disk, layout: StoreLayout, wanted: Geometry | None) -> Geometry:
    otherwise = wanted or Geometry()
    log = None if wanted is not None else _log_bytes(disk, layout.commitlog)
    return Geometry(
        log=LogGeometry(segment_bytes=log) if log else otherwise.log,
        queue=_inferred_queue(disk, layout, otherwise.queue),
        index=_inferred_index(disk, layout.index, otherwise.index),
        compaction=_inferred_compaction(disk, layout, otherwise.compaction),
    )


def _log_bytes(disk: Disk, folder: str) -> int | None:
    """Tell the length of log files from where they begin, or from the longest: one may be short."""
    starts = [int(name) for name in disk.list(folder) if _is_offset(name)]
    longest = max((disk.size(f"{folder}/{start:0{NAME_DIGITS}d}") for start in starts), default=0)
    step = min((after - before for before, after in pairwise(starts)), default=0)
    fits = step >= longest and all(start % step == 0 for start in starts) if step else False
    return (step if fits else longest) or None


def _inferred_queue(disk: Disk, layout: StoreLayout, otherwise: QueueGeometry) -> QueueGeometry:
    def found(folder: str, unit_bytes: int, default: int) -> int:
        sizes = Counter(size for size in _queue_sizes(disk, folder) if size % unit_bytes == 0)
        return sizes.most_common(1)[0][0] // unit_bytes if sizes else default

    return QueueGeometry(
        engine=otherwise.engine,
        units_per_file=found(layout.consumequeue, QUEUE_UNIT_BYTES, otherwise.units_per_file),
        batch_units_per_file=found(
            layout.batch_queues, BATCH_UNIT_BYTES, otherwise.batch_units_per_file
        ),
        extension_bytes=found(layout.extension, 1, otherwise.extension_bytes),
    )


def _inferred_compaction(
    disk: Disk, layout: StoreLayout, otherwise: CompactionGeometry
) -> CompactionGeometry:
    """Tell the lengths of the files of compaction topics from the files."""
    logs = Counter(_queue_sizes(disk, layout.compaction_log)).most_common(1)
    units = Counter(_queue_sizes(disk, layout.compaction_units)).most_common(1)
    if not logs or not units:
        return otherwise
    log, unit = logs[0][0], units[0][0]
    for known in (
        *(otherwise, CompactionGeometry()),
        CompactionGeometry(log_bytes=log + 1, units_bytes=unit),
    ):
        if (known.log_file_bytes, known.units_file_bytes) == (log, unit):
            return known
    return otherwise


def _queue_sizes(disk: Disk, folder: str) -> Iterator[int]:
    """Give the sizes of some queue files in a folder of topics; empty ones say nothing."""
    left = QUEUES_SAMPLED
    for topic in disk.list(folder):
        for queue_id in (
            disk.list(f"{folder}/{topic}") if disk.is_folder(f"{folder}/{topic}") else ()
        ):
            path = f"{folder}/{topic}/{queue_id}"
            for name in filter(_is_offset, disk.list(path)):
                if size := disk.size(f"{path}/{name}"):
                    yield size
            left -= 1
            if not left:
                return


def _inferred_index(disk: Disk, folder: str, otherwise: IndexGeometry) -> IndexGeometry:
    """Tell slots and units from index files: every size has several solutions, content decides.

    The first file that has units, and under whose geometry they agree with its slots, is believed;
    without any, one that is blank, which fits any geometry of its size.
    """
    blank: IndexGeometry | None = None
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if not name.isdigit() or disk.is_folder(path):
            continue
        size = disk.size(path)
        if size in (otherwise.file_bytes, IndexGeometry().file_bytes):
            return otherwise if size == otherwise.file_bytes else IndexGeometry()
        found = _fitting(_content(disk, path, size))
        if found is not None and found.has_units:
            return found.geometry
        if found is not None and blank is None:
            blank = found.geometry
    return blank or otherwise


def _content(disk: Disk, path: str, size: int) -> bytes:
    """Return the content of a file; nothing if the disk does not give it."""
    file = disk.open(path)
    try:
        return read_written(file, 0, size)
    except DiskFailed:
        return b""
    finally:
        file.close()


class _Fitting(NamedTuple):
    """A geometry under which slots and units of a file agree, and whether it has any units."""

    geometry: IndexGeometry
    has_units: bool


def _fitting(data: bytes) -> _Fitting | None:
    """Return the geometry under which slots and units of an index file agree."""
    if len(data) < HEADER_BYTES:
        return None
    *_, slot_count, unit_count = HEADER.unpack_from(data)
    if slot_count < 0 or unit_count < 0:
        return None
    body = len(data) - HEADER_BYTES
    first = body % UNIT_BYTES // SLOT_BYTES or UNIT_BYTES // SLOT_BYTES
    for slots in range(first, body // SLOT_BYTES, UNIT_BYTES // SLOT_BYTES):
        units, rest = divmod(body - SLOT_BYTES * slots, UNIT_BYTES)
        if rest or units < max(2, unit_count):
            continue
        if unit_count <= 1:
            return _Fitting(IndexGeometry(slots=slots, units=units), has_units=False)
        if _last_fits(data, slots, unit_count):
            heads = struct.unpack_from(f">{slots}i", data, HEADER_BYTES)
            if sum(map(bool, heads)) == slot_count and _units_fit(data, heads, unit_count):
                return _Fitting(IndexGeometry(slots=slots, units=units), has_units=True)
    return None


def _last_fits(data: bytes, slots: int, unit_count: int) -> bool:
    """Say whether the unit that was put last is the one that its slot leads to; a quick look."""
    base = HEADER_BYTES + SLOT_BYTES * slots
    key_hash, *_ = INDEX_UNIT.unpack_from(data, base + UNIT_BYTES * (unit_count - 1))
    slot = key_hash % slots
    return struct.unpack_from(">i", data, HEADER_BYTES + SLOT_BYTES * slot) == (unit_count - 1,)


def _units_fit(data: bytes, heads: tuple[int, ...], unit_count: int) -> bool:
    """Say whether each slot's chain leads through units that belong to it."""
    base = HEADER_BYTES + SLOT_BYTES * len(heads)
    for slot, head in enumerate(heads):
        if not 0 <= head < unit_count:
            return False
        if head:
            key_hash, _phys, _seconds, before = INDEX_UNIT.unpack_from(
                data, base + UNIT_BYTES * head
            )
            if key_hash % len(heads) != slot or not 0 <= before < head:
                return False
    return True
