"""A query by key gives what the log still has, oldest first."""

import pytest
from tests.stores import HOST, ROOT, filled, filled_parts, maintain, new

from sprocket.base.disk import steps
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import ids
from sprocket.rocketmq.store.read import key_search
from sprocket.rocketmq.store.store import Store


def test_the_newest_are_given_in_ascending_order() -> None:
    """As many as asked for, 64 if nothing is said."""
    _, store = filled(0)
    offsets = [store.append(new(body=b"%d" % n, keys=("k",))).physical_offset for n in range(70)]
    store.write()
    store.sync()
    assert store.find("topic", "k").offsets == offsets[-64:]
    assert store.find("topic", "k", max_count=1000).offsets == offsets
    found = store.find("topic", "k", max_count=3)
    assert found.offsets == offsets[-3:]
    assert found.index_end == offsets[-1]
    assert found.index_updated_at_ms == 1_700_000_000_000
    assert store.find("other", "k").offsets == []


def test_times_limit_it() -> None:
    """Both ends belong to the range."""
    _, store = filled(20)
    at_ms = 1_700_000_000_000
    assert len(store.find("topic", "N5", begin_ms=at_ms + 5000).offsets) == 1
    assert len(store.find("topic", "N5", begin_ms=at_ms + 6001).offsets) == 0
    assert len(store.find("topic", "N5", end_ms=at_ms + 5000).offsets) == 1
    assert len(store.find("topic", "N5", end_ms=at_ms + 4999).offsets) == 0


def test_times_limit_what_is_in_no_index_too() -> None:
    """Both ends belong to the range."""
    disk, store = filled(3, index_messages=False)
    store.close()
    reader = Store.open_read_only(disk, ROOT)
    at_ms = 1_700_000_000_000 + 1000
    for begin_ms, end_ms, count in (
        (at_ms, at_ms, 1),
        (at_ms + 1, at_ms + 1000, 0),
        (at_ms - 1000, at_ms - 1, 0),
    ):
        assert len(reader.find("topic", "N1", begin_ms=begin_ms, end_ms=end_ms).offsets) == count
    reader.close()


def test_what_was_cleaned_away_is_not_given() -> None:
    """The index may outlive the log's oldest file."""
    _, store, opened = filled_parts(40)
    assert len(store.find("topic", "N0").offsets) == 1
    steps.run(opened.parts.files.drop_before_steps(4096))
    assert store.find("topic", "N0").offsets == []


def test_without_an_index_nothing_is_found() -> None:
    """And nothing said about it."""
    _, store = filled(5, index_messages=False)
    assert store.find("topic", "N0") == key_search.FindResult([], 0, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("flush_index", [False, True])
@pytest.mark.parametrize("count", [1, 9, 40])
@pytest.mark.parametrize("behind", [0, 3])
def test_who_reads_the_folder_of_a_live_broker_finds_what_it_finds(
    flush_index: bool, count: int, behind: int
) -> None:
    """Slots and header of the index lie in its memory, and the last records in no index."""
    disk, store = filled(count)
    if flush_index:
        maintain(store)
    store.dispatch_index()
    for number in range(behind):
        store.append(new(body=b"late", keys=("late", f"N{number}")))
    store.write()
    store.sync()
    reader = Store.open_read_only(disk, ROOT)
    wanted = {f"N{number}": 1 + (number < behind) for number in range(count)} | {"late": behind}
    found = {key: reader.find("topic", key).offsets for key in wanted}
    assert {key: len(offsets) for key, offsets in found.items()} == wanted
    assert found == {key: store.find("topic", key).offsets for key in wanted}
    assert reader.find("topic", "late", max_count=1).offsets == found["late"][-1:]
    reader.close()


def test_who_reads_a_folder_without_an_index_looks_through_the_log() -> None:
    """It was never kept, or is gone: to say that there is nothing somebody has to look."""
    disk, store = filled(5, index_messages=False)
    store.close()
    reader = Store.open_read_only(disk, ROOT)
    assert len(reader.find("topic", "N0").offsets) == 1
    assert reader.find("other", "N0").offsets == []


def test_an_id_leads_to_its_record() -> None:
    """Of this store only; offsets where no record begins, and other hosts, give nothing."""
    _, store = filled(3)
    for offset, stored in store.records():
        assert store.find_by_id(ids.offset_message_id(HOST, offset)) == stored
    other = ids.host_bytes("192.0.2.1", 10911)
    for host, place in ((other, 0), (HOST, 1), (HOST, store.end), (HOST, -1), (HOST, 1 << 40)):
        assert store.find_by_id(ids.offset_message_id(host, place)) is None
    with pytest.raises(WireError, match="neither 32 nor 56"):
        store.find_by_id("00")
