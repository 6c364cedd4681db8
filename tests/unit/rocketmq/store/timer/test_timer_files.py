"""Timer log, wheel and checkpoint: byte for byte RocketMQ's, and whole after any end."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.recorded import Recorded

from sprocket.base.disk import Disk, RealDisk, read_file, steps
from sprocket.base.errors import CorruptRecord, DiskFull, OffsetTooLarge
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.timer import (
    DEFAULT,
    DELETE,
    SLOT,
    NewTimer,
    TimerCheckpoint,
    TimerFiles,
    TimerRecord,
    timer_checkpoint,
)
from sprocket.rocketmq.store.timer.timer_wheel import EMPTY, TimeSlot
from sprocket.testing.disk import SimulatedDisk

TIMED = ("06-delay-timer", "06b-timer-kill9")
PRECISION_MS = 1000
NOW = 1_700_000_000
LAYOUT = StoreLayout("/s")


def opened(
    disk: Disk,
    *,
    is_whole: bool = True,
    layout: StoreLayout = LAYOUT,
    precision_ms: int = PRECISION_MS,
    slots: int = 64,
) -> TimerFiles:
    """Open the files, with room for four records in each of the log."""
    disk.make_folder(layout.config)
    return TimerFiles(
        disk, layout, precision_ms, is_whole=is_whole, log_bytes=4 * 52 + 16, slots=slots
    )


def link(number: int, place: int, magic: int = DEFAULT) -> tuple[int, NewTimer]:
    """Return a message that is due in the middle of a slot."""
    return number, NewTimer(magic, NOW * 1000, (number - NOW) * 1000 + 500, place, 100, 7)


def chain(files: TimerFiles, number: int) -> list[int]:
    """Return the places of the messages of a slot, in their order."""
    slot = files.slot(number)
    position, found = slot.last, []
    while position >= 0:
        part, position = files.log.chain(position, -1, 3)
        found += [record.place for _, record in part]
    return found[::-1]


def keep(files: TimerFiles, read_at_ms: int = NOW * 1000) -> None:
    """Have what was put survive."""
    checkpoint = TimerCheckpoint(read_at_ms=read_at_ms, log_end=files.log.end)
    steps.run(files.keep_steps(checkpoint))


def recorded(name: str, tmp_path: Path) -> tuple[TimerFiles, StoreLayout]:
    """Return the files that a RocketMQ wrote, and where they are."""
    layout = StoreLayout(Recorded(name).unpack(tmp_path / "theirs"))
    return TimerFiles(RealDisk(), layout, PRECISION_MS, is_whole=True), layout


def all_records(files: TimerFiles) -> list[tuple[int, TimerRecord]]:
    """Return what the log has."""
    found = []
    for position, rows in files.log.rows():
        found += [(position + 52 * n, files.log.read(position + 52 * n)) for n in range(len(rows))]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", TIMED)
def test_the_same_messages_give_rocketmqs_bytes(name: str, tmp_path: Path) -> None:
    """Log, wheel and checkpoint, whatever is put together; the wheel also from the log alone."""
    theirs, layout = recorded(name, tmp_path)
    records = all_records(theirs)
    assert len(records) == theirs.checkpoint.queue_offset
    disk, own = RealDisk(), StoreLayout(str(tmp_path / "ours"))
    disk.make_folder(own.config)
    ours = TimerFiles(disk, own, PRECISION_MS, is_whole=True, log_bytes=2048)
    links = [
        (record.due_at_ms // PRECISION_MS, NewTimer(*structs.astuple(record)[1:]))
        for _, record in records
    ]
    for start in range(0, len(links), 7):
        ours.put(links[start : start + 7])
    steps.run(ours.keep_steps(theirs.checkpoint))
    for file in disk.list(layout.timer_log):
        path = f"/{file}"
        assert read_file(disk, layout.timer_log + path) == read_file(disk, own.timer_log + path)
    shared = slice(timer_checkpoint.SHARED_BYTES)
    theirs_noted, ours_noted = (read_file(disk, one.timer_checkpoint) for one in (layout, own))
    assert theirs_noted[shared] == ours_noted[shared]
    expected, wheel = Path(layout.timer_wheel).read_bytes(), Path(own.timer_wheel)
    assert expected == wheel.read_bytes()
    assert wheel.stat().st_blocks * 512 < 1 << 20
    oldest = min(record.due_at_ms for _, record in records)
    steps.run(ours.keep_steps(TimerCheckpoint(oldest, ours.log.end)))
    ours.doubt()
    again = TimerFiles(disk, own, PRECISION_MS, is_whole=True)
    assert again.log.end == ours.log.end
    assert expected == wheel.read_bytes()


def test_a_slot_has_its_messages_in_their_order() -> None:
    """Over files of the log, which end with a mark."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, 1), link(NOW + 1, 2), link(NOW, 3)])
    files.put([link(NOW, place) for place in range(4, 11)])
    assert chain(files, NOW) == [1, 3, *range(4, 11)]
    assert chain(files, NOW + 1) == [2]
    assert files.slot(NOW + 64) is EMPTY
    data = read_file(disk, "/s/timerlog/00000000000000000000")
    assert struct.unpack(">iqI", data[-16:]) == (16, 0, 0xCBD43194)


def test_a_delete_counts_down() -> None:
    """RocketMQ's count of a slot is of what remains."""
    files = opened(SimulatedDisk())
    files.put([link(NOW, 1), link(NOW, 2), link(NOW, 3, DEFAULT | DELETE)])
    assert files.slot(NOW).waiting == 1


def test_used_slots_are_found() -> None:
    """From any number on, around the end of the wheel."""
    files = opened(SimulatedDisk(), slots=64)
    numbers = [NOW + 1, NOW + 2, NOW + 62]
    files.put([link(number, 1) for number in numbers])
    found = []
    number = files.next_used(NOW, NOW + 64)
    while number < NOW + 64:
        found.append(number)
        number = files.next_used(number + 1, NOW + 64)
    assert found == numbers
    assert opened(SimulatedDisk()).next_used(NOW, NOW + 10) == NOW + 10


def test_the_last_slot_that_is_used_is_found() -> None:
    """Wherever in the file it is; 0 without a file."""
    disk = SimulatedDisk()
    files = opened(disk, slots=1 << 17)
    assert files.wheel.last_used() == 0
    for number, last in ((5, 5), (70_000, 70_000), (6, 70_000), (130_000, 130_000)):
        files.put([link(NOW + number, number)])
        assert files.wheel.last_used() == NOW + last
    files.put([link(NOW + (1 << 17) + 1, 1)])
    keep(files)
    assert opened(disk, slots=1 << 17).wheel.last_used() == NOW + (1 << 17) + 1


def test_slots_of_another_round_do_not_count() -> None:
    """They are overwritten."""
    files = opened(SimulatedDisk(), slots=64)
    files.put([link(NOW, 1)])
    files.put([link(NOW + 64, 2)])
    assert files.slot(NOW) is EMPTY
    assert chain(files, NOW + 64) == [2]


def test_after_a_clean_end_all_is_there() -> None:
    """Nothing is made again."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, place) for place in range(9)])
    keep(files)
    again = opened(disk)
    assert chain(again, NOW) == [*range(9)]
    assert again.log.end == files.log.end


def test_making_files_does_not_wait_for_the_disk() -> None:
    """Messages are put on the event loop; names become durable with what is in the files."""
    disk = SimulatedDisk()
    files = opened(disk)
    calls: list[str] = []
    disk.before = lambda call, _: calls.append(call)
    files.put([link(NOW, place) for place in range(9)])
    assert [call for call in calls if "sync" in call] == []
    disk.before = None
    keep(files)
    again = opened(disk.crash(lambda _: 0), is_whole=False)
    assert chain(again, NOW) == [*range(9)]


@pytest.mark.parametrize("kept", range(10))
def test_after_a_kill_the_checkpoint_counts(kept: int) -> None:
    """What was put later is not there, wherever the file ended."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW + place % 2, place) for place in range(kept)])
    keep(files)
    files.put([link(NOW + place % 2, place) for place in range(kept, kept + 6)])
    again = opened(disk.kill(), is_whole=False)
    for number in (NOW, NOW + 1):
        assert chain(again, number) == [p for p in range(kept) if NOW + p % 2 == number]
    again.put([link(NOW, 77)])
    assert chain(again, NOW)[-1] == 77
    assert not again.log.goes_on()


def test_what_lies_behind_the_checkpoint_is_cut_even_after_a_clean_end() -> None:
    """The last checkpoint could not be written."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, 1)])
    keep(files)
    files.put([link(NOW, 2)])
    again = opened(disk)
    assert chain(again, NOW) == [1]


def test_a_missing_wheel_is_made_again() -> None:
    """And one of another precision."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, 1), link(NOW + 1, 2)])
    keep(files)
    files.doubt()
    again = opened(disk)
    assert chain(again, NOW) == [1]
    steps.run(again.keep_steps(TimerCheckpoint(NOW * 1000, again.log.end, precision_ms=1000)))
    finer = opened(disk, precision_ms=100)
    assert chain(finer, NOW * 10 + 5) == [1]


def test_slots_before_the_checkpoint_are_not_made_again() -> None:
    """They were delivered."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, 1), link(NOW + 1, 2)])
    keep(files, read_at_ms=(NOW + 1) * 1000)
    again = opened(disk, is_whole=False)
    assert again.slot(NOW) is EMPTY
    assert chain(again, NOW + 1) == [2]


@pytest.mark.parametrize("end", [1, 52 * 4 + 16, 10_000])
def test_a_checkpoint_that_does_not_fit_the_log_counts_for_nothing(end: int) -> None:
    """The owner begins with the first message of the topic."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, 1), link(NOW, 2)])
    steps.run(files.keep_steps(TimerCheckpoint(1, 52 * 2)))
    steps.run(files.keep_steps(TimerCheckpoint(1, end, 2)))
    again = opened(disk)
    if end == 52 * 4 + 16:  # RocketMQ's may lie directly behind a file that has no successor yet
        assert again.log.end == end
    else:
        assert again.checkpoint == TimerCheckpoint()
        assert again.slot(NOW) is EMPTY


@pytest.mark.parametrize("path", ["timerwheel", "timerlog"])
def test_a_write_that_fails_puts_nothing(path: str) -> None:
    """And the next one is as if it had not been."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, 1), link(NOW + 1, 2)])

    def fail(call: str, name: str) -> None:
        if call == "write" and path in name:
            raise DiskFull("no room")

    disk.before = fail
    with pytest.raises(DiskFull):
        files.put([link(NOW, 3), link(NOW + 2, 4)])
    assert chain(files, NOW) == [1]
    assert files.next_used(NOW + 2, NOW + 9) in (NOW + 2, NOW + 9)
    assert files.slot(NOW + 2) is EMPTY
    disk.before = None
    files.put([link(NOW + 1, 5), link(NOW, 6)])
    assert chain(files, NOW) == [1, 6]
    assert chain(files, NOW + 1) == [2, 5]
    assert files.slot(NOW + 2) is EMPTY


def test_a_damaged_chain_is_an_error() -> None:
    """Never a circle."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, 1), link(NOW, 2)])
    with pytest.raises(OffsetTooLarge):
        files.log.chain(10_000, -1, 5)
    files.wheel.write({NOW: TimeSlot(0, 104, 2)})
    with pytest.raises(CorruptRecord):
        files.log.chain(files.slot(NOW).last, -1, 5)
    file = disk.open("/s/timerlog/00000000000000000000", write=True)
    file.write([struct.pack(">iq", 52, 52)], 52)
    with pytest.raises(CorruptRecord):
        files.log.chain(52, -1, 5)
    with pytest.raises(CorruptRecord):
        files.log.chain(52, 60, 5)


def test_files_go_with_the_messages() -> None:
    """When the commit log begins after the last message of one."""
    files = opened(SimulatedDisk())
    files.put([link(NOW, place) for place in range(10)])
    steps.run(files.log.clean_steps(3))
    assert files.log.first == 0
    steps.run(files.log.clean_steps(4))
    assert files.log.first == 4 * 52 + 16
    steps.run(files.log.clean_steps(100))
    assert files.log.first == 2 * (4 * 52 + 16)
    assert [record.place for _, record in all_records(files)] == [8, 9]


def test_a_slot_is_thirty_two_bytes() -> None:
    """As RocketMQ's."""
    disk = SimulatedDisk()
    files = opened(disk)
    files.put([link(NOW, 1)])
    data = read_file(disk, "/s/timerwheel")
    assert len(data) == 64 * 32
    assert SLOT.unpack_from(data, NOW % 64 * 32) == (NOW, 0, 0, 1, 0)


@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=9), max_size=8),
    kept=st.integers(0, 8),
    choices=st.lists(st.integers(0, 1 << 30), max_size=40),
)
def test_files_equal_lists(
    batches: Sequence[Sequence[tuple[int, bool]]], kept: int, choices: list[int]
) -> None:
    """Also after a loss of power: those of the checkpoint, or of a later one."""
    disk = SimulatedDisk()
    files = opened(disk)
    model: dict[int, list[int]] = {}
    place = 0
    kept_model: dict[int, list[int]] = {}
    for count, batch in enumerate(batches):
        links = []
        for number, is_delete in batch:
            place += 1
            links.append(link(NOW + number, place, DEFAULT | (DELETE if is_delete else 0)))
            model.setdefault(NOW + number, []).append(place)
        files.put(links)
        if count == kept:
            keep(files)
            kept_model = {number: [*places] for number, places in model.items()}
    for number in range(NOW, NOW + 10):
        assert chain(files, number) == model.get(number, [])
    left = iter(choices)
    again = opened(disk.crash(lambda count: next(left, 0) % count), is_whole=False)
    for number in range(NOW, NOW + 10):
        assert chain(again, number) == kept_model.get(number, [])
