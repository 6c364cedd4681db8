"""Delayed messages come at their time, at least once, whatever cannot be read or stored."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.recorded import Recorded
from tests.timers import FakeTimers

from sprocket.base.disk import PendingSync, advance
from sprocket.base.errors import DiskFull, StoreError
from sprocket.base.place import Place
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.broker import flush_mode
from sprocket.rocketmq.broker.delay import DelayProgress, Delays
from sprocket.rocketmq.broker.delay.delay import BATCH, HALF_TOPIC, UNREADABLE_LOOKS_MAX
from sprocket.rocketmq.broker.delivery import PullHold
from sprocket.rocketmq.broker.messages import (
    Commits,
    DelayLevels,
    DurableAppender,
    DurableLog,
    ReputRounds,
    pending_acks,
)
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record_layout import MAGIC_V1
from sprocket.rocketmq.geometry import Geometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.model import filters
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import NewRecord, StoredMessage
from sprocket.rocketmq.settings import PullSettings, Settings, StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.group_commit import READY_BESIDE, GroupCommit, Machine
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"
LEVELS = "1s 5s 2h"


class InlineThread:
    """A disk thread that works at once."""

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        """Do a job and hand it back."""
        try:
            result = job()
        except StoreError as error:
            done(None, error)
        else:
            done(result, None)

    def run_within(
        self,
        _: float,
        job: Callable[[], Any],
        done: Callable[[Any, Any], None],
        beside: Callable[[], None] | None = None,
        start: Callable[[], PendingSync | None] = lambda: None,  # noqa: ARG002
    ) -> None:
        """Do the same."""
        if beside is not None:
            beside()
        self.submit(job, done)


class InlineReads:
    """Does work that reads at once."""

    def run(self, work: Callable[[], None], _: Callable[[Exception], None]) -> None:
        """Do it."""
        work()


class Desk:
    """Deliveries over a real store on a simulated disk, with hand-made time."""

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        *,
        clock: FakeClock | None = None,
        levels: str = LEVELS,
        flush: str = "sync",
        geometry: Geometry | None = None,
    ) -> None:
        self.disk = disk or SimulatedDisk()
        self.clock = clock or FakeClock()
        self.timers = FakeTimers(self.clock)
        settings = StoreSettings(fill_ahead_bytes=0, delay_levels=levels, flush=cast("Any", flush))
        self.levels = DelayLevels(levels, self.clock)
        small = Geometry.small()
        geometry = geometry or Geometry(
            log=LogGeometry(segment_bytes=64 * 1024), queue=small.queue, index=small.index
        )
        self.store = Store.open(self.disk, "/s", settings, self.clock, geometry)
        self.rounds = ReputRounds(
            self.store,
            self.timers,
            self.clock,
            PullHold(self.timers, PullSettings()),
            Stats(self.clock),
        )
        pressure = Pressure(MIB, MIB)
        self.commits: Commits = GroupCommit(
            DurableLog(self.store, lambda: None),
            pending_acks,
            self.rounds,
            Machine(self.timers, self.clock, InlineThread(), InlineThread()),
            flush_mode(Settings(store=settings)),
            pressure,
        )
        self.durable = DurableAppender(self.store, self.commits, pressure)
        self.progress = DelayProgress(
            Place(self.disk, "/s", self.clock), self.store, is_whole=not self.store.report.damage
        )
        self.delays = Delays(
            self.store,
            InlineReads(),
            self.durable,
            self.progress,
            self.levels,
            HERE,
            self.timers,
        )

    def write(self) -> None:
        """Begin to write the log and to follow it."""
        self.commits.start()
        self.rounds.start()

    def start(self) -> "Desk":
        """Begin to deliver."""
        self.write()
        self.delays.start()
        self.timers.drain()
        return self

    def wait(self, level: int, body: bytes = b"x", topic: str = "T", **found: str) -> None:
        """Store a message that waits."""
        properties_ = {"UNIQ_KEY": body.decode(), **found}
        place = self.levels.divert(level, topic, 1, properties_)
        self.put(*place, properties_, body)

    def put(self, topic: str, queue_id: int, found: dict[str, str], body: bytes = b"x") -> None:
        """Store a message as it is."""
        self.store.append(NewRecord(topic, queue_id, body, properties.encode(found), HERE, HERE))
        self.store.write()
        self.store.sync()

    def waiting(self, level: int) -> int:
        """Return how many messages of a level are not noted as delivered."""
        return self.store.queue_range(SCHEDULE_TOPIC, level - 1).max - self.progress.get(level)

    def delivered(self, topic: str = "T", queue_id: int = 1) -> list[StoredMessage]:
        """Return what has come to a queue."""
        found: list[StoredMessage] = []
        offset, end = 0, self.store.queue_range(topic, queue_id).max
        while offset < end:
            some = self.store.get_messages(topic, queue_id, offset)
            found += [record.decode(one) for one in some.records]
            offset = some.next_offset
        return found

    def bodies(self, topic: str = "T") -> list[bytes]:
        """Return the bodies of what has come to queue 1."""
        return [one.body for one in self.delivered(topic)]

    def killed(self, *, levels: str = LEVELS) -> "Desk":
        """Return what opens after the process was killed now."""
        return Desk(self.disk.kill(), clock=self.clock, levels=levels)


def test_each_message_comes_at_its_time() -> None:
    """Not a millisecond early, and within 10 ms of it; levels do not wait for each other."""
    desk = Desk().start()
    desk.wait(2, b"b")
    desk.wait(1, b"a")
    desk.timers.advance(999)
    assert desk.bodies() == []
    desk.timers.advance(10)
    assert desk.bodies() == [b"a"]
    desk.timers.advance(3990)
    assert desk.bodies() == [b"a"]
    desk.timers.advance(10)
    assert desk.bodies() == [b"a", b"b"]
    assert [desk.progress.get(level) for level in (1, 2, 3)] == [1, 1, 0]
    assert [desk.waiting(level) for level in (1, 2, 3)] == [0, 0, 0]
    assert desk.delays.next_due_ms() is None


def test_what_comes_while_nothing_waits_is_not_missed() -> None:
    """A level that was looked at in vain is looked at before anything in it can be due."""
    desk = Desk().start()
    desk.timers.advance(700)
    desk.wait(1)
    desk.timers.advance(900)
    assert desk.bodies() == []
    desk.timers.advance(450)
    assert desk.bodies() == [b"x"]


def test_many_that_are_due_come_in_batches_and_in_order() -> None:
    """One batch after the other, without a pause between them."""
    desk = Desk()
    for number in range(2 * BATCH + 5):
        desk.wait(1, b"%d" % number)
    desk.clock.advance(1000)
    desk.start()
    desk.timers.advance(0)
    assert desk.bodies() == [b"%d" % number for number in range(2 * BATCH + 5)]
    assert desk.progress.get(1) == 2 * BATCH + 5


def test_a_copy_is_what_rocketmq_makes_of_it() -> None:
    """Every message that waited in a recorded store gives the record that lies there, delivered."""
    recorded = Recorded("06-delay-timer")
    clock = FakeClock()
    disk = recorded.in_memory()
    store = Store.open_read_only(disk, "/store")
    waited = [
        (offset, record.decode(stored))
        for offset, stored in store.records()
        if record.decode(stored).topic == "SCHEDULE_TOPIC_XXXX"
    ]
    theirs = {
        one["unique_key"]: one
        for one in recorded.records
        if "REAL_TOPIC" in one["properties"] and one["topic"] == "DelayA"
    }
    desk = Desk(clock=clock)
    seen = 0
    for offset, message in waited:
        expected = theirs.get(message.unique_key)
        if expected is None or message.queue_id > 2:
            continue
        seen += 1
        new = NewRecord(
            message.topic,
            message.queue_id,
            message.stored_body,
            properties.encode(message.properties),
            bytes(store.record_at(offset)[48:56]),
            HERE,
            message.flag,
            message.sys_flag,
            message.born_at_ms,
            message.reconsume_times,
        )
        desk.store.append(new)
    desk.store.write()
    desk.store.sync()
    clock.advance(7_200_000)
    desk.start()
    desk.timers.advance(0)
    found = {one.unique_key: one for queue in range(4) for one in desk.delivered("DelayA", queue)}
    assert len(found) == seen > 3
    for key, one in found.items():
        expected = theirs[key]
        assert {n: v for n, v in one.properties.items() if n != properties.CRC32} == {
            n: v for n, v in expected["properties"].items() if n != properties.CRC32
        }
        assert (one.queue_id, one.flag, one.sys_flag, one.reconsume_times) == (
            expected["queue_id"],
            expected["flag"],
            expected["sys_flag"],
            expected["reconsume_times"],
        )
        assert (one.born_at_ms, one.born_host) == (
            expected["born_timestamp"],
            expected["born_host"],
        )
        assert (one.body_crc, one.magic) == (expected["body_crc"], MAGIC_V1)
    store.close()


def test_a_unit_has_the_tag_of_a_delivered_message() -> None:
    """Consumers that want a tag find it there."""
    desk = Desk().start()
    desk.wait(1, TAGS="wanted")
    desk.timers.advance(1010)
    assert desk.store.get_messages("T", 1, 0, wanted=filters.parse("wanted")).count == 1
    assert desk.store.get_messages("T", 1, 0, wanted=filters.parse("other")).count == 0


def test_the_level_goes_on_behind_what_cannot_be_delivered() -> None:
    """Without a place to go, with a wrong one, from elsewhere, damaged; said and passed over."""
    desk = Desk()
    for found in (
        {"DELAY": "1"},
        {"DELAY": "1", "REAL_TOPIC": "T"},
        {"DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "one"},
        {"DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "-1"},
        {"DELAY": "1", "REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"},
        {"DELAY": "1", "REAL_TOPIC": "a/b", "REAL_QID": "0"},
        {"DELAY": "1", "REAL_TOPIC": "t" * 200, "REAL_QID": "0"},
    ):
        desk.put("SCHEDULE_TOPIC_XXXX", 0, found)
    desk.wait(1, b"damaged")
    desk.wait(1, b"good")
    place = desk.store.units("SCHEDULE_TOPIC_XXXX", 0, 7, 1)[0][1]
    file = desk.disk.open("/s/commitlog/" + "0" * 20, write=True)
    file.write([b"D"], place + 88)
    desk.start()
    desk.timers.advance(1010)
    assert desk.bodies() == [b"good"]
    assert desk.progress.get(1) == 9
    assert desk.delivered(HALF_TOPIC, 0) == []


def test_a_bad_sector_holds_up_its_message_alone() -> None:
    """It may be readable in a moment; if not, the level goes on without it.

    The level stayed where it was, and tried again for ever.
    """
    desk = Desk()
    desk.wait(1, b"bad")
    desk.wait(1, b"good")
    desk.write()
    desk.timers.drain()
    desk = desk.killed()
    place = desk.store.units("SCHEDULE_TOPIC_XXXX", 0, 0, 1)[0][1]
    desk.disk.spoil("/s/commitlog/" + "0" * 20, place, 1)
    desk.start()
    desk.timers.advance(1010)
    for _ in range(UNREADABLE_LOOKS_MAX - 1):
        assert desk.bodies() == []
        desk.timers.advance(1010)
    desk.timers.advance(1010)
    assert desk.bodies() == [b"good"]
    assert desk.progress.get(1) == 2


def test_a_full_disk_delays_and_loses_nothing() -> None:
    """The level stays where it is and tries again; nothing is noted before it is stored."""
    desk = Desk().start()
    desk.wait(1, b"a")
    desk.wait(1, b"b")
    append = desk.store.append_all

    def refuse(_: NewRecord) -> Any:
        raise DiskFull("full")

    desk.store.append_all = cast("Any", refuse)
    desk.timers.advance(1010)
    desk.timers.advance(5000)
    assert (desk.bodies(), desk.progress.get(1)) == ([], 0)
    desk.store.append_all = append
    desk.timers.advance(1010)
    assert desk.bodies() == [b"a", b"b"]


def test_a_failed_write_delays_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies are taken back with it, and made again."""
    desk = Desk().start()
    desk.wait(1)
    write = desk.store.write

    def fail() -> Any:
        desk.disk.fail("write", 1)
        return write()

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "write", fail)
        desk.timers.advance(1010)
    assert (desk.bodies(), desk.progress.get(1)) == ([], 0)
    desk.timers.advance(1010)
    assert desk.bodies() == [b"x"]


def test_a_failed_sync_notes_nothing() -> None:
    """Not even of a batch so large that its answers are made beside the sync."""
    geometry = Geometry(
        log=LogGeometry(segment_bytes=64 * 1024),
        queue=QueueGeometry(units_per_file=100),
        index=Geometry.small().index,
    )
    desk = Desk(geometry=geometry)
    count = READY_BESIDE + 1
    for number in range(count):
        desk.wait(1, b"%d" % number)
    desk.clock.advance(1000)
    desk.write()
    desk.delays.start()
    desk.disk.fail("sync", 1)
    desk.timers.drain()
    assert (desk.waiting(1), desk.progress.get(1)) == (count, 0)
    assert desk.delays.next_due_ms() is not None, "the level stands where it did"
    desk.delays.stop()
    again = Desk(desk.disk.kill(), clock=desk.clock, geometry=geometry).start()
    again.timers.advance(1000)
    assert [int(body) for body in again.bodies()[-count:]] == list(range(count))


def test_queues_that_cannot_be_read_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other levels go on."""
    desk = Desk().start()
    desk.wait(1)
    units = desk.store.units

    def fail(*_: object) -> Any:
        raise StoreError("no")

    monkeypatch.setattr(desk.store, "units", fail)
    desk.timers.advance(1010)
    assert desk.bodies() == []
    monkeypatch.setattr(desk.store, "units", units)
    desk.timers.advance(1010)
    assert desk.bodies() == [b"x"]


def test_a_restart_goes_on_where_it_was() -> None:
    """What was delivered is not delivered again, what waits still comes."""
    desk = Desk().start()
    desk.wait(1, b"a")
    desk.timers.advance(1010)
    desk.wait(1, b"b")
    again = desk.killed().start()
    assert again.bodies() == [b"a"]
    again.timers.advance(1010)
    assert again.bodies() == [b"a", b"b"]


def test_a_kill_before_the_progress_is_noted_delivers_twice() -> None:
    """Never not at all: the copy comes first."""
    desk = Desk().start()
    desk.wait(1)
    desk.progress.note = lambda *_: None  # type: ignore[method-assign]
    desk.timers.advance(1010)
    assert desk.bodies() == [b"x"]
    again = desk.killed().start()
    again.timers.advance(1)
    assert again.bodies() == [b"x", b"x"]


def test_levels_that_the_settings_lost_are_delivered_all_the_same() -> None:
    """At their own time if that is not further off than the highest level there is now."""
    desk = Desk()
    desk.wait(3)
    again = desk.killed(levels="1s").start()
    again.timers.advance(1010)
    assert again.bodies() == [b"x"]


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000, 60, -60, 1, -1])
def test_a_clock_that_is_set_brings_no_message_early_and_holds_none_up(step_ms: int) -> None:
    """Neither those that wait already nor those that come later; each comes once."""
    desk = Desk().start()
    desk.wait(2, b"a")
    desk.timers.advance(2000)
    desk.clock.step_wall(step_ms)
    desk.wait(2, b"b")
    desk.timers.advance(2900)
    assert desk.bodies() == []
    desk.timers.advance(200)
    assert desk.bodies() == [b"a"]
    desk.clock.step_wall(-step_ms)
    desk.wait(1, b"c")
    desk.timers.advance(900)
    assert desk.bodies() == [b"a"]
    desk.timers.advance(1100)
    assert sorted(desk.bodies()) == [b"a", b"b", b"c"]
    desk.timers.advance(7_200_000)
    assert len(desk.bodies()) == 3


def test_a_clock_set_back_between_two_processes_holds_messages_for_one_delay_more() -> None:
    """How long nobody was there is not known; none comes early."""
    desk = Desk(clock=FakeClock(2_000_000_000_000))
    desk.wait(2)
    again = Desk(desk.disk.kill(), clock=FakeClock(1_000_000_000_000)).start()
    again.timers.advance(4900)
    assert again.bodies() == []
    again.timers.advance(200)
    assert again.bodies() == [b"x"]


def test_progress_outside_of_the_queue_is_moved_into_it() -> None:
    """A file that says more than there is would hold everything that comes."""
    desk = Desk()
    desk.progress.note(1, 50)
    desk.start()
    desk.wait(1)
    desk.timers.advance(2000)
    assert desk.bodies() == [b"x"]


def test_a_stopped_delivery_begins_nothing() -> None:
    """The batch under way may end."""
    desk = Desk().start()
    desk.wait(1)
    desk.delays.stop()
    desk.timers.advance(5000)
    assert desk.bodies() == []


def test_async_flush_notes_only_what_is_safe() -> None:
    """A power loss that takes the copy takes the progress too."""
    desk = Desk(flush="async")
    desk.wait(1)
    desk.start()
    desk.timers.advance(1000)
    assert desk.bodies() == [b"x"]
    assert advance(desk.progress.table.flush_steps()) is None
    desk.store.sync()
    assert advance(desk.progress.table.flush_steps()) is not None
