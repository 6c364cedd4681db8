"""Small stores on simulated disks, for the tests of the store and of what stands on it."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.message import NewBatch, NewRecord
from sprocket.rocketmq.settings import Geometry, StoreSettings
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
    settings = {"fill_ahead_bytes": 0, "message_bytes_max": 2048, **settings}
    return Store.open(disk, ROOT, StoreSettings(**settings), clock or FakeClock(), SMALL)


def filled(count: int = 20, **settings: Any) -> tuple[SimulatedDisk, Store]:
    """Return a store with messages in two queues, written, synced and dispatched."""
    disk = SimulatedDisk()
    clock = FakeClock()
    store = open_store(disk, clock=clock, **settings)
    for number in range(count):
        store.append(new("topic", number % 2, b"body %d" % number * 10, name=f"N{number}"))
        clock.advance(1000)
        store.write()
    store.sync()
    store.dispatch()
    store.dispatch_index()
    return disk, store


def killed(disk: SimulatedDisk) -> SimulatedDisk:
    """Return the disk after the process died."""
    return disk.kill()
