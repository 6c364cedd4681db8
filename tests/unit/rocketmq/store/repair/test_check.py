"""A check is silent about what is whole, and names what is not; the log alone is in `check_log`."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import repetition
from tests.recorded import CASES, Recorded
from tests.stores import ROOT, SMALL, filled, maintain, new, open_store

from sprocket.base.disk import RealDisk, replace_file
from sprocket.base.errors import ForeignStore
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import log_scanner
from sprocket.rocketmq.store.queue import Database
from sprocket.rocketmq.store.queue.rocks_keys import UNITS, VALUE
from sprocket.rocketmq.store.repair import Finding, Rule
from sprocket.rocketmq.store.repair.check import check, is_open
from sprocket.rocketmq.store.repair.store_files import StoredQueues
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import CHANGES, SimulatedDisk

REWRITTEN = "15-rewritten-tail"
ADMIN = {"12a-config-json", "12b-config-rdb-v2"}


def closed(count: int = 60, **settings: object) -> SimulatedDisk:
    """A store of several files of each kind that was stopped."""
    disk, store = filled(count, **settings)
    maintain(store)
    store.close()
    return disk


def findings(disk: SimulatedDisk) -> list[Finding]:
    """What is wrong with it."""
    return list(check(disk, ROOT))


def rules(disk: SimulatedDisk) -> set[Rule]:
    """Which rules are broken."""
    return {finding.rule for finding in findings(disk)}


def write(disk: SimulatedDisk, path: str, position: int, data: bytes) -> None:
    """Change some bytes of a file."""
    disk.open(f"{ROOT}/{path}", write=True).write([data], position)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_recorded_store_is_whole_after_a_clean_stop_or_our_recovery(
    name: str, tmp_path: Path
) -> None:
    """Silent, but for the index that RocketMQ left behind when it truncated its log.

    Some have offsets that an administrator has committed for queues without a message.
    """
    recorded, disk = Recorded(name), RealDisk()
    root = recorded.unpack(tmp_path)

    def found_in() -> list[Finding]:
        found = list(check(disk, root, recorded.geometry))
        return [one for one in found if one.rule is not Rule.OFFSET_BEYOND or name not in ADMIN]

    found = found_in()
    if name == REWRITTEN:
        assert {Rule.INDEX_STRAY, Rule.INDEX_MISSING} == {finding.rule for finding in found}
    elif recorded.stopped_cleanly:
        assert found == []
    settings = StoreSettings(fill_ahead_bytes=0)
    Store.open(disk, root, settings, FakeClock(), recorded.geometry).close()
    assert found_in() == []


def test_queues_in_rocksdb_are_held_against_the_log(tmp_path: Path) -> None:
    """A unit that is not that of its record, and one that is missing, are named."""
    pytest.importorskip("rocksdict")
    disk, root = RealDisk(), Recorded("04a-rocksdb-clean").unpack(tmp_path)
    database = Database(disk, f"{root}/consumequeue", (UNITS,), write=True)
    units = [key for key, _ in database.all(UNITS)]
    batch = database.batch()
    batch.put(units[0], VALUE.pack(5, 6, 7, 8), database.handle(UNITS))
    batch.delete(units[3], database.handle(UNITS))
    database.write(batch)
    database.flush()
    database.close()
    found = {finding.rule for finding in check(disk, root)}
    assert found == {Rule.QUEUE_UNIT, Rule.QUEUE_MISSING}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", repetition.some(["01-basic", "09-index", "10a-crc-tail", REWRITTEN], ["10a-crc-tail"])
)
def test_one_by_one_the_same_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of stores that are whole, and with a byte changed here and there."""
    recorded = Recorded(name)
    disk = recorded.in_memory()
    draw = random.Random(3)
    files = [path for path in disk.contents() if "/commitlog/" in path or "queue/" in path]
    for _ in range(20):
        file = disk.open(draw.choice(files), write=True)
        position = draw.randrange(file.data_end() or 1)
        (byte,) = file.read(position, 1)
        quick = sorted(map(repr, check(disk, ROOT, recorded.geometry)))
        with monkeypatch.context() as patch:
            patch.setattr(log_scanner, "BATCH", 1)
            patch.setattr(log_scanner, "BATCH_MIN", 1)
            assert sorted(map(repr, check(disk, ROOT, recorded.geometry))) == quick
        file.write([bytes([byte ^ 0x10])], position)


@pytest.mark.parametrize("crc_tail", [True, False])
def test_a_store_of_ours_is_whole(crc_tail: bool) -> None:
    """Stopped, or while it is open, when the last things are under way."""
    assert findings(closed(crc_tail=crc_tail)) == []
    disk, store = filled(60, crc_tail=crc_tail)
    maintain(store)
    assert is_open(disk, ROOT)
    assert findings(disk) == []
    disk.remove(f"{ROOT}/abort")
    assert Rule.INDEX_CHAIN in rules(disk)  # its slots are only written by a stop


def test_an_empty_store_is_whole() -> None:
    """There is nothing that could be wrong."""
    disk = SimulatedDisk()
    open_store(disk).close()
    assert findings(disk) == []


@pytest.mark.parametrize("key", [("..", 0), ("a/b", 0), ("", 0), ("topic", -1)])
def test_a_name_that_leads_elsewhere_is_no_queue(key: tuple[str, int]) -> None:
    """As a damaged record may have one: there is nothing of it."""
    disk, store = filled(5)
    store.close()
    stored = StoredQueues(disk, StoreLayout(ROOT), SMALL.queue)
    assert (stored.units(key).end, stored.units(("topic", 0)).end) == (0, 10)


def test_what_is_no_store_is_refused() -> None:
    """With one error."""
    with pytest.raises(ForeignStore, match="there is no store"):
        findings(SimulatedDisk())


def test_it_changes_nothing() -> None:
    """Every file is as it was, and no file is new."""
    disk = closed()
    before = {path: (data, disk.modified_at_ms(path)) for path, data in disk.contents().items()}
    calls = {name: disk.calls[name] for name in CHANGES}
    assert findings(disk) == []
    after = {path: (data, disk.modified_at_ms(path)) for path, data in disk.contents().items()}
    assert before == after
    assert calls == {name: disk.calls[name] for name in calls}


def test_progress_is_told() -> None:
    """Up to the end of the log."""
    disk = closed()
    told: list[tuple[str, int, int]] = []

    def step(what: str, done: int, total: int = 0) -> None:
        told.append((what, done, total))

    assert list(check(disk, ROOT, step=step)) == []
    what, done, total = told[-1]
    assert what == "checking"
    assert 0 < done <= total


@pytest.mark.parametrize(
    ("path", "position", "data", "rule"),
    [
        ("checkpoint", 8, b"\xff" * 8, Rule.CHECKPOINT),
        ("checkpoint", 100, b"\1", Rule.CHECKPOINT),
        ("config/queues.json", 0, b"]", Rule.CONFIG),
    ],
)
def test_notes_are_read(path: str, position: int, data: bytes, rule: Rule) -> None:
    """A checkpoint below zero or with bytes behind its numbers, a table that is none."""
    disk = closed()
    write(disk, path, position, data)
    (finding,) = findings(disk)
    assert rule is finding.rule
    assert f"{ROOT}/{path}" == finding.path


def test_a_short_checkpoint_is_named() -> None:
    """It is one page."""
    disk = closed()
    disk.open(f"{ROOT}/checkpoint", write=True).resize(24)
    assert [finding.position for finding in findings(disk)] == [24]


def test_the_log_must_reach_as_far_as_it_did() -> None:
    """A record that disappeared without a trace in the queues is missed all the same."""
    disk = closed()
    data = disk.open(f"{ROOT}/config/clean.json").read(0, 200)
    end = int(data.split(b'"log_end":')[1].split(b",")[0])
    write(disk, "config/clean.json", 0, data.replace(b"%d" % end, b"%d" % (end + 100)))
    (finding,) = findings(disk)
    assert (Rule.LOG_RECORD, end) == (finding.rule, finding.record)


@pytest.mark.parametrize(
    "lose",
    [
        lambda disk: disk.remove_tree(f"{ROOT}/index"),
        lambda disk: disk.remove(f"{ROOT}/index/{disk.list(f'{ROOT}/index')[0]}"),
    ],
)
def test_a_lost_index_is_missed(lose: Callable[[SimulatedDisk], None]) -> None:
    """As a whole or a file of it; and recovery makes it again."""
    disk = closed()
    lose(disk)
    assert rules(disk) == {Rule.INDEX_MISSING}


def test_a_store_without_index_misses_none() -> None:
    """Its setting says so."""
    assert findings(closed(index_messages=False)) == []


def test_a_killed_store_is_judged_up_to_its_last_moments() -> None:
    """Units and keys that were not yet put are not missed; those inside are."""
    disk, store = filled(40)
    maintain(store)
    for _ in range(3):
        store.append(new("topic", 0, name="late"))
    store.write()
    assert findings(disk.kill()) == []
    disk = disk.kill()
    write(disk, f"consumequeue/topic/0/{0:020d}", 0, bytes(20))
    assert {Rule.QUEUE_MISSING} == rules(disk)


def test_a_committed_offset_behind_the_end_of_its_queue_is_told() -> None:
    """As after a lost end of the log; also of a queue that is not there."""
    disk = closed(6)
    table = b'{"offsetTable":{"topic@g":{0:3,1:5},"gone@other":{2:1}}}'
    replace_file(disk, f"{ROOT}/config/consumerOffset.json", table)
    assert [(one.rule, one.expected, one.found) for one in findings(disk)] == [
        (Rule.OFFSET_BEYOND, "at most 3 for g in topic/1", "5"),
        (Rule.OFFSET_BEYOND, "at most 0 for other in gone/2", "1"),
    ]
