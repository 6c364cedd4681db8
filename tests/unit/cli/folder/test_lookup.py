"""Finding messages in a store, and telling of damage."""

import pytest
from tests.stores import filled, log_files, overwrite

from sprocket.base.errors import SettingsError
from sprocket.cli.folder import lookup
from sprocket.cli.folder.lookup import Damaged, NothingFound
from sprocket.rocketmq.codec.record import ids, properties, record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.log import Damage
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


@pytest.mark.parametrize(
    ("queue", "offset", "said"), [(0, 3, "holds 0 to 2"), (7, 0, "no queue 7")]
)
def test_places_that_are_not_there(store: Store, queue: int, offset: int, said: str) -> None:
    """The error says what there is."""
    with pytest.raises(NothingFound, match=said):
        lookup.queued(store, "t", queue, offset)


def test_check_knows_a_blank_from_damage() -> None:
    """Both reach to the end of a file; only one of them was written there on purpose."""
    disk, store = filled(60)
    found: list[Damage] = []
    places = [offset for offset, _ in store.records(damage=found)]
    lookup.require_sound(found, 0)
    end = store.geometry.log.segment_bytes
    last = max(offset for offset in places if offset < end)
    overwrite(log_files(disk), last, bytes(end - last))
    assert len(list(store.records(damage=found))) == len(places) - 1
    with pytest.raises(Damaged, match=f"from {last} to {end}"):
        lookup.require_sound(found, 0)


def test_check_counts_bodies_that_do_not_fit() -> None:
    """They were read all the same."""
    with pytest.raises(Damaged, match="1 messages"):
        lookup.require_sound([], 1)
