"""A store with a compaction topic, for the tests of compaction and of what stands on it."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from tests.stores import ROOT, new, open_store

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, Steps, replace_file, steps
from sprocket.base.errors import StoreError
from sprocket.rocketmq.codec.config import tables
from sprocket.rocketmq.codec.record import keyed, record
from sprocket.rocketmq.model.topic import CLEANUP_POLICY, COMPACTION, TopicConfig
from sprocket.rocketmq.settings import RetentionSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.store import Store

TOPIC = "kept"
LAYOUT = StoreLayout(ROOT)
KEYS_BYTES = 1 << 20
CLEAN = RetentionSettings(keep_hours=0)
"""Deletes every file of the log but the last, as far as that is safe."""

View = list[tuple[int, str, bytes]]
"""Queue offset, key and body of each message, as a consumer gets them."""


def write_topics(disk: Disk, *names: str) -> None:
    """Write a table of topics in which some are compacted."""
    topics = {
        name: TopicConfig(name=name, attributes={CLEANUP_POLICY: COMPACTION}) for name in names
    }
    disk.make_folder(LAYOUT.config)
    content = {tables.TOPICS.member: topics, "dataVersion": {}}
    replace_file(disk, LAYOUT.topics, msgspec.json.encode(content))


def opened(disk: Disk, *, clock: Clock | None = None, **settings: Any) -> Store:
    """Open the small store on a disk, with the topic."""
    if not disk.exists(LAYOUT.topics):
        write_topics(disk, TOPIC)
    return open_store(disk, clock=clock, **settings)


def put(store: Store, key: str, body: bytes, queue_id: int = 0, **fields: Any) -> int:
    """Store a message and have it dispatched; return its queue offset."""
    keys = (key,) if key else ()
    appended = store.append(new(TOPIC, queue_id, body, keys=keys, **fields))
    store.write()
    store.sync()
    store.dispatch()
    return appended.queue_offset


def put_all(store: Store, pairs: Mapping[str, bytes] | list[tuple[str, bytes]]) -> None:
    """Store messages, one after the other."""
    for key, body in pairs.items() if isinstance(pairs, Mapping) else pairs:
        put(store, key, body)


def follow(store: Store) -> None:
    """Have all copied, as happens every second."""
    steps.run(store.maintain_steps())


def compact(store: Store, keys_bytes: int = KEYS_BYTES) -> None:
    """Do a round here and now."""
    steps.run(store.compact_steps(keys_bytes))


def clean_log(store: Store) -> None:
    """Delete what may be deleted of the log."""
    steps.run(store.clean_steps(CLEAN, at_once=True))


def view(store: Store, queue_id: int = 0, offset: int = 0, **options: Any) -> View:
    """Return what a consumer gets from an offset on."""
    found: View = []
    while True:
        got = store.get_messages(TOPIC, queue_id, offset, **options)
        if got.status in (
            GetStatus.OFFSET_OVERFLOW_ONE,
            GetStatus.NO_MATCHED_LOGIC_QUEUE,
            GetStatus.NO_MESSAGE_IN_QUEUE,
        ):
            return found
        assert got.status in (
            GetStatus.FOUND,
            GetStatus.NO_MATCHED_MESSAGE,
            GetStatus.MESSAGE_WAS_REMOVING,
            GetStatus.OFFSET_FOUND_NULL,
        ), got.status
        assert got.next_offset > offset, got
        for stored in got.records:
            message = record.decode(stored, check_tail=True)
            found.append((message.queue_offset, keyed.read(stored).key, message.stored_body))
        offset = got.next_offset


def table(found: View) -> dict[str, bytes]:
    """Return the last value of each key; deleted ones are left out."""
    values = {key: body for _, key, body in found}
    return {key: body for key, body in values.items() if body}


def stepwise(work: Steps) -> Iterator[None]:
    """Do work in steps, one for each that is asked for; what a step raises goes on in it."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = work.send(result) if error is None else work.throw(error)
        except StopIteration:
            return
        result = error = None
        try:
            result = call()
        except StoreError as raised:
            error = raised
        yield
