"""Committed offsets outlive the process however commits and flushes fall together."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from sprocket.base.disk import RealDisk, advance
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import Choose, SimulatedDisk


def flush_with(offsets: ConsumerOffsets, meanwhile: Callable[[], object]) -> None:
    """Flush, and do something when the snapshot has been begun."""
    work = offsets.table.flush_steps()
    call = advance(work)
    meanwhile()
    while call is not None:
        call = advance(work, call())


def test_journal_replaced_twice_keeps_its_name(tmp_path: Path) -> None:
    """Commits that come during one flush, and during the next, are all read again.

    The journal that was made during the first flush was renamed, but went on under the name it was
    made with; the second was then renamed to that, and a restart read the one before.
    """
    disk, folder = RealDisk(), str(tmp_path)
    disk.make_folder(f"{folder}/config")
    offsets = ConsumerOffsets(Place(disk, folder, FakeClock(1)))
    offset = 0
    for _ in range(3):
        offset += 1
        offsets.commit("group", "topic", 0, offset)
        offset += 1
        flush_with(offsets, partial(offsets.commit, "group", "topic", 0, offset))

    again = ConsumerOffsets(Place(disk, folder, FakeClock(1)))
    assert offset == again.get("group", "topic", 0)


OUTCOMES: dict[str, Choose] = {
    "all that was not synced is lost": lambda _: 0,
    "all of it is there": lambda count: count - 1,
    **{f"seed {seed}": Random(seed).randrange for seed in range(4)},
}
"""What a power cut may leave of names and blocks that were not synced."""


def commits_and_flushes(offsets: ConsumerOffsets, first: int, answered: dict[int, int]) -> None:
    """Commit in three queues, with a flush between, and note what was answered."""
    for number in range(7):
        queue_id, offset = number % 3, first + number
        offsets.commit("group", "topic", queue_id, offset)
        answered[queue_id] = offset
        if number in (2, 4):
            offsets.table.flush()


def at_each_call(disk: SimulatedDisk, run: Callable[[], None], seen: Callable[[], None]) -> None:
    """Run something, and look before each call that it makes to the disk, and at the end."""
    disk.before = lambda _call, _path: seen()
    run()
    disk.before = None
    seen()


def test_a_kill_after_a_power_cut_loses_no_answered_commit() -> None:
    """Whenever the power fails, what is answered after the restart outlives a kill at any moment.

    The next line of the journal followed a gap, and the replay ended there.
    """
    first_disk = SimulatedDisk()
    first_disk.make_folder("/s/config")
    crashed: list[tuple[str, SimulatedDisk]] = []

    def fail_power() -> None:
        crashed.extend((name, first_disk.crash(choose)) for name, choose in OUTCOMES.items())

    offsets = ConsumerOffsets(Place(first_disk, "/s", FakeClock(1)))
    at_each_call(first_disk, lambda: commits_and_flushes(offsets, 100, {}), fail_power)

    for name, disk in crashed:
        killed: list[tuple[SimulatedDisk, dict[int, int]]] = []
        answered: dict[int, int] = {}

        def kill(
            disk: SimulatedDisk = disk,
            killed: list[tuple[SimulatedDisk, dict[int, int]]] = killed,
            answered: dict[int, int] = answered,
        ) -> None:
            before, disk.before = disk.before, None
            killed.append((disk.kill(), dict(answered)))
            disk.before = before

        again = ConsumerOffsets(Place(disk, "/s", FakeClock(1)))
        run = partial(commits_and_flushes, again, 200, answered)
        at_each_call(disk, run, kill)
        for left, promised in killed:
            found = ConsumerOffsets(Place(left, "/s", FakeClock(1)))
            for queue_id, offset in promised.items():
                assert (found.get("group", "topic", queue_id) or 0) >= offset, name
