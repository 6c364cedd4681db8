"""Progress that was noted is not ahead of a log that was cut."""

from contextlib import closing

import msgspec
import pytest
from tests import compacted
from tests.stores import HOST, ROOT, new, open_store

from sprocket.base.disk import read_file, replace_file
from sprocket.base.place import Place
from sprocket.rocketmq.broker.delay import DelayProgress
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.internal import (
    HALF_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_GROUP,
)
from sprocket.rocketmq.model.message import TRANSACTION_COMMIT, NewRecord
from sprocket.rocketmq.store.cutting import log_cut
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import TimerCheckpoint, timer_checkpoint
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

LAYOUT = StoreLayout(ROOT)
LEVEL = 3


def place(disk: SimulatedDisk) -> Place:
    """Return where the store lies."""
    return Place(disk, ROOT, FakeClock())


def put(store: Store, record: NewRecord) -> int:
    """Store a record; return its place."""
    found = store.append(record)
    store.write()
    store.sync()
    store.dispatch()
    return found.physical_offset


def delayed(key: str, topic: str, queue_id: int) -> NewRecord:
    """Return a message with a delay level, waiting or delivered."""
    pairs = {"UNIQ_KEY": key, "DELAY": str(LEVEL), "REAL_TOPIC": "T", "REAL_QID": "0"}
    return NewRecord(topic, queue_id, b"x", properties.encode(pairs), HOST, HOST)


def delays(disk: SimulatedDisk, store: Store) -> int:
    """Return where the level goes on, as the broker finds it."""
    with closing(DelayProgress(place(disk), store).table.journal):
        return DelayProgress(place(disk), store).get(LEVEL)


@pytest.mark.parametrize(("cut_before", "left"), [("c0", 0), ("c1", 1), ("c2", 2), ("end", 3)])
def test_delayed_messages_wait_again(cut_before: str, left: int) -> None:
    """Of which the copies came off; file and backup of the progress say so."""
    disk = SimulatedDisk()
    store = open_store(disk)
    places = {}
    for number in range(3):
        put(store, delayed(f"K{number}", SCHEDULE_TOPIC, LEVEL - 1))
    progress = DelayProgress(place(disk), store)
    for number in range(3):
        places[f"c{number}"] = put(store, delayed(f"K{number}", "T", 0))
        progress.note(LEVEL, number + 1)
    places["end"] = store.end
    progress.table.close()
    store.close()
    log_cut.cut(disk, ROOT, places[cut_before])
    with closing(open_store(disk)) as store:
        assert delays(disk, store) == left
        replace_file(disk, LAYOUT.delay_offsets, b"{")
        assert delays(disk, store) == left


def test_a_level_is_not_ahead_of_its_queue() -> None:
    """What waits next would never be delivered; a line of the journal does not count either."""
    disk = SimulatedDisk()
    store = open_store(disk)
    places = [put(store, delayed(f"K{number}", SCHEDULE_TOPIC, LEVEL - 1)) for number in range(3)]
    put(store, new("T"))
    progress = DelayProgress(place(disk), store)
    progress.note(LEVEL, 2)
    progress.table.flush()
    progress.note(LEVEL, 3)
    progress.table.journal.close()
    store.close()
    log_cut.cut(disk, ROOT, places[1])
    with closing(open_store(disk)) as store:
        assert delays(disk, store) == 1


@pytest.mark.parametrize(
    "last", [new(HALF_TOPIC), new(OP_TOPIC), new("T", sys_flag=TRANSACTION_COMMIT)]
)
def test_transactions_are_looked_for_anew(last: NewRecord) -> None:
    """If a half, or the end of one, came off: the log that is left says what has ended."""
    disk = SimulatedDisk()
    store = open_store(disk)
    put(store, new(HALF_TOPIC))
    put(store, new(OP_TOPIC))
    at = put(store, new("T"))
    put(store, last)
    offsets = ConsumerOffsets(place(disk))
    for topic in (HALF_TOPIC, OP_TOPIC, "T"):
        offsets.commit(TRANSACTION_GROUP, topic, 0, 1)
    offsets.table.close()
    store.close()
    log_cut.cut(disk, ROOT, at)
    with closing(open_store(disk)):
        offsets = ConsumerOffsets(place(disk))
        found = [offsets.get(TRANSACTION_GROUP, topic, 0) for topic in (HALF_TOPIC, OP_TOPIC, "T")]
        assert found == [0, 0, 1]


def test_what_came_off_without_them_leaves_progress_as_it_is() -> None:
    """Looking for it anew costs a look at the whole log."""
    disk = SimulatedDisk()
    store = open_store(disk)
    put(store, new(HALF_TOPIC))
    at = put(store, new("T"))
    offsets = ConsumerOffsets(place(disk))
    offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, 1)
    offsets.table.close()
    timer_checkpoint.save(disk, LAYOUT.timer_checkpoint, TimerCheckpoint(read_at_ms=7))
    store.close()
    log_cut.cut(disk, ROOT, at)
    with closing(open_store(disk)):
        assert ConsumerOffsets(place(disk)).get(TRANSACTION_GROUP, HALF_TOPIC, 0) == 1
        assert timer_checkpoint.load(disk, LAYOUT.timer_checkpoint).read_at_ms == 7


@pytest.mark.parametrize("last", [new(TIMER_TOPIC), new("T", prepared_transaction_offset=5)])
def test_timed_messages_are_looked_for_anew(last: NewRecord) -> None:
    """If one came off, or the copy of one."""
    disk = SimulatedDisk()
    store = open_store(disk)
    put(store, new("T"))
    at = put(store, last)
    timer_checkpoint.save(disk, LAYOUT.timer_checkpoint, TimerCheckpoint(read_at_ms=7))
    store.close()
    log_cut.cut(disk, ROOT, at)
    with closing(open_store(disk)):
        assert timer_checkpoint.load(disk, LAYOUT.timer_checkpoint) == TimerCheckpoint()


def test_offsets_of_groups_end_with_their_queues() -> None:
    """The broker sets them back, as after any loss."""
    disk = SimulatedDisk()
    store = open_store(disk)
    places = [put(store, new("T", body=b"%d" % number)) for number in range(4)]
    offsets = ConsumerOffsets(place(disk))
    offsets.commit("g", "T", 0, 4)
    offsets.table.close()
    store.close()
    log_cut.cut(disk, ROOT, places[2])
    with closing(open_store(disk)) as store:
        offsets = ConsumerOffsets(place(disk))
        offsets.set_back(store)
        assert offsets.get("g", "T", 0) == 2
        assert store.report.offsets_set_back == {"T@g": {0: 4}}


def compacted_store(count: int) -> tuple[SimulatedDisk, Store]:
    """Return a store with a compaction topic that has followed some messages of four keys."""
    disk = SimulatedDisk()
    store = compacted.opened(disk)
    for number in range(count):
        compacted.put(store, f"k{number % 4}", b"%d" % number * 20)
    compacted.follow(store)
    return disk, store


@pytest.mark.parametrize("left", [0, 1, 7, 8, 9, 20, 29])
@pytest.mark.parametrize("round_too", [False, True])
def test_what_compaction_kept_ends_there_too(left: int, round_too: bool) -> None:
    """A value that one of these replaced is back, as the log has it."""
    disk, store = compacted_store(30)
    if round_too:
        compacted.compact(store)
    places = [at for at, _ in store.records()]
    store.close()
    log_cut.cut(disk, ROOT, places[left])
    with closing(compacted.opened(disk)) as store:
        compacted.follow(store)
        assert [offset for offset, _, _ in compacted.view(store)] == list(range(left))
        assert compacted.put(store, "new", b"new") == left


@pytest.mark.parametrize("left", [26, 28])
def test_what_the_log_has_not_any_more_is_kept(left: int) -> None:
    """Only what came off goes from what compaction has kept."""
    disk, store = compacted_store(30)
    places = [at for at, _ in store.records()]
    compacted.clean_log(store)
    first = store.first
    assert 0 < first < places[left]
    before = compacted.view(store)
    assert before[0][0] == 0
    store.close()
    log_cut.cut(disk, ROOT, places[left])
    with closing(compacted.opened(disk)) as store:
        assert compacted.view(store) == [one for one in before if one[0] < left]
        assert compacted.put(store, "k1", b"new") == left
        compacted.follow(store)
        assert compacted.view(store)[-1] == (left, "k1", b"new")
    with closing(compacted.opened(disk)) as store:
        assert compacted.view(store)[-1] == (left, "k1", b"new")


def test_the_note_says_what_it_is() -> None:
    """For an operator who finds it."""
    disk = SimulatedDisk()
    store = open_store(disk)
    put(store, new("T"))
    at = put(store, new("T"))
    store.close()
    done = log_cut.cut(disk, ROOT, at)
    said = msgspec.json.decode(read_file(disk, f"{LAYOUT.cuts}/{done.folder}/cut.json"))
    assert said["at"] == at
    assert said["records"] == 1
