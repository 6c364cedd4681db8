"""What was written reaches queues and index in order, once, however many records at a time."""

import errno
import random
from collections.abc import Iterator

import pytest
from msgspec import structs
from tests.stores import end_with_a_blank, new, overwrite

from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import DiskFull
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import INNER_BATCH, TRANSACTION_PREPARED
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.log import CommitLog, Tail
from sprocket.rocketmq.store.queue import FileQueues, OtherKinds, UnitAssigner
from sprocket.rocketmq.store.reput import Arrival, Put, Reput, log_follower
from sprocket.rocketmq.store.reput import reput as module
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

SMALL = Geometry.small()
T = hash32("T")


@pytest.fixture(autouse=True, params=["entries", "columns"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test holds for records one by one and for columns."""
    monkeypatch.setattr(log_follower, "COLUMNS_MIN", 1 if request.param == "columns" else 1 << 30)
    return str(request.param)


class World:
    """A log, and what follows it.

    Attributes:
        starts: Where each record begins, in order.
        ends: Where each one ends.
        deleted: Where the log ended when a topic was deleted.
    """

    def __init__(
        self, *, with_index: bool = True, batch_topics: set[str] | None = None, **deleted: int
    ) -> None:
        self.deleted = deleted
        self.disk = SimulatedDisk()
        others = OtherKinds("/ext", "/batches", batch_topics=batch_topics or set())
        self.queues = FileQueues(self.disk, "/queues", SMALL.queue, others=others)
        self.index = Indexes(self.disk, "/index", SMALL.index, FakeClock())
        self.files = SegmentFiles(self.disk, "/log", SMALL.log.segment_bytes)
        self.log = CommitLog(self.files, 0, crc_tail=False)
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.dispatch = Reput(
            self.log.tail,
            self.queues,
            self.index if with_index else None,
            0,
            UnitAssigner(self.files, deleted=deleted),
        )

    def add(self, offset: int, topic: str = "t", queue_id: int = 0, **fields: object) -> None:
        """Append a record; the `number`th has the key k`number` and is stored at 1000 + `number`.

        Without other properties its tag is T.
        """
        number = len(self.starts)
        made = structs.replace(new(topic, queue_id, b"x" * 50, name=f"k{number}"), **fields)
        self.starts += self.log.append([made], [offset], 1000 + number)
        self.ends.append(self.log.end)

    def write(self, *offsets: int) -> int:
        """Append records of the queue t/0, if any, and write; return where the log ends."""
        for offset in offsets:
            self.add(offset)
        return self.log.write()

    def round(self, limit: int) -> list[Arrival]:
        """Put into the queues what lies before a place; return what has arrived."""
        self.dispatch.to_queues(limit)
        return self.dispatch.take_fresh(someone_waits=True).arrivals

    def find(self, *numbers: int) -> list[list[int]]:
        """Return what the index finds by keys of records of the topic t."""
        return [[*self.index.find(key_string("t", f"k{number}"), 9)] for number in numbers]

    def places(self, topic: str, queue_id: int = 0) -> list[int]:
        """Return where the messages of a queue lie."""
        queue = self.queues.by_key.get((topic, queue_id))
        assert queue is not None
        return [queue.unit(offset)[0] for offset in range(queue.max_offset)]


def test_only_what_lies_before_the_limit_is_put() -> None:
    """The rest waits for the next round."""
    world = World()
    end = world.write(*range(5))
    assert world.round(0) == []
    assert world.dispatch.queued_at_ms == 0
    assert world.round(world.ends[2]) == [Arrival("t", 0, QueueOffset(3), [T, T, T])]
    assert world.queues.by_key["t", 0].max_offset == 3
    dispatch = world.dispatch
    assert (dispatch.queued_to, dispatch.queued_at_ms) == (world.ends[2], 1002)
    assert [a.tags_codes for a in world.round(end)] == [[T, T]]
    assert world.round(end) == []
    assert world.places("t") == world.starts


def test_each_queue_has_its_arrival() -> None:
    """Records that get no unit bring none, but count as dispatched."""
    world = World()
    world.add(0)
    world.add(0, sys_flag=4)
    world.add(0, queue_id=1)
    world.add(0, sys_flag=12)
    end = world.write()
    arrivals = world.round(end)
    assert [(a.queue_id, a.next_offset) for a in arrivals] == [(0, 1), (1, 1)]
    assert world.queues.by_key["t", 0].max_offset == 1
    assert world.dispatch.queued_to == end


def test_every_topic_is_told_how_much_came() -> None:
    """Messages and bytes of its queues together; a prepared message is none."""
    world = World()
    for number in range(3):
        world.add(number // 2, "a", number % 2)
        world.add(number, "bb")
    world.add(0, "a", sys_flag=4)
    world.dispatch.to_queues(world.write())
    sizes = [end - start for start, end in zip(world.starts, world.ends, strict=True)]
    puts = world.dispatch.take_fresh(someone_waits=False).puts
    assert sorted(puts, key=lambda put: put.topic) == [
        Put("a", 3, sum(sizes[0:6:2])),
        Put("bb", 3, sum(sizes[1:6:2])),
    ]


def test_the_index_follows_in_portions() -> None:
    """Rolled back messages are left out, prepared ones are not; never past the queues."""
    world = World()
    for flag in (0, 4, 12, 8, 0):
        world.add(1 if flag == 8 else 0, sys_flag=flag)
    world.write()
    dispatch, ends = world.dispatch, world.ends
    dispatch.to_queues(ends[2])
    dispatch.to_queues(ends[3])
    assert dispatch.index_backlog_bytes == ends[3]
    assert dispatch.to_index(2) == 2
    assert dispatch.index_backlog_bytes == ends[3] - ends[1]
    assert dispatch.to_index(9) == 2
    assert dispatch.to_index() == 0
    starts = world.starts
    assert world.find(0, 1, 2, 3, 4) == [[starts[0]], [starts[1]], [], [starts[3]], []]


def test_without_an_index_nothing_waits_for_it() -> None:
    """A store may keep none."""
    world = World(with_index=False)
    world.dispatch.to_queues(world.write(0))
    assert (world.dispatch.index_backlog_bytes, world.dispatch.to_index()) == (0, 0)


def test_nothing_is_forgotten_when_the_disk_is_full() -> None:
    """The same round goes through once there is space."""
    world = World()
    end = world.write(0, 1, 2)
    world.disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        world.dispatch.to_queues(end)
    assert world.dispatch.queued_to == 0
    assert len(world.round(end)) == 1
    assert world.places("t") == world.starts
    world.disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        world.dispatch.to_index()
    assert world.dispatch.to_index() == 3
    assert world.find(2) == [[world.starts[2]]]


def test_a_round_that_failed_half_way_is_put_with_what_came_since() -> None:
    """One queue has its units already, the other none; then both get more."""
    world = World()
    for queue_id in (0, 1):
        world.add(0, queue_id=queue_id)
    end = world.write()
    world.disk.fail("write", 2, errno.ENOSPC)
    with pytest.raises(DiskFull):
        world.dispatch.to_queues(end)
    assert world.queues.by_key["t", 0].max_offset + world.queues.by_key["t", 1].max_offset == 1
    for queue_id in (0, 1, 1):
        offset = 2 if queue_id and len(world.starts) == 4 else 1
        world.add(offset, queue_id=queue_id)
    arrivals = world.round(world.write())
    assert {(a.queue_id, a.next_offset): len(a.tags_codes) for a in arrivals} == {
        (0, 2): 2,
        (1, 3): 3,
    }
    starts = world.starts
    assert world.places("t", 0) == [starts[0], starts[2]]
    assert world.places("t", 1) == [starts[1], starts[3], starts[4]]


def test_rounds_join_before_the_index() -> None:
    """Two rounds to the queues may be one to the index."""
    world = World()
    world.dispatch.to_queues(world.write(0))
    world.dispatch.to_queues(world.write(1))
    assert world.dispatch.to_index(1) == 1
    assert world.dispatch.to_index() == 1
    assert world.find(0, 1) == [[world.starts[0]], [world.starts[1]]]


def test_the_same_columns_serve_queues_and_index(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If both get the same records; if the index gets more it reads all of it in one part."""
    reads: list[tuple[int, int]] = []
    real = log_follower.next_part

    def counted(tail: Tail, start: int, limit: int, *rest: int, **more: bool) -> object:
        reads.append((start, limit))
        return real(tail, start, limit, *rest, **more)

    monkeypatch.setattr(log_follower, "next_part", counted)
    world = World()
    first = world.write(0, 1)
    world.dispatch.to_queues(first)
    assert world.dispatch.to_index() == 2
    assert len(reads) == (1 if form == "columns" else 2)
    second = world.write(2, 3)
    world.dispatch.to_queues(second)
    third = world.write(4)
    world.dispatch.to_queues(third)
    reads.clear()
    assert world.dispatch.to_index() == 3
    assert reads == [(first, third)]
    assert world.find(*range(5)) == [[start] for start in world.starts]


def test_what_is_kept_for_the_index_holds_no_file() -> None:
    """A file that was deleted meanwhile must go."""
    world = World()
    world.dispatch.to_queues(world.write(0, 1))
    overwrite(world.files, 0, bytes(1000))  # whoever reads it again finds nothing
    assert world.dispatch.to_index() == 2
    assert world.find(0, 1) == [[start] for start in world.starts]
    assert not any(world.log.tail.read(0, world.log.end))  # nothing is kept that nobody needs


def test_a_long_backlog_of_the_index_is_worked_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a limit, whoever forgets to call; and the arrivals are told all the same."""
    world = World()
    end = world.write(0, 1, 2)
    monkeypatch.setattr(module, "INDEX_BACKLOG_BYTES_MAX", end)
    world.dispatch.to_queues(end)
    assert world.dispatch.index_backlog_bytes == end
    end = world.write(3)
    # The queues get their unit; the index refuses.
    world.disk.fail("write", 2, errno.ENOSPC)
    with pytest.raises(DiskFull):
        world.dispatch.to_queues(end)
    assert [a.next_offset for a in world.round(end)] == [3, 4]
    assert world.dispatch.index_backlog_bytes == 0
    assert world.find(3) == [[world.starts[3]]]


def test_arrivals_nobody_asks_for_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go, all of them when nobody wants to know."""
    monkeypatch.setattr(module, "ROUNDS_MAX", 2)
    world = World()
    for offset in range(3):
        world.dispatch.to_queues(world.write(offset))
    arrivals = world.dispatch.take_fresh(someone_waits=True).arrivals
    assert [a.next_offset for a in arrivals] == [2, 3]
    world.dispatch.to_queues(world.write(3))
    size = world.ends[3] - world.starts[3]
    assert world.dispatch.take_fresh(someone_waits=False) == ([Put("t", 1, size)], [])
    assert world.dispatch.take_fresh(someone_waits=True) == ([], [])


def test_a_round_may_be_bounded() -> None:
    """The rest waits, in order, and goes with the next call."""
    world = World()
    end = world.write(*range(5))
    world.dispatch.to_queues(end, max_count=2)
    assert (world.queues.by_key["t", 0].max_offset, world.dispatch.queued_to) == (2, world.ends[1])
    world.dispatch.to_queues(world.ends[3], max_count=9)
    assert (world.queues.by_key["t", 0].max_offset, world.dispatch.queued_to) == (4, world.ends[3])
    world.dispatch.to_queues(end)
    assert world.queues.by_key["t", 0].max_offset == 5


def test_a_round_may_be_bounded_by_its_queues() -> None:
    """However many records one has; those of a few queues go at once."""
    world = World()
    for number in range(20):
        world.add(number // 5, "t", number % 5)
    end = world.log.write()
    world.dispatch.to_queues(end, max_queues=5)
    assert world.dispatch.queued_to == end
    for number in range(60):
        world.add(number // 20, "u", number % 20)
    end = world.log.write()
    parts = []
    while world.dispatch.queued_to < end:
        before = world.dispatch.queued_to
        world.dispatch.to_queues(end, max_queues=8)
        parts.append(sum(before < one <= world.dispatch.queued_to for one in world.ends))
    assert max(parts) == 8
    assert [len(world.places("u", number)) for number in range(20)] == [3] * 20
    assert world.dispatch.to_index() == 80


def test_the_first_records_of_many_queues_are_bounded_too() -> None:
    """Though nothing said before that they would be of many."""
    world = World()
    for number in range(20):
        world.add(0, "t", number)
    world.dispatch.to_queues(world.log.write(), max_queues=8)
    assert world.dispatch.queued_to == world.ends[7]
    world.dispatch.to_queues(world.log.end, max_queues=1)
    assert world.dispatch.queued_to == world.ends[8]


def test_files_of_the_log_follow_each_other() -> None:
    """Behind the blank of one the next one goes on, and where it ends is where the queues are."""
    world = World()
    count = 3 * SMALL.log.segment_bytes // 150
    end = world.write(*range(count))
    assert len(world.files) > 2
    arrivals = world.round(end)
    assert [a.next_offset for a in arrivals][-1] == count
    assert sum(len(a.tags_codes) for a in arrivals) == count
    assert world.dispatch.queued_to == end
    assert world.dispatch.to_index() == count
    assert world.places("t") == world.starts
    assert world.find(0, count - 1) == [[world.starts[0]], [world.starts[-1]]]


def test_a_log_that_ends_with_its_file_is_followed_to_the_end() -> None:
    """Nothing but the blank is left then."""
    world = World()
    world.write(0)
    end = end_with_a_blank(world.files, world.log.end)
    assert end == SMALL.log.segment_bytes
    assert [a.next_offset for a in world.round(end)] == [1]
    assert (world.dispatch.queued_to, world.dispatch.to_index()) == (end, 1)
    assert world.dispatch.index_backlog_bytes == 0


def test_every_queue_of_a_record_is_told() -> None:
    """Light queues with their own offsets; the index gets the keys once."""
    world = World()
    light = b"UNIQ_KEY\1k0\2TAGS\1U\2INNER_MULTI_DISPATCH\1%LMQ%a,%LMQ%b\2"
    world.add(0, properties=light + b"INNER_MULTI_QUEUE_OFFSET\0010,0\2")
    world.add(1)
    # No offset can be so high at the beginning of a log: 8 bytes a place, at least.
    world.add(2, properties=light + b"INNER_MULTI_QUEUE_OFFSET\0011,1\2")
    arrivals = {(a.topic, a.queue_id): a for a in world.round(world.write())}
    assert {key: a.next_offset for key, a in arrivals.items()} == {
        ("t", 0): 3,
        ("%LMQ%a", 0): 2,
        ("%LMQ%b", 0): 2,
    }
    assert arrivals["%LMQ%b", 0].tags_codes == [hash32("U")] * 2
    assert world.places("%LMQ%a") == [world.starts[0], world.starts[2]]
    assert world.dispatch.to_index() == 3
    assert world.find(0, 1) == [[world.starts[2], world.starts[0]], [world.starts[1]]]


def test_a_batch_is_told_with_the_offset_behind_it() -> None:
    """It takes as many places as it has messages."""
    world = World(batch_topics={"t"})
    world.add(0, sys_flag=INNER_BATCH, properties=b"INNER_NUM\0014\2TAGS\1T\2")
    assert world.round(world.write()) == [Arrival("t", 0, QueueOffset(4), [T])]


def test_a_delayed_message_has_its_time_for_a_code() -> None:
    """Consumers of the waiting topic see when it is due."""
    world = World()
    world.add(0, SCHEDULE_TOPIC, properties=b"DELAY\0011\2TAGS\1T\2")
    assert [a.tags_codes for a in world.round(world.write())] == [[2000]]


def test_a_round_may_hold_two_lives_of_a_topic() -> None:
    """What was written before its deletion gets no unit, what came after begins at 0."""
    world = World()
    world.write(0, 1)
    world.dispatch.to_queues(world.ends[0])
    world.add(0, "other")
    remove_files = world.queues.delete_topic("t")
    assert remove_files is not None
    remove_files()
    world.deleted["t"] = world.ends[2]
    world.dispatch.take_fresh(someone_waits=True)
    world.add(0)
    world.add(1)
    arrivals = world.round(world.write())
    assert {(a.topic, a.next_offset): len(a.tags_codes) for a in arrivals} == {
        ("t", 2): 2,
        ("other", 1): 1,
    }
    assert world.places("t") == world.starts[3:]
    assert world.dispatch.to_index() == 5


def _lives(choose: random.Random) -> Iterator[tuple[dict[str, object], bool]]:
    """Give what to append, some at a time."""
    offsets: dict[tuple[str, int], int] = {}
    for _ in range(60):
        key = choose.choice("tu"), choose.randrange(3)
        flag = choose.choice([0, 0, 0, 4, 8, 12])
        is_queueable = not flag & TRANSACTION_PREPARED
        offset = offsets.get(key, 0) if is_queueable else 0
        offsets[key] = offsets.get(key, 0) + is_queueable
        tags = choose.choice([b"", b"TAGS\1%s\2" % choose.choice([b"A", b"\xc3\xa9", b"%"])])
        keys = choose.choice([b"", b"KEYS\1a b\2", b"UNIQ_KEY\1u%d\2KEYS\1c\2" % offset])
        yield (
            {"offset": offset, "topic": key[0], "queue_id": key[1], "properties": tags + keys}
            | {"sys_flag": flag},
            choose.random() < 0.2,
        )


@pytest.mark.parametrize("seed", range(5))
def test_both_forms_put_the_same_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all files of queues and index; and they tell the same."""
    worlds = []
    for columns_min in (1, 4, 1 << 30):
        monkeypatch.setattr(log_follower, "COLUMNS_MIN", columns_min)
        world = World()
        told: list[object] = []
        for fields, ends_round in _lives(random.Random(seed)):
            world.add(**fields)  # type: ignore[arg-type]
            if ends_round:
                world.dispatch.to_queues(world.write())
                puts, arrivals = world.dispatch.take_fresh(someone_waits=True)
                told.append(sorted((put.topic, put.messages, put.bytes) for put in puts))
                told.append(sorted((a.topic, a.queue_id, *a.tags_codes) for a in arrivals))
                told.append(world.dispatch.to_index(7))
        world.dispatch.to_queues(world.write())
        world.dispatch.to_index()
        world.index.flush()
        disk = world.disk
        folders = [f"/queues/{topic}/{n}" for topic in "tu" for n in range(3)] + ["/index"]
        paths = [f"{folder}/{name}" for folder in folders for name in disk.list(folder)]
        worlds.append((told, {path: bytes(disk.open(path).view()) for path in paths}))
    assert len(worlds[0][1]) >= 7
    assert worlds[0] == worlds[1] == worlds[2]
