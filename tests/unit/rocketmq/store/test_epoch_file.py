"""The epochs beside a log survive whatever comes, or are refused by name."""

import random
from collections.abc import Callable

import pytest
from tests.stores import ROOT

from sprocket.base.disk import read_file
from sprocket.base.errors import DiskFailed, ForeignStore
from sprocket.rocketmq.codec import epoch_file
from sprocket.rocketmq.model.epochs import NO_EPOCH, Epoch, Epochs
from sprocket.rocketmq.store.epoch_file import EpochFile
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.testing.disk import CHANGES as CHANGES_OF_DISKS
from sprocket.testing.disk import SimulatedDisk

LAYOUT = StoreLayout(ROOT)


def fresh(*epochs: Epoch) -> SimulatedDisk:
    """Return a disk with epochs."""
    disk = SimulatedDisk()
    disk.make_folder(LAYOUT.config)
    for one in epochs:
        load(disk).begin(one)
    return disk


def load(disk: SimulatedDisk) -> EpochFile:
    """Return what another process finds."""
    return EpochFile(disk, LAYOUT)


def test_nothing_there_is_no_epoch() -> None:
    """So a store of one machine has none, and no file of them."""
    disk = fresh()
    found = load(disk)
    assert (found.epochs, found.promised) == (Epochs(), NO_EPOCH)
    found.agree_with(0, 0)
    assert not disk.exists(LAYOUT.epochs)


def test_epochs_and_promises_are_kept() -> None:
    """And what was promised is never taken back, nor an older one begun."""
    disk = fresh(Epoch(1, 0), Epoch(2, 70))
    found = load(disk)
    assert str(found.epochs) == "[1@0, 2@70]"
    assert found.promised == 2
    found.promise(5)
    found.promise(4)
    assert load(disk).promised == 5
    with pytest.raises(ValueError, match="older than 5"):
        found.begin(Epoch(4, 90))
    found.begin(Epoch(5, 90))
    assert str(load(disk).epochs) == "[1@0, 2@70, 5@90]"


def test_a_log_that_is_cut_keeps_its_promise() -> None:
    """The epoch that is over is not followed again, though no byte of it is left."""
    disk = fresh(Epoch(1, 0), Epoch(2, 70))
    load(disk).cut(70)
    found = load(disk)
    assert (str(found.epochs), found.promised) == ("[1@0]", 2)
    load(disk).cut(0)
    found = load(disk)
    assert (found.epochs, found.promised) == (Epochs(), 2)
    assert not disk.exists(LAYOUT.epochs)
    assert not disk.exists(LAYOUT.epochs + ".bak")


def test_a_log_without_epochs_is_cut_too() -> None:
    """There is nothing to be promised, and no file of it."""
    disk = fresh()
    load(disk).cut(0)
    found = load(disk)
    assert (found.epochs, found.promised) == (Epochs(), NO_EPOCH)
    assert not disk.exists(LAYOUT.promised_epoch)


def test_epochs_go_with_the_files_of_the_log() -> None:
    """Those that ended before its first byte."""
    disk = fresh(Epoch(1, 0), Epoch(2, 70), Epoch(4, 90))
    load(disk).agree_with(89, 100)
    assert str(load(disk).epochs) == "[2@70, 4@90]"


@pytest.mark.parametrize("path", [LAYOUT.epochs, LAYOUT.promised_epoch])
@pytest.mark.parametrize("content", [None, b"", b"1\n2\n3-0\n", b"7 7\n"])
def test_the_copy_stands_in(path: str, content: bytes | None) -> None:
    """It has the newest epoch as well, unlike the backups of other files; both are whole again."""
    disk = fresh(Epoch(1, 0), Epoch(2, 70))
    load(disk).promise(3)
    for damaged in (path, path + ".bak"):
        whole = read_file(disk, damaged)
        spoil(disk, damaged, content)
        found = load(disk)
        assert (str(found.epochs), found.promised) == ("[1@0, 2@70]", 3)
        assert read_file(disk, damaged) == whole


def spoil(disk: SimulatedDisk, path: str, content: bytes | None) -> None:
    """Put something else in the place of a file."""
    disk.remove(path)
    if content is not None:
        disk.open(path, write=True, create=True).write([content], 0)


@pytest.mark.parametrize("path", [LAYOUT.epochs, LAYOUT.promised_epoch])
def test_what_is_damaged_twice_is_refused(path: str) -> None:
    """By its name: a guess would let two logs count as equal that are not."""
    disk = fresh(Epoch(1, 0))
    load(disk).promise(3)
    spoil(disk, path, b"1\n2\n3-0\n")
    spoil(disk, path + ".bak", b"x")
    with pytest.raises(ForeignStore, match=path):
        load(disk)


def test_a_log_needs_epochs_from_its_first_byte_on() -> None:
    """What lies before them might be anybody's."""
    for disk in (fresh(), fresh(Epoch(2, 70))):
        with pytest.raises(ForeignStore, match="the log begins at 0 and ends at 100"):
            load(disk).agree_with(0, 100)
    load(fresh(Epoch(2, 70))).agree_with(70, 100)
    load(fresh(Epoch(2, 70))).agree_with(80, 100)


def test_a_log_that_lost_its_end_lost_its_last_epochs() -> None:
    """One that begins where it ends has lost nothing; what was promised stays so."""
    disk = fresh(Epoch(1, 0), Epoch(2, 70), Epoch(4, 90))
    load(disk).agree_with(0, 90)
    assert str(load(disk).epochs) == "[1@0, 2@70, 4@90]"
    load(disk).agree_with(0, 89)
    found = load(disk)
    assert (str(found.epochs), found.promised) == ("[1@0, 2@70]", 4)


CHANGES: list[Callable[[EpochFile], None]] = [
    lambda file: file.begin(Epoch(3, 90)),
    lambda file: file.promise(9),
    lambda file: file.cut(70),
    lambda file: file.cut(0),
    lambda file: file.agree_with(75, 100),
    lambda file: file.agree_with(0, 30),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_crash_leaves_the_old_or_the_new_one(number: int) -> None:
    """Before any call that changes the disk, whatever of it was durable."""
    states: list[SimulatedDisk] = []
    disk = fresh(Epoch(1, 0), Epoch(2, 70))
    old = load(disk)
    before = (old.epochs, old.promised)
    choose = random.Random(number).randrange
    disk.before = lambda call, _: (
        states.extend(disk.crash(choose) for _ in range(3)) if call in CHANGES_OF_DISKS else None
    )
    CHANGES[number](old)
    disk.before = None
    after = (old.epochs, old.promised)
    promised = 9 if number == 1 else max(before[1], after[1])
    for state in [*states, disk.crash(choose)]:
        found = load(state)
        assert found.epochs in (before[0], after[0])
        assert before[1] <= found.promised <= promised
        load(state.crash(choose))
    assert (load(disk).epochs, load(disk).promised) == after
    assert (load(disk.crash(choose)).epochs, load(disk.crash(choose)).promised) == after


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename", "sync_folder"])
def test_a_disk_that_fails_is_an_error(call: str) -> None:
    """And the next process finds the old epochs or the new ones."""
    disk = fresh(Epoch(1, 0))
    file = load(disk)
    disk.fail(call)
    with pytest.raises(DiskFailed):
        file.begin(Epoch(2, 70))
    assert str(load(disk).epochs) in ("[1@0]", "[1@0, 2@70]")


def test_any_bit_of_both_copies_may_be_wrong() -> None:
    """As long as the other copy is whole, nothing changes."""
    disk = fresh(Epoch(1, 0), Epoch(2, 70))
    content = read_file(disk, LAYOUT.epochs)
    assert epoch_file.decode(content) == load(disk).epochs
    for bit in range(8 * len(content)):
        wrong = bytearray(content)
        wrong[bit // 8] ^= 1 << bit % 8
        spoil(disk, (LAYOUT.epochs, LAYOUT.epochs + ".bak")[bit % 2], bytes(wrong))
        assert str(load(disk).epochs) == "[1@0, 2@70]"
