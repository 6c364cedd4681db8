"""The geometry of a store folder: read from its own file, or told from the sizes of its files.

A store that Sprocket made says its geometry in `config/sprocket.json`. RocketMQ keeps it in the
broker's settings only, so there it is inferred.
"""

import struct
from dataclasses import replace

import msgspec

from sprocket.base.disk import Disk
from sprocket.base.errors import FileMissing, ForeignStore
from sprocket.base.files import read_file, replace_file
from sprocket.rocketmq.settings import (
    Engine,
    Geometry,
    IndexGeometry,
    LogGeometry,
    QueueGeometry,
)
from sprocket.rocketmq.store.layout import BATCH_UNIT_BYTES, QUEUE_UNIT_BYTES, StoreLayout
from sprocket.rocketmq.store.queues import choice

_HEADER_BYTES = 40
_SLOT_BYTES = 4
_UNIT_BYTES = 20


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
    )


def settle(disk: Disk, layout: StoreLayout, wanted: Geometry | None) -> Geometry:
    """Return the geometry of a store; `wanted`, or the default, if it is yet to be made.

    The engine of the queues is the one that is there, whatever was noted.

    Raises:
        ForeignStore: It differs from `wanted`, or cannot be told from the files.
    """
    try:
        noted = decode(read_file(disk, layout.geometry), layout.geometry)
    except FileMissing:
        # If one is wanted, each part refuses files of another size.
        noted = _inferred(disk, layout) if wanted is None else wanted
    found = with_engine(noted, choice.found(disk, layout) or noted.queue.engine)
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


def _inferred(disk: Disk, layout: StoreLayout) -> Geometry:
    default = Geometry()
    log = _first_size(disk, layout.commitlog)
    return Geometry(
        log=LogGeometry(segment_bytes=log) if log else default.log,
        queue=_inferred_queue(disk, layout, default.queue),
        index=_inferred_index(disk, layout.index) or default.index,
    )


def _inferred_queue(disk: Disk, layout: StoreLayout, default: QueueGeometry) -> QueueGeometry:
    def found(folder: str, unit_bytes: int, otherwise: int) -> int:
        size = _first_queue_size(disk, folder)
        if size is not None and size % unit_bytes:
            raise ForeignStore(f"{folder}: queue files of {size} bytes hold no units")
        return otherwise if size is None else size // unit_bytes

    return QueueGeometry(
        units_per_file=found(layout.consumequeue, QUEUE_UNIT_BYTES, default.units_per_file),
        batch_units_per_file=found(
            layout.batch_queues, BATCH_UNIT_BYTES, default.batch_units_per_file
        ),
        extension_bytes=found(layout.extension, 1, default.extension_bytes),
    )


def _first_queue_size(disk: Disk, folder: str) -> int | None:
    """Return the size of the first queue file in a folder of topics."""
    return next(
        (
            size
            for topic in disk.list(folder)
            if disk.is_folder(f"{folder}/{topic}")
            for queue_id in disk.list(f"{folder}/{topic}")
            if (size := _first_size(disk, f"{folder}/{topic}/{queue_id}"))
        ),
        None,
    )


def _first_size(disk: Disk, folder: str) -> int | None:
    """Return the size of the first file in a folder that is not empty."""
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if name.isdigit() and not disk.is_folder(path) and (size := disk.size(path)):
            return size
    return None


def _inferred_index(disk: Disk, folder: str) -> IndexGeometry | None:
    """Tell slots and units from an index file: every size has several solutions, content decides.

    Raises:
        ForeignStore: None of them fits.
    """
    default = IndexGeometry()
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        size = disk.size(path) if name.isdigit() else 0
        if size == 0:
            continue
        if size == default.file_bytes:
            return default
        file = disk.open(path)
        try:
            data = file.read(0, size)
        finally:
            file.close()
        found = _fitting(data)
        if found is not None:
            return found
        raise ForeignStore(f"{path}: give the geometry, {size} bytes do not tell the index's")
    return None


def _fitting(data: bytes) -> IndexGeometry | None:
    """Return the geometry under which slots and units of an index file agree."""
    if len(data) < _HEADER_BYTES:
        return None
    slot_count, unit_count = struct.unpack_from(">ii", data, 32)
    body = len(data) - _HEADER_BYTES
    best = None
    for slots in range(1, body // _SLOT_BYTES):
        units, rest = divmod(body - _SLOT_BYTES * slots, _UNIT_BYTES)
        if rest or units < max(2, unit_count):
            continue
        if unit_count <= 1:
            return IndexGeometry(slots=slots, units=units)  # empty: any will do
        heads = struct.unpack_from(f">{slots}i", data, _HEADER_BYTES)
        if sum(map(bool, heads)) == slot_count and _units_fit(data, heads, unit_count):
            best = IndexGeometry(slots=slots, units=units)
            break
    return best


def _units_fit(data: bytes, heads: tuple[int, ...], unit_count: int) -> bool:
    """Say whether each slot's chain leads through units that belong to it."""
    base = _HEADER_BYTES + _SLOT_BYTES * len(heads)
    for slot, head in enumerate(heads):
        if not 0 <= head < unit_count:
            return False
        if head:
            key_hash, _phys, _seconds, before = struct.unpack_from(
                ">iqii", data, base + _UNIT_BYTES * head
            )
            if key_hash % len(heads) != slot or not 0 <= before < head:
                return False
    return True
