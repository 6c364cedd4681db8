"""Delayed messages come at their time, at least once, whatever cannot be read or stored."""

from typing import Any, cast

import pytest
from tests.inline import InlineReads, InlineThread
from tests.recorded import Recorded
from tests.timers import FakeTimers

from sprocket.base.disk import advance
from sprocket.base.errors import DiskFull, StoreError
from sprocket.base.place import Place
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.broker import flush_mode
from sprocket.rocketmq.broker.delay import DelayProgress, Delays
from sprocket.rocketmq.broker.delay.delay import BATCH, UNREADABLE_LOOKS_MAX
from sprocket.rocketmq.broker.delivery import PullHold
from sprocket.rocketmq.broker.messages import (
    Commits,
    DelayLevels,
    DurableAppender,
    ReputRounds,
    pending_acks,
)
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record_layout import MAGIC_V1
from sprocket.rocketmq.geometry import Geometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.model import filters
from sprocket.rocketmq.model.internal import HALF_TOPIC, SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import NewRecord, StoredMessage
from sprocket.rocketmq.settings import PullSettings, Settings, StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.durable_log import DurableLog
from sprocket.runtime.group_commit import READY_BESIDE, GroupCommit, Machine
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"
LEVELS = "1s 5s 2h"


class Harness:
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
        self.levels = DelayLevels(levels)
        small = Geometry.small()
        geometry = geometry or Geometry(
            log=LogGeometry(segment_bytes=64 * 1024), queue=small.queue, index=small.index
        )
        self.store = Store.open(self.disk, "/s", settings, self.clock, geometry)
        self.rounds = ReputRounds(
            self.store,
            self.timers,
            self.clock,
            [PullHold(self.timers, PullSettings())],
            Stats(self.clock),
        )
        pressure = Pressure(MIB, MIB)
        self.commits: Commits = GroupCommit(
            DurableLog(self.store, lambda: None),
            pending_acks,
            Machine(self.timers, self.clock, InlineThread(), InlineThread()),
            flush_mode(Settings(store=settings)),
            pressure,
            self.rounds,
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

    def start(self) -> "Harness":
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

    def killed(self, *, levels: str = LEVELS) -> "Harness":
        """Return what opens after the process was killed now."""
        return Harness(self.disk.kill(), clock=self.clock, levels=levels)


def test_each_message_comes_at_its_time() -> None:
    """Not a millisecond early, and within 10 ms of it; levels do not wait for each other."""
    harness = Harness().start()
    harness.wait(2, b"b")
    harness.wait(1, b"a")
    harness.timers.advance(999)
    assert harness.bodies() == []
    harness.timers.advance(10)
    assert harness.bodies() == [b"a"]
    harness.timers.advance(3990)
    assert harness.bodies() == [b"a"]
    harness.timers.advance(10)
    assert harness.bodies() == [b"a", b"b"]
    assert [harness.progress.get(level) for level in (1, 2, 3)] == [1, 1, 0]
    assert [harness.waiting(level) for level in (1, 2, 3)] == [0, 0, 0]
    assert harness.delays.next_due_ms() is None


def test_what_comes_while_nothing_waits_is_not_missed() -> None:
    """A level that was looked at in vain is looked at before anything in it can be due."""
    harness = Harness().start()
    harness.timers.advance(700)
    harness.wait(1)
    harness.timers.advance(900)
    assert harness.bodies() == []
    harness.timers.advance(450)
    assert harness.bodies() == [b"x"]


def test_many_that_are_due_come_in_batches_and_in_order() -> None:
    """One batch after the other, without a pause between them."""
    harness = Harness()
    for number in range(2 * BATCH + 5):
        harness.wait(1, b"%d" % number)
    harness.clock.advance(1000)
    harness.start()
    harness.timers.advance(0)
    assert harness.bodies() == [b"%d" % number for number in range(2 * BATCH + 5)]
    assert harness.progress.get(1) == 2 * BATCH + 5


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
    harness = Harness(clock=clock)
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
        harness.store.append(new)
    harness.store.write()
    harness.store.sync()
    clock.advance(7_200_000)
    harness.start()
    harness.timers.advance(0)
    found = {
        one.unique_key: one for queue in range(4) for one in harness.delivered("DelayA", queue)
    }
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
    harness = Harness().start()
    harness.wait(1, TAGS="wanted")
    harness.timers.advance(1010)
    assert harness.store.get_messages("T", 1, 0, wanted=filters.parse("wanted")).count == 1
    assert harness.store.get_messages("T", 1, 0, wanted=filters.parse("other")).count == 0


def test_the_level_goes_on_behind_what_cannot_be_delivered() -> None:
    """Without a place to go, with a wrong one, from elsewhere, damaged; said and passed over."""
    harness = Harness()
    for found in (
        {"DELAY": "1"},
        {"DELAY": "1", "REAL_TOPIC": "T"},
        {"DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "one"},
        {"DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "-1"},
        {"DELAY": "1", "REAL_TOPIC": HALF_TOPIC, "REAL_QID": "0"},
        {"DELAY": "1", "REAL_TOPIC": "a/b", "REAL_QID": "0"},
        {"DELAY": "1", "REAL_TOPIC": "t" * 200, "REAL_QID": "0"},
    ):
        harness.put("SCHEDULE_TOPIC_XXXX", 0, found)
    harness.wait(1, b"damaged")
    harness.wait(1, b"good")
    place = harness.store.units("SCHEDULE_TOPIC_XXXX", 0, 7, 1)[0][1]
    file = harness.disk.open("/s/commitlog/" + "0" * 20, write=True)
    file.write([b"D"], place + 88)
    harness.start()
    harness.timers.advance(1010)
    assert harness.bodies() == [b"good"]
    assert harness.progress.get(1) == 9
    assert harness.delivered(HALF_TOPIC, 0) == []


def test_a_bad_sector_holds_up_its_message_alone() -> None:
    """It may be readable in a moment; if not, the level goes on without it.

    The level stayed where it was, and tried again for ever.
    """
    harness = Harness()
    harness.wait(1, b"bad")
    harness.wait(1, b"good")
    harness.write()
    harness.timers.drain()
    harness = harness.killed()
    place = harness.store.units("SCHEDULE_TOPIC_XXXX", 0, 0, 1)[0][1]
    harness.disk.spoil("/s/commitlog/" + "0" * 20, place, 1)
    harness.start()
    harness.timers.advance(1010)
    for _ in range(UNREADABLE_LOOKS_MAX - 1):
        assert harness.bodies() == []
        harness.timers.advance(1010)
    harness.timers.advance(1010)
    assert harness.bodies() == [b"good"]
    assert harness.progress.get(1) == 2


def test_a_full_disk_delays_and_loses_nothing() -> None:
    """The level stays where it is and tries again; nothing is noted before it is stored."""
    harness = Harness().start()
    harness.wait(1, b"a")
    harness.wait(1, b"b")
    append = harness.store.append_all

    def refuse(_: NewRecord) -> Any:
        raise DiskFull("full")

    harness.store.append_all = cast("Any", refuse)
    harness.timers.advance(1010)
    harness.timers.advance(5000)
    assert (harness.bodies(), harness.progress.get(1)) == ([], 0)
    harness.store.append_all = append
    harness.timers.advance(1010)
    assert harness.bodies() == [b"a", b"b"]


def test_a_failed_write_delays_and_loses_nothing() -> None:
    """The copies are taken back with it, and made again."""
    harness = Harness().start()
    harness.wait(1)

    def fail(call: str, path: str) -> None:
        if call == "write" and "/commitlog/" in path:
            harness.disk.fail("write")

    harness.disk.before = fail
    harness.timers.advance(1010)
    harness.disk.before = None
    assert (harness.bodies(), harness.progress.get(1)) == ([], 0)
    harness.timers.advance(1010)
    assert harness.bodies() == [b"x"]


def test_a_failed_sync_notes_nothing() -> None:
    """Not even of a batch so large that its answers are made beside the sync."""
    geometry = Geometry(
        log=LogGeometry(segment_bytes=64 * 1024),
        queue=QueueGeometry(units_per_file=100),
        index=Geometry.small().index,
    )
    harness = Harness(geometry=geometry)
    count = READY_BESIDE + 1
    for number in range(count):
        harness.wait(1, b"%d" % number)
    harness.clock.advance(1000)
    harness.write()
    harness.delays.start()
    harness.disk.fail("sync", 1)
    harness.timers.drain()
    assert (harness.waiting(1), harness.progress.get(1)) == (count, 0)
    assert harness.delays.next_due_ms() is not None, "the level stands where it did"
    harness.delays.stop()
    again = Harness(harness.disk.kill(), clock=harness.clock, geometry=geometry).start()
    again.timers.advance(1000)
    assert [int(body) for body in again.bodies()[-count:]] == list(range(count))


def test_queues_that_cannot_be_read_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other levels go on."""
    harness = Harness().start()
    harness.wait(1)
    units = harness.store.units

    def fail(*_: object) -> Any:
        raise StoreError("no")

    monkeypatch.setattr(harness.store, "units", fail)
    harness.timers.advance(1010)
    assert harness.bodies() == []
    monkeypatch.setattr(harness.store, "units", units)
    harness.timers.advance(1010)
    assert harness.bodies() == [b"x"]


def test_a_restart_goes_on_where_it_was() -> None:
    """What was delivered is not delivered again, what waits still comes."""
    harness = Harness().start()
    harness.wait(1, b"a")
    harness.timers.advance(1010)
    harness.wait(1, b"b")
    again = harness.killed().start()
    assert again.bodies() == [b"a"]
    again.timers.advance(1010)
    assert again.bodies() == [b"a", b"b"]


def test_a_kill_before_the_progress_is_noted_delivers_twice() -> None:
    """Never not at all: the copy comes first."""
    harness = Harness().start()
    harness.wait(1)
    harness.progress.note = lambda *_: None  # type: ignore[method-assign]
    harness.timers.advance(1010)
    assert harness.bodies() == [b"x"]
    again = harness.killed().start()
    again.timers.advance(1)
    assert again.bodies() == [b"x", b"x"]


def test_levels_that_the_settings_lost_are_delivered_all_the_same() -> None:
    """At their own time if that is not further off than the highest level there is now."""
    harness = Harness()
    harness.wait(3)
    again = harness.killed(levels="1s").start()
    again.timers.advance(1010)
    assert again.bodies() == [b"x"]


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000, 60, -60, 1, -1])
def test_a_clock_that_is_set_brings_no_message_early_and_holds_none_up(step_ms: int) -> None:
    """Neither those that wait already nor those that come later; each comes once."""
    harness = Harness().start()
    harness.wait(2, b"a")
    harness.timers.advance(2000)
    harness.clock.step_wall(step_ms)
    harness.wait(2, b"b")
    harness.timers.advance(2900)
    assert harness.bodies() == []
    harness.timers.advance(200)
    assert harness.bodies() == [b"a"]
    harness.clock.step_wall(-step_ms)
    harness.wait(1, b"c")
    harness.timers.advance(900)
    assert harness.bodies() == [b"a"]
    harness.timers.advance(1100)
    assert sorted(harness.bodies()) == [b"a", b"b", b"c"]
    harness.timers.advance(7_200_000)
    assert len(harness.bodies()) == 3


def test_a_clock_set_back_between_two_processes_holds_messages_for_one_delay_more() -> None:
    """How long nobody was there is not known; none comes early."""
    harness = Harness(clock=FakeClock(2_000_000_000_000))
    harness.wait(2)
    again = Harness(harness.disk.kill(), clock=FakeClock(1_000_000_000_000)).start()
    again.timers.advance(4900)
    assert again.bodies() == []
    again.timers.advance(200)
    assert again.bodies() == [b"x"]


def test_progress_outside_of_the_queue_is_moved_into_it() -> None:
    """A file that says more than there is would hold everything that comes."""
    harness = Harness()
    harness.progress.note(1, 50)
    harness.start()
    harness.wait(1)
    harness.timers.advance(2000)
    assert harness.bodies() == [b"x"]


def test_a_stopped_delivery_begins_nothing() -> None:
    """The batch under way may end."""
    harness = Harness().start()
    harness.wait(1)
    harness.delays.stop()
    harness.timers.advance(5000)
    assert harness.bodies() == []


def test_async_flush_notes_only_what_is_safe() -> None:
    """A power loss that takes the copy takes the progress too."""
    harness = Harness(flush="async")
    harness.wait(1)
    harness.start()
    harness.timers.advance(1000)
    assert harness.bodies() == [b"x"]
    assert advance(harness.progress.table.flush_steps()) is None
    harness.store.sync()
    assert advance(harness.progress.table.flush_steps()) is not None
