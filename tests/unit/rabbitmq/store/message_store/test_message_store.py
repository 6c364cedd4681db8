"""The message store: kept once, read as stored, collected, opened again whatever happened."""

import errno
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.base.disk import read_file, steps
from sprocket.base.errors import CorruptRecord, DiskFull
from sprocket.rabbitmq.codec import checksums
from sprocket.rabbitmq.codec.store import entries, recovery_terms
from sprocket.rabbitmq.store.layout import VhostLayout, vhost_folder
from sprocket.rabbitmq.store.message_store import (
    MessageStore,
    StoreContents,
    close_steps,
    collect_steps,
    open_clean,
    recover,
)
from sprocket.rabbitmq.store.queue_index import IndexRecovery
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog, read_log
from sprocket.testing.disk import CHANGES, SimulatedDisk

ROOT = "/v"
PATHS = VhostLayout(ROOT).persistent
STORE = "msg_store_persistent"
FILE_BYTES = 300
REFERENCES = [b"0123456789abcdef", bytes(16)]


def message(number: int) -> bytes:
    """Return a message's id."""
    return b"%016d" % number


def term(number: int) -> bytes:
    """Return its term, of about 80 bytes."""
    content = b"message %d " % number * 4
    return b"\x83h\x06d\0\x0dbasic_message" + content + message(number) + b"d\0\4true"


def new(disk: SimulatedDisk, contents: StoreContents | None = None) -> MessageStore:
    """Return a store with small files."""
    disk.make_folder(PATHS.root)
    log = WriteAheadLog(disk, ROOT, 1 << 12, number=len(disk.list(ROOT)))
    found = contents or StoreContents({}, {})
    return MessageStore(disk, PATHS, log, Origin(STORE), found, FILE_BYTES)


def fill(store: MessageStore, *numbers: int, references: int = 1) -> None:
    """Add messages, durably."""
    for number in numbers:
        store.add(message(number), term(number), references)
    store.log.commit()


def check(store: MessageStore, *numbers: int) -> None:
    """See that these messages are there, and no others."""
    assert sorted(store.messages) == sorted(map(message, numbers))
    for number in numbers:
        assert store.read(message(number)) == term(number)
    for number, file in store.files.items():
        sizes = [one.entry_bytes for one in store.messages.values() if one.file == number]
        assert sum(sizes) == file.valid_bytes


def opened(disk: SimulatedDisk, *numbers: int) -> MessageStore:
    """Return the store that recovery makes, if queues need these messages."""
    tail = read_log(disk, ROOT).tails.get(STORE)
    sums = b"".join(tail.records) if tail is not None else b""
    found = recover(disk, PATHS, Counter(map(message, numbers)), sums)
    assert found.lost == frozenset()
    return new(disk, found.contents)


def test_a_message_is_written_once_for_all_queues() -> None:
    """It is there until the last of them has removed it; files have RabbitMQ's entries."""
    store = new(SimulatedDisk())
    fill(store, 1, references=2)
    fill(store, 1, 2)
    data = read_file(store.disk, PATHS.file(0))
    assert data == b"".join(
        [*entries.entry(message(1), term(1)), *entries.entry(message(2), term(2))]
    )
    store.remove([message(1), message(1)])
    check(store, 1, 2)
    store.remove([message(1)])
    check(store, 2)
    assert (message(1) in store, message(2) in store, len(store)) == (False, True, 1)


def test_a_file_goes_over_its_limit_by_one_entry_at_most() -> None:
    """Then the next one begins."""
    store = new(SimulatedDisk())
    fill(store, *range(7))
    size = entries.entry_size(len(term(0)))
    assert 2 * size < FILE_BYTES < 3 * size
    sizes = {number: file.file_bytes for number, file in store.files.items()}
    assert sizes == {0: 3 * size, 1: 3 * size, 2: size}
    check(store, *range(7))


def test_what_is_not_written_yet_can_be_read() -> None:
    """And is kept where there is no space for it."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, 0)
    store.add(message(1), term(1))
    disk.is_full = True
    with pytest.raises(DiskFull):
        store.log.write()
    disk.is_full = False
    check(store, 0, 1)
    store.log.commit()
    check(store, 0, 1)
    check(opened(disk.crash(lambda _: 0), 0, 1), 0, 1)


def test_a_changed_byte_is_noticed() -> None:
    """Wherever it is: a body is never handed out whose bytes are others."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, 0)
    file = disk.open(PATHS.file(0), write=True)
    for position in range(file.size()):
        byte = file.read(position, 1)
        file.write([bytes((byte[0] ^ 1,))], position)
        with pytest.raises(CorruptRecord, match=r"0\.rdq"):
            store.read(message(0))
        file.write([byte], position)
    check(store, 0)


def test_a_changed_byte_is_noticed_after_a_restart() -> None:
    """As the checksums lie beside the files."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, *range(5))
    steps.run(close_steps(store, REFERENCES))
    file = disk.open(PATHS.file(0), write=True)
    file.write([b"X"], 60)
    contents = open_clean(disk, PATHS, REFERENCES)
    assert contents is not None
    with pytest.raises(CorruptRecord, match="another checksum"):
        new(disk, contents).read(message(0))


def test_files_that_are_all_garbage_go() -> None:
    """But not the newest one."""
    store = new(SimulatedDisk())
    fill(store, *range(10))
    store.remove([message(n) for n in range(10)])
    assert (steps.run(collect_steps(store)), steps.run(collect_steps(store))) == (3, 0)
    check(store)
    assert store.disk.list(PATHS.root) == [f"{store.newest}.rdq"]


def test_what_is_left_of_two_files_becomes_one() -> None:
    """Until there is not enough garbage, or no pair fits."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, *range(40))
    kept = [n for n in range(40) if n % 5 == 0 or n > 36]
    store.remove([message(n) for n in range(40) if n not in kept])
    before = disk.contents()
    while steps.run(collect_steps(store)):
        check(store, *kept)
    after = disk.contents()
    rdq = [path for path in after if path.endswith(".rdq")]
    assert len(rdq) < len([path for path in before if path.endswith(".rdq")])
    check(opened(disk.crash(lambda _: 0), *kept), *kept)


class PowerLost(BaseException):
    """Everything stops."""


def lose(countdown: list[int], call: str, _path: str) -> None:
    """Stop before one of the calls that change the disk."""
    if call in CHANGES:
        countdown[0] -= 1
        if not countdown[0]:
            raise PowerLost


def lives(seed: int, nth: int) -> bool:
    """Collect, losing power before call number `nth`; return whether it came to that."""
    random = Random(seed)
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, *range(24))
    kept = [*sorted(random.sample(range(20), 4)), 22, 23]
    store.remove([message(n) for n in range(24) if n not in kept])
    disk.before = partial(lose, [nth])
    is_lost = False
    try:
        while steps.run(collect_steps(store)):
            pass
        steps.run(store.sums_steps(also_newest=True))
    except PowerLost:
        is_lost = True
    disk.before = None
    for found in (disk.kill(), *(disk.crash(random.randrange) for _ in range(4))):
        check(opened(found, *kept), *kept)
    return is_lost


@pytest.mark.slow
def test_collecting_loses_nothing_whenever_the_power_goes() -> None:
    """Before each call, with several choices of what is left."""
    for seed in range(5):
        nth = 1
        while lives(seed, nth):
            nth += 1
        assert nth > 15


def test_a_clean_stop_is_taken_at_its_word_once() -> None:
    """The files that say so are gone after that."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, *range(9), references=2)
    store.remove(map(message, range(0, 9, 2)))
    store.remove(map(message, range(0, 9, 4)))
    expected = {key: (one.references, one.file) for key, one in store.messages.items()}
    steps.run(close_steps(store, REFERENCES))
    contents = open_clean(disk, PATHS, REFERENCES[::-1])
    assert contents is not None
    assert {key: (one.references, one.file) for key, one in contents.messages.items()} == expected
    check(new(disk, contents), 1, 2, 3, 5, 6, 7)
    assert open_clean(disk, PATHS, REFERENCES) is None


def other_size(disk: SimulatedDisk) -> None:
    """Lengthen a file."""
    file = disk.open(PATHS.file(0), write=True)
    file.write([b"x"], file.size())


def torn_table(disk: SimulatedDisk) -> None:
    """Cut a table."""
    file = disk.open(PATHS.index, write=True)
    file.resize(file.size() - 1)


def compacting(disk: SimulatedDisk) -> None:
    """Leave what a compaction of RabbitMQ's leaves."""
    disk.open(PATHS.compacted_file(0), write=True, create=True)


def no_file(disk: SimulatedDisk) -> None:
    """Remove a file."""
    disk.remove(PATHS.file(1))


@pytest.mark.parametrize("spoil", [other_size, torn_table, compacting, no_file])
def test_a_clean_stop_that_is_wrong_is_not_trusted(spoil: Callable[[SimulatedDisk], None]) -> None:
    """Then every file is looked at."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, *range(9))
    steps.run(close_steps(store, REFERENCES))
    spoil(disk)
    assert open_clean(disk, PATHS, REFERENCES) is None
    found = recover(disk, PATHS, Counter(map(message, range(9))))
    assert len(found.contents.messages) + len(found.lost) == 9
    assert len(found.lost) == (0 if spoil is not no_file else 3)


def test_other_queues_are_not_trusted() -> None:
    """The references must be those of the recovery terms."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, 0)
    steps.run(close_steps(store, REFERENCES))
    assert open_clean(disk, PATHS, REFERENCES[:1]) is None


def test_what_a_compaction_of_rabbitmq_left_is_taken() -> None:
    """Behind zeros, too, at which RabbitMQ loses it."""
    disk = SimulatedDisk()
    disk.make_folder(PATHS.root)
    first, second = (b"".join(entries.entry(message(n), term(n))) for n in (0, 1))
    for path, data in ((PATHS.file(0), first + bytes(50)), (PATHS.compacted_file(0), second)):
        file = disk.open(path, write=True, create=True)
        file.write([data], 0)
    check(opened(disk, 0, 1), 0, 1)
    assert not disk.exists(PATHS.compacted_file(0))


def test_an_entry_that_a_crash_has_torn_does_not_count() -> None:
    """Though its mark is there; one of the same size that is whole does."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, 1, 2)
    file = disk.open(PATHS.file(0), write=True)
    file.write([bytes(9)], 60)
    tail = read_log(disk, ROOT).tails[STORE]
    found = recover(disk, PATHS, Counter([message(1), message(2)]), b"".join(tail.records))
    assert sorted(found.contents.messages) == [message(2)]
    assert found.lost == {message(1)}
    assert [one.what for one in found.damage] == [
        f"message {message(1).hex()} has another checksum"
    ]


def test_what_power_has_cut_off_over_the_end_of_a_file_is_no_damage() -> None:
    """The next file is there, and nothing of what was written last to both: it is cut off."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, *range(1, 9))
    last = max(one for one in range(1, 9) if store.messages[message(one)].file == 0)
    file = disk.open(PATHS.file(0), write=True)
    file.write([bytes(30)], store.messages[message(last)].position)
    found = recover(disk, PATHS, Counter(map(message, range(1, last))))
    assert (found.damage, found.lost) == ([], frozenset())
    assert [*found.contents.files] == [0]
    again = new(disk, found.contents)
    fill(again, 20, 21)
    check(again, *range(1, last), 20, 21)
    assert recover(disk, PATHS, Counter(map(message, [1, 20, 21]))).damage == []


def test_what_was_withdrawn_leaves_nothing_behind() -> None:
    """What was added behind it moves up, and nothing of a failed write is left."""
    disk = SimulatedDisk()
    store = new(disk)
    fill(store, 1, 2)
    size = disk.size(PATHS.file(0))
    for number in range(3, 12):
        store.add(message(number), term(number))
    disk.fail("write", 2, error=errno.ENOSPC)  # the first file is written, the second one not
    with pytest.raises(DiskFull):
        store.log.write()
    store.withdraw([message(one) for one in range(3, 12) if one != 5])
    check(store, 1, 2, 5)
    store.log.commit()
    assert store.log.pending_bytes == 0
    assert disk.size(PATHS.file(0)) == size
    assert disk.size(PATHS.file(1)) == entries.entry_size(len(term(5)))
    assert store.messages[message(5)].position == 0
    check(opened(disk, 1, 2, 5), 1, 2, 5)
    tail = read_log(disk, ROOT).tails[STORE]
    assert sorted(checksums.decode(b"".join(tail.records))) == [message(n) for n in (1, 2, 5)]


@pytest.mark.slow
def test_a_store_of_a_real_one() -> None:
    """By its clean stop and by its files it is the same, and each message is what it says."""
    recorded = RecordedVhosts("03-store-fanout")
    disk = recorded.in_memory()
    paths = VhostLayout(f"/vhosts/{vhost_folder('/')}")
    terms = recovery_terms.decode(read_file(disk, paths.recovery_terms)).queues
    contents = read_log(disk, paths.root)
    recovery = IndexRecovery(disk, paths, 2048, contents, disk.folders(paths.queues))
    wanted = Counter(recovery.stored_ids())
    references = [one.persistent_ref for one in terms.values() if one.persistent_ref]
    clean = open_clean(disk, paths.persistent, references)
    assert clean is not None
    assert {key: one.references for key, one in clean.messages.items()} == dict(wanted)
    found = recover(disk, paths.persistent, wanted)
    assert (found.damage, found.lost) == ([], frozenset())
    assert found.contents.messages == clean.messages
    for number, file in clean.files.items():
        assert found.contents.files.get(number, file) == file
