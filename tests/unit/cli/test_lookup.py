"""Finding messages in a store, and telling of damage."""

import pytest

from sprocket.base.errors import SettingsError
from sprocket.cli import lookup
from sprocket.cli.lookup import Check, Damaged, NothingFound
from sprocket.rocketmq.codec import ids, properties, record
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import Geometry, StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

HOST = ids.host_bytes("127.0.0.1", 10911)
START_MS = 1_700_000_000_000


@pytest.fixture
def store() -> Store:
    """Six messages in two queues, one a second; keys k0, k1, k2 twice each."""
    clock = FakeClock(START_MS)
    opened = Store.open(
        SimulatedDisk(), "/store", StoreSettings.small(), clock, geometry=Geometry.small()
    )
    for number in range(6):
        own = {"UNIQ_KEY": f"U{number}", "KEYS": f"k{number % 3}"}
        opened.append(
            NewRecord(
                topic="t",
                queue_id=number % 2,
                body=b"%d" % number,
                properties=properties.encode(own),
                born_host=HOST,
                store_host=HOST,
                keys=(own["UNIQ_KEY"], own["KEYS"]),
            )
        )
        opened.write()
        opened.sync()
        clock.advance(1000)
    return opened


def bodies(records: list[memoryview]) -> list[bytes]:
    """What the records say."""
    return [record.decode(data).body for data in records]


def test_by_key(store: Store) -> None:
    """Keys and unique keys, of one topic."""
    assert bodies(lookup.by_key(store, "t", "k1", 64)) == [b"1", b"4"]
    assert bodies(lookup.by_key(store, "t", "k1", 1)) == [b"4"]
    assert bodies(lookup.by_key(store, "t", "U5", 64)) == [b"5"]
    assert lookup.by_key(store, "other", "k1", 64) == []


def test_by_id(store: Store) -> None:
    """An offset message id needs no topic, a unique key does."""
    wanted = record.decode(lookup.queued(store, "t", 1, 2))
    assert bodies(lookup.by_id(store, wanted.offset_message_id, None)) == [b"5"]
    assert bodies(lookup.by_id(store, wanted.offset_message_id.lower(), None)) == [b"5"]
    assert bodies(lookup.by_id(store, "U5", "t")) == [b"5"]
    with pytest.raises(SettingsError, match="needs a --topic"):
        lookup.by_id(store, "U5", None)


def test_by_time(store: Store) -> None:
    """The first message of each queue at that time or after it."""
    assert bodies(lookup.by_time(store, "t", START_MS)) == [b"0", b"1"]
    assert bodies(lookup.by_time(store, "t", START_MS + 2001)) == [b"4", b"3"]
    assert bodies(lookup.by_time(store, "t", START_MS + 5000)) == [b"5"]
    assert lookup.by_time(store, "t", START_MS + 5001) == []


def test_queue_row(store: Store) -> None:
    """Offsets, count and the time of the last message."""
    assert list(lookup.queue_names(store)) == [("t", 0), ("t", 1)]
    assert lookup.queue_row(store, "t", 1) == {
        "topic": "t",
        "queue_id": 1,
        "min_offset": 0,
        "max_offset": 3,
        "messages": 3,
        "last_stored_at_ms": START_MS + 5000,
    }


@pytest.mark.parametrize(
    ("queue", "offset", "said"), [(0, 3, "holds 0 to 2"), (7, 0, "no queue 7")]
)
def test_places_that_are_not_there(store: Store, queue: int, offset: int, said: str) -> None:
    """The error says what there is."""
    with pytest.raises(NothingFound, match=said):
        lookup.queued(store, "t", queue, offset)


def test_check_knows_a_blank_from_damage(store: Store) -> None:
    """A gap up to the beginning of a file is that file's end; any other is damage."""
    file = store.geometry.log.segment_bytes
    sound = Check(store)
    sound.take(0, 100, crc_ok=True)
    sound.take(100, 50, crc_ok=True)
    sound.take(file, 50, crc_ok=True)
    sound.verdict()
    sound.take(file + 60, 50, crc_ok=True)
    with pytest.raises(Damaged, match=f"from {file + 50} to {file + 60}"):
        sound.verdict()
    wrong = Check(store)
    wrong.take(0, 100, crc_ok=False)
    with pytest.raises(Damaged, match="1 messages"):
        wrong.verdict()
