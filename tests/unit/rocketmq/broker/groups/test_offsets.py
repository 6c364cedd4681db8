"""Committed offsets survive every end of the process, and most ends of the machine."""

import json
import random

import pytest
from tests.stores import filled

from sprocket.base.disk import advance, read_file, replace_file
from sprocket.base.errors import DiskFailed, DiskFull, ForeignStore
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.codec.config import fastjson
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FILE = "/s/config/consumerOffset.json"
JOURNAL = "/s/config/sprocket.offsets.1"


def fresh() -> SimulatedDisk:
    """Return a disk with an empty store folder."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    return disk


def opened(disk: SimulatedDisk) -> ConsumerOffsets:
    """Open the table on a disk."""
    return ConsumerOffsets(Place(disk, "/s", FakeClock()))


def sequence(disk: SimulatedDisk) -> int:
    """Return up to which line the file covers the journal."""
    return int(fastjson.read(read_file(disk, FILE))["sprocketSequence"])


def table(offsets: ConsumerOffsets, queues: int = 3) -> list[int | None]:
    """Return what group g has in the first queues of t."""
    return [offsets.get("g", "t", queue) for queue in range(queues)]


def test_what_was_committed_is_found() -> None:
    """Per group, topic and queue; the last commit counts, forwards or backwards."""
    offsets = opened(fresh())
    assert table(offsets) == [None] * 3
    offsets.commit("g", "t", 0, 5)
    offsets.commit("g", "t", 0, 3)
    offsets.commit("g", "t", 2, 1)
    offsets.commit("other", "t", 1, 9)
    assert table(offsets) == [3, None, 1]
    assert sorted(offsets.groups_of("t")) == ["g", "other"]


def test_a_kill_loses_no_commit() -> None:
    """Neither before the first flush, nor after it, nor between flush and cut of the journal."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 5)
    assert table(opened(disk.kill())) == [5, None, None]
    offsets.table.flush()
    offsets.commit("g", "t", 0, 6)
    offsets.commit("g", "t", 1, 1)
    assert table(opened(disk.kill())) == [6, 1, None]
    work = offsets.table.flush_steps()
    call = advance(work)
    assert call is not None
    offsets.commit("g", "t", 0, 2)
    while call is not None:
        assert table(opened(disk.kill())) == [2, 1, None]
        call = advance(work, call())
    offsets.commit("g", "t", 2, 8)
    assert table(opened(disk.kill())) == [2, 1, 8]
    offsets.table.flush()
    assert table(opened(disk.kill())) == [2, 1, 8]


def test_a_power_loss_leaves_at_least_the_last_flush() -> None:
    """Whatever blocks and names are lost: every offset is the flushed one or a later one."""
    for seed in range(300):
        rng = random.Random(seed)
        disk = fresh()
        offsets = opened(disk)
        flushed: dict[int, int] = {}
        latest: dict[int, set[int]] = {queue: set() for queue in range(3)}
        for value in range(rng.randrange(1, 30)):
            queue = rng.randrange(3)
            offsets.commit("g", "t", queue, value)
            latest[queue].add(value)
            if rng.randrange(5) == 0:
                offsets.table.flush()
                flushed = {q: max(seen) for q, seen in latest.items() if seen}
        found = opened(disk.crash(rng.randrange))
        for queue in range(3):
            offset = found.get("g", "t", queue)
            assert offset is None or offset in latest[queue], seed
            assert (-1 if offset is None else offset) >= flushed.get(queue, -1), seed


def test_the_file_is_rocketmqs() -> None:
    """Integer keys without quotes, groups derived, the version there; the old one is kept."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 5)
    offsets.table.flush()
    offsets.commit("g", "t", 1, 7)
    offsets.table.flush()
    text = read_file(disk, FILE)
    assert b'"t@g":{0:5,1:7' in text.replace(b"\n", b"").replace(b"\t", b"")
    content = fastjson.read(text)
    assert content["groupTopicMap"] == {"g": ["t"]}
    assert set(content["dataVersion"]) == {"counter", "stateVersion", "timestamp"}
    assert b"0:5" in read_file(disk, FILE + ".bak")
    assert b"1:7" not in read_file(disk, FILE + ".bak")


def test_rocketmqs_files_are_read() -> None:
    """Of 5.x and of 4.x, with and without quotes; of a damaged one the backup."""
    disk = fresh()
    replace_file(disk, FILE, b'{"offsetTable":{"t@g":{0:5,"1":7}}}', keep_backup=True)
    assert table(opened(disk)) == [5, 7, None]
    replace_file(disk, FILE, b'{"offsetTable":{"t@g":{0:', keep_backup=True)
    assert table(opened(disk)) == [5, 7, None]
    assert table(opened(disk)) == [5, 7, None]  # it is whole again
    replace_file(disk, FILE, b'{"offsetTable":{"t@g":{0:')
    replace_file(disk, FILE + ".bak", b"also damaged")
    with pytest.raises(ForeignStore):
        opened(disk)
    replace_file(disk, FILE, b'{"offsetTable":{"t@g":{"x":1}}}')
    with pytest.raises(ForeignStore):
        opened(disk)


def test_a_damaged_journal_gives_its_good_part() -> None:
    """Cut anywhere, or with any byte changed, no wrong offset comes out of it."""
    disk = fresh()
    offsets = opened(disk)
    for value in range(5):
        offsets.commit("g", "t", 0, value)
    whole = read_file(disk, JOURNAL)
    for position in range(len(whole)):
        for damaged in (
            whole[:position],
            whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :],
        ):
            copy = fresh()
            replace_file(copy, JOURNAL, damaged)
            found = opened(copy)
            assert found.get("g", "t", 0) in (None, 0, 1, 2, 3, 4)
            found.commit("g", "t", 0, 77)
            assert opened(copy.kill()).get("g", "t", 0) == 77


def test_strange_names_do_not_break_the_journal() -> None:
    """Line ends and tabs in a name are kept inside their line."""
    disk = fresh()
    opened(disk).commit("g\n1\tx", "t\n", 0, 5)
    assert opened(disk.kill()).get("g\n1\tx", "t\n", 0) == 5


def test_a_failed_commit_changes_nothing() -> None:
    """It is refused, the table is as before, and the next one works."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 5)
    disk.fail("write", 1)
    with pytest.raises((DiskFull, DiskFailed)):
        offsets.commit("g", "t", 0, 6)
    assert table(offsets) == [5, None, None]
    offsets.commit("g", "t", 0, 7)
    assert table(opened(disk.kill())) == [7, None, None]


def test_a_failed_flush_keeps_the_journal() -> None:
    """Nothing is lost by it, and the next flush writes everything."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 5)
    disk.fail("sync", 1)
    with pytest.raises(DiskFailed):
        offsets.table.flush()
    assert table(opened(disk.kill())) == [5, None, None]
    offsets.table.flush()
    assert sequence(disk) == 1
    assert advance(offsets.table.flush_steps()) is None


def test_after_a_clean_stop_all_is_in_rocketmqs_file() -> None:
    """After a clean stop everything is in RocketMQ's own file."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 5)
    offsets.table.close()
    assert sequence(disk) == 1
    assert fastjson.read(read_file(disk, FILE))["offsetTable"] == {"t@g": {0: 5}}


def test_a_long_journal_asks_for_a_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is bounded, however often somebody commits."""
    monkeypatch.setattr("sprocket.rocketmq.broker.groups.offsets.JOURNAL_BYTES_MAX", 100)
    store = opened(fresh())
    for offset in range(2):
        assert not store.wants_flush
        store.commit("a group with a long name", "a topic with one", 0, offset)
    assert store.wants_flush
    store.table.flush()
    assert not store.wants_flush


def test_a_file_that_rocketmq_wrote_since_wins_over_the_journal() -> None:
    """It has no mark of ours, so the journal is from before it."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 5)
    offsets.table.flush()
    offsets.commit("g", "t", 0, 6)
    left = disk.kill()
    assert table(opened(left.kill())) == [6, None, None]
    replace_file(left, FILE, b'{"offsetTable":{"t@g":{0:9}}}')
    found = opened(left)
    assert table(found) == [9, None, None]
    found.commit("g", "t", 1, 1)
    assert table(opened(left.kill())) == [9, 1, None]


def test_a_reset_wins_over_commits_until_it_is_taken() -> None:
    """And is where the group goes on after a kill."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 5)
    offsets.reset("g", "t", 0, 2)
    assert not offsets.commit("g", "t", 0, 6)
    assert offsets.commit("g", "t", 1, 6)
    assert table(offsets) == [2, 6, None]
    assert table(opened(disk.kill())) == [2, 6, None]
    assert [offsets.take_reset("g", "t", 0) for _ in range(2)] == [2, None]
    assert offsets.commit("g", "t", 0, 6)
    assert table(offsets) == [6, 6, None]


def test_a_clone_replaces_what_the_other_group_had() -> None:
    """In this topic; a kill keeps it."""
    disk = fresh()
    offsets = opened(disk)
    for queue in (0, 1):
        offsets.commit("old", "t", queue, 5 + queue)
    offsets.commit("g", "t", 2, 9)
    offsets.commit("g", "other", 0, 1)
    offsets.clone("old", "g", "t")
    assert table(offsets) == table(opened(disk.kill())) == [5, 6, None]
    assert offsets.get("g", "other", 0) == 1
    offsets.clone("g", "g", "t")
    assert table(offsets) == [5, 6, None]


def test_what_is_forgotten_stays_forgotten() -> None:
    """After a kill, after a flush, and its resets with it; other groups keep theirs."""
    disk = fresh()
    offsets = opened(disk)
    for group in ("g", "xg"):
        offsets.commit(group, "t", 0, 5)
        offsets.table.flush()
    offsets.reset("g", "t", 0, 2)
    offsets.forget("g")
    assert table(offsets) == table(opened(disk.kill())) == [None] * 3
    assert offsets.take_reset("g", "t", 0) is None
    offsets.table.flush()
    again = opened(disk.kill())
    assert (table(again), again.get("xg", "t", 0)) == ([None] * 3, 5)


def test_the_offsets_of_each_queue() -> None:
    """Over all groups of a topic."""
    offsets = opened(fresh())
    for group, queue, offset in (("a", 0, 5), ("b", 0, 3), ("b", 1, 9)):
        offsets.commit(group, "t", queue, offset)
    offsets.commit("a", "other", 0, 1)
    assert offsets.by_queue("t") == {0: [5, 3], 1: [9]}
    assert dict(offsets.of("b", "t")) == {0: 3, 1: 9}
    assert dict(offsets.of("b", "nothing")) == {}


def test_a_commit_aside_counts_in_memory_while_the_disk_is_full(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told once; the same offset said again, by itself, is not a lie and no line is lost."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 4)
    disk.is_full = True
    for offset in (5, 5, 6):
        offsets.commit_aside("g", "t", 0, offset)
    offsets.commit_aside("g", "t", 1, 7)
    assert table(offsets) == [6, 7, None]
    assert caplog.text.count("in memory only") == 1
    with pytest.raises(DiskFull):
        offsets.commit("g", "t", 0, 6)
    disk.is_full = False
    assert table(opened(disk.kill())) == [4, None, None]


def test_a_commit_aside_is_kept_by_the_next_line_or_file() -> None:
    """One that comes while the file is written waits for the next."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 4)
    disk.is_full = True
    for queue in range(3):
        offsets.commit_aside("g", "t", queue, 5)
    disk.is_full = False
    offsets.commit_aside("g", "t", 0, 5)
    assert table(opened(disk.kill())) == [5, None, None]
    work = offsets.table.flush_steps()
    call = advance(work)
    while call is not None:
        call = advance(work, call())
        disk.is_full = True
        offsets.commit_aside("g", "t", 2, 6)
        disk.is_full = False
    assert table(opened(disk.kill())) in ([5, 5, 5], [5, 5, 6])
    offsets.commit("g", "t", 1, 5)
    offsets.commit("g", "t", 2, 6)
    assert table(opened(disk.kill())) == [5, 5, 6]


def test_a_disk_that_is_full_again_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    """Once a file has what was in memory only, the next such commit begins anew."""
    disk = fresh()
    offsets = opened(disk)
    for offset in (5, 6):
        disk.is_full = True
        offsets.commit_aside("g", "t", 0, offset)
        disk.is_full = False
        offsets.table.flush()
    assert caplog.text.count("in memory only") == 2


def test_a_commit_aside_that_is_forgotten_stays_so() -> None:
    """Nothing of it is left to be written."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 4)
    disk.is_full = True
    offsets.commit_aside("g", "t", 0, 5)
    disk.is_full = False
    offsets.forget("g")
    offsets.commit("g", "t", 0, 5)
    assert table(opened(disk.kill())) == [5, None, None]


@pytest.mark.slow  # some 10 MB of JSON
def test_a_table_of_any_size_starts_again() -> None:
    """After a clean stop; from its backup; and one that RocketMQ has written."""
    disk = fresh()
    found = {
        f"a-topic-with-a-name-{topic}@a-group-of-consumers-{group}": dict.fromkeys(
            range(8), 10**9 + group
        )
        for group in range(3000)
        for topic in range(10)
    }
    replace_file(disk, FILE, json.dumps({"offsetTable": found}).encode())
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 5)
    offsets.table.close()
    content = read_file(disk, FILE)
    assert len(content) > 4 << 20
    last = "a-group-of-consumers-2999", "a-topic-with-a-name-9", 7
    assert opened(disk).get(*last) == 10**9 + 2999
    disk.rename(FILE, FILE + ".bak")
    again = opened(disk)
    assert (again.get(*last), again.get("g", "t", 0)) == (10**9 + 2999, 5)
    theirs = fresh()
    replace_file(theirs, FILE, content.replace(b'"sprocketSequence"', b'"x"'))
    assert opened(theirs).get(*last) == 10**9 + 2999


def test_what_a_group_follows_is_found_without_looking_at_others() -> None:
    """By group and by topic, and not when it is forgotten; a restart knows it too."""
    disk = fresh()
    offsets = opened(disk)
    for topic, group in (("t", "g"), ("u", "g"), ("t", "h")):
        offsets.commit(group, topic, 0, 1)
    for found in (offsets, opened(disk.kill())):
        assert found.topics_of("g") == ["t", "u"]
        assert found.groups_of("t") == ["g", "h"]
        found.forget("g")
        assert (found.topics_of("g"), found.groups_of("t")) == ([], ["h"])
        found.forget_topic("t")
        assert (found.topics_of("h"), found.groups_of("t")) == ([], [])


def test_numbers_beyond_64_bits_are_damage() -> None:
    """They could not be written again."""
    for text in (b'{"offsetTable":{"t@g":{0:9223372036854775808}}}', b'{"offsetTable":{"t@g":7}}'):
        disk = fresh()
        replace_file(disk, FILE, text)
        with pytest.raises(ForeignStore):
            opened(disk)


def test_offsets_behind_the_ends_of_queues_are_set_back(caplog: pytest.LogCaptureFixture) -> None:
    """The log has lost its end, or all of it; a group that goes on there would get nothing."""
    disk, store = filled(4)  # two messages in each of two queues
    ends = store.queue_end("topic", 0), store.queue_end("topic", 1)
    assert ends == (2, 2)
    place = Place(disk, "/store", FakeClock())
    offsets = ConsumerOffsets(place)
    for queue_id, offset in ((0, 2), (1, 3)):
        offsets.commit("g", "topic", queue_id, offset)
    offsets.commit("other", "topic", 0, 1)
    offsets.commit("other", "gone", 3, 9)
    offsets.set_back(store)
    assert offsets.of("g", "topic") == {0: 2, 1: 2}
    assert (offsets.get("other", "topic", 0), offsets.get("other", "gone", 3)) == (1, 0)
    told = {"topic@g": {1: 3}, "gone@other": {3: 9}}
    assert store.report.offsets_set_back == told
    kept = json.loads(read_file(disk, "/store/config/recovery.json"))["offsets_set_back"]
    assert kept == {"topic@g": {"1": 3}, "gone@other": {"3": 9}}
    assert sum("set back" in text for text in caplog.messages) == 2
    again = ConsumerOffsets(Place(disk.kill(), "/store", FakeClock()))
    assert again.all() == offsets.all()
    caplog.clear()
    offsets.set_back(store)
    assert not caplog.messages
