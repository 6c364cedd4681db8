"""Small stores on simulated disks, for the tests of the store and of what stands on it."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, SegmentFiles, steps
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.message import NewBatch, NewRecord
from sprocket.rocketmq.settings import RetentionSettings, StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.opening import Opened
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

ROOT = "/store"
SMALL = Geometry.small()
HOST = bytes([127, 0, 0, 1, 0, 0, 48, 57])


def new(
    topic: str = "topic",
    queue_id: int = 0,
    body: bytes = b"body",
    *,
    name: str = "",
    keys: tuple[str, ...] = (),
    **fields: Any,
) -> NewRecord:
    """Return a record on its way into a log; `name` is its unique key."""
    pairs = {"TAGS": "T"}
    if name:
        pairs["UNIQ_KEY"] = name
    if keys:
        pairs["KEYS"] = " ".join(keys)
    return NewRecord(
        topic=topic,
        queue_id=queue_id,
        body=body,
        properties=properties.encode(pairs),
        born_host=HOST,
        store_host=HOST,
        **fields,
    )


def maintain(store: Store) -> None:
    """Do `maintain_steps` here and now."""
    steps.run(store.maintain_steps())


def clean(
    store: Store,
    settings: RetentionSettings,
    reserve_hours: Mapping[str, int] | None = None,
    *,
    at_once: bool = False,
) -> int:
    """Do `clean_steps` here and now; return where the log begins then."""
    steps.run(store.clean_steps(settings, reserve_hours or {}, at_once=at_once))
    return store.first


def batch_of(records: Sequence[NewRecord]) -> NewBatch:
    """Return records that differ in flag, body and properties only as a batch.

    A pair that ends all of them is added to each, as the broker does with its own.
    """
    first = records[0]
    texts = [record.properties for record in records]
    end = texts[0][texts[0].rfind(b"\x02", 0, -1) + 1 :]
    if not all(text.endswith(end) for text in texts):
        end = b""
    batch = NewBatch(
        structs.replace(first, flag=0, body=b"", properties=b""),
        [one.flag for one in records],
        [bytes(one.body) for one in records],
        [text[: len(text) - len(end)] for text in texts],
        end,
    )
    assert batch.records() == list(records)
    return batch


def open_store(disk: Disk, *, clock: Clock | None = None, **settings: Any) -> Store:
    """Open the small store on a disk."""
    return Store(open_parts(disk, clock=clock, **settings))


def open_parts(disk: Disk, *, clock: Clock | None = None, **settings: Any) -> Opened:
    """Return the parts of the small store on a disk, of which a `Store` is made."""
    settings = {"fill_ahead_bytes": 0, "message_bytes_max": 2048, **settings}
    return opening.to_write(disk, ROOT, StoreSettings(**settings), clock or FakeClock(), SMALL)


def filled(count: int = 20, **settings: Any) -> tuple[SimulatedDisk, Store]:
    """Return a store with messages in two queues, written, synced and dispatched."""
    disk = SimulatedDisk()
    clock = FakeClock()
    return disk, fill(open_store(disk, clock=clock, **settings), clock, count)


def filled_parts(count: int = 20, **settings: Any) -> tuple[SimulatedDisk, Store, Opened]:
    """Return what `filled` does, and what the store was made of."""
    disk = SimulatedDisk()
    clock = FakeClock()
    opened = open_parts(disk, clock=clock, **settings)
    return disk, fill(Store(opened), clock, count), opened


def fill(store: Store, clock: FakeClock, count: int) -> Store:
    """Put messages into two queues, a second apart; write, sync and dispatch them."""
    for number in range(count):
        store.append(new("topic", number % 2, b"body %d" % number * 10, name=f"N{number}"))
        clock.advance(1000)
        store.write()
    store.sync()
    store.dispatch()
    store.dispatch_index()
    return store


def killed(opened: Opened) -> None:
    """Let go what a process has no more when it has died; RocksDB is opened once by each."""
    assert opened.lock is not None
    opened.parts.queues.close()
    opened.lock.release()


def log_files(disk: Disk, folder: str = f"{ROOT}/commitlog") -> SegmentFiles:
    """Return the files of a log, as somebody sees them who has only the disk."""
    files = SegmentFiles(disk, folder, SMALL.log.segment_bytes)
    files.load()
    return files


def overwrite(files: SegmentFiles, place: int, data: bytes) -> None:
    """Change bytes of a log, as a bad disk would."""
    segment = files.segment(place)
    segment.file.write([data], place - segment.start)


def end_with_a_blank(files: SegmentFiles, end: int) -> int:
    """End the file in which a log ends as a record does that has no room; return where it ends."""
    segment = files.segment(end)
    overwrite(files, end, b"".join(record.finish([record.blank(segment.end - end)])))
    return segment.end
