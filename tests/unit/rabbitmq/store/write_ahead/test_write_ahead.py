"""The log of all queues: what is written is found again, files come and go, nothing is lost."""

import errno
from collections.abc import Sequence

import pytest

from sprocket.base.disk import steps
from sprocket.base.errors import DiskFailed, DiskFull, StoreFailed
from sprocket.rabbitmq.codec import index, write_ahead
from sprocket.rabbitmq.codec.write_ahead import (
    EntryKind,
    NamedOrigin,
    SegmentAppend,
    WriteAheadBatch,
)
from sprocket.rabbitmq.store.layout import write_ahead_files
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog, read_log, set_aside
from sprocket.testing.disk import SimulatedDisk

FILE_BYTES = 500
ROOT = "/v"


def new(disk: SimulatedDisk) -> WriteAheadLog:
    """Return a log with small files."""
    disk.make_folder(ROOT)
    return WriteAheadLog(disk, ROOT, FILE_BYTES)


def records(disk: SimulatedDisk) -> dict[str, bytes]:
    """Return what the log has of each queue."""
    return {name: b"".join(tail.records) for name, tail in read_log(disk, ROOT).tails.items()}


def files(disk: SimulatedDisk) -> list[int]:
    """Return the numbers of its files."""
    return write_ahead_files(disk.list(ROOT))


def fill(log: WriteAheadLog, origin: Origin, parts: Sequence[bytes]) -> None:
    """Commit each part by itself."""
    for part in parts:
        log.append(origin, part)
        log.commit()


def test_what_is_committed_is_found_after_a_power_loss() -> None:
    """Of each queue by itself, in order; what was not committed is not."""
    disk = SimulatedDisk()
    log = new(disk)
    a, b = Origin("A"), Origin("B", journal_bytes=7)
    log.append(a, b"1")
    log.append(b, b"x")
    log.append(a, b"2")
    log.commit()
    log.append(b, b"y")
    found = disk.crash(lambda _: 0)
    assert records(found) == {"A": b"12", "B": b"x"}
    assert read_log(found, ROOT).tails["B"].journal_bytes == 7
    log.commit()
    assert records(disk.crash(lambda _: 0)) == {"A": b"12", "B": b"xy"}


def test_a_write_tells_where_the_log_ends() -> None:
    """Also if there was nothing to write: whoever syncs to there has all."""
    log = new(SimulatedDisk())
    log.append(Origin("A"), b"first")
    end = log.write()
    assert end > 0
    assert log.write() == end


def test_a_batch_is_there_whole_or_not_at_all() -> None:
    """Cut anywhere, or with any byte changed, it does not count, and what came before does."""
    disk = SimulatedDisk()
    log = new(disk)
    fill(log, Origin("A"), [b"first"])
    start = len(disk.contents()["/v/sprocket.wal.0"].rstrip(b"\0"))
    log.append(Origin("B"), b"second")
    log.write()
    end = len(disk.contents()["/v/sprocket.wal.0"].rstrip(b"\0"))
    for position in range(start, end):
        torn = disk.kill()
        file = torn.open("/v/sprocket.wal.0", write=True)
        file.write([bytes((file.read(position, 1)[0] ^ 0x10,))], position)
        assert records(torn) == {"A": b"first"}


def test_files_that_no_queue_needs_go_or_are_used_again() -> None:
    """A queue needs them until its flush is done; one is kept, and is the next but one."""
    disk = SimulatedDisk()
    log = new(disk)
    a, b = Origin("A"), Origin("B")
    for number in range(5):
        fill(log, a, [b"%d" % number * FILE_BYTES])
    fill(log, b, [b"b"])
    assert files(disk) == [0, 1, 2, 3, 4, 5]
    assert steps.run(log.retire_steps()) == 0
    log.begin_flush(a, [])
    log.commit()
    fill(log, a, [b"later"])
    log.end_flush(a)
    log.commit()
    assert steps.run(log.retire_steps()) == 4
    assert files(disk) == [4, 5]
    assert records(disk.crash(lambda _: 0)) == {"A": b"later", "B": b"b"}
    fill(log, b, [FILE_BYTES * b"c", b"d"])
    assert files(disk) == [5, 6]
    assert records(disk) == {"A": b"later", "B": b"b" + FILE_BYTES * b"c" + b"d"}


def test_what_a_purge_made_void_holds_no_file() -> None:
    """Only the file that says so is needed, until a flush has removed those of the queue."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    for number in range(3):
        fill(log, a, [b"%d" % number * FILE_BYTES])
    log.forget(a)
    log.commit()
    assert steps.run(log.retire_steps()) == 2
    assert files(disk) == [2, 3]


def test_a_file_that_is_used_again_does_not_speak_of_its_past() -> None:
    """Before anything is written to it, too."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [FILE_BYTES * b"a", b"1"])
    log.begin_flush(a, [])
    log.commit()
    log.end_flush(a)
    log.commit()
    fill(log, a, [FILE_BYTES * b"b"])
    job = log.begin_fill()
    assert job is not None
    job.run()
    job.finish(None)
    assert files(disk) == [1, 2]
    assert records(disk) == {"A": FILE_BYTES * b"b"}
    flip = disk.open("/v/sprocket.wal.1", write=True)
    flip.write([b"X"], 0)  # nothing says any more which batch must come next
    assert records(disk) == {"A": FILE_BYTES * b"b"}


def test_flushes_and_removals() -> None:
    """What they make void, and what recovery must look at."""
    disk = SimulatedDisk()
    log = new(disk)
    a, b = Origin("A", 50), Origin("B", 60)
    appends = [SegmentAppend(3, 100, 20, 0xFFFFFFFF)]
    log.append(a, b"1")
    log.begin_flush(a, appends)
    log.append(a, b"2")
    log.append(b, b"3")
    log.forget(b)
    log.append(b, b"4")
    log.commit()
    tails = read_log(disk, ROOT).tails
    assert (tails["A"].appends, tails["A"].records) == (appends, [b"1", b"2"])
    assert (tails["A"].journal_bytes, tails["A"].is_gone) == (50, False)
    assert (tails["B"].records, tails["B"].journal_bytes, tails["B"].is_gone) == ([b"4"], 0, True)
    log.end_flush(a)
    log.commit()
    tail = read_log(disk, ROOT).tails["A"]
    assert (tail.appends, tail.records, tail.journal_bytes) == ([], [b"2"], 0)


def test_a_journal_is_held_against_what_the_log_says() -> None:
    """It may be shorter, or end within a record though others come behind it."""
    disk = SimulatedDisk()
    log = new(disk)
    whole = index.deliver(3) + index.deliver(4)
    fill(log, Origin("A", journal_bytes=len(whole)), [index.ack(3)])
    tail = read_log(disk, ROOT).tails["A"]
    assert tail.journal_fault(whole) is None
    assert tail.journal_fault(whole + b"more") is None
    short = tail.journal_fault(whole[:-1])
    assert short == (len(whole) - 1, "expected 16 bytes, as the log says, found 15")
    torn = index.deliver(3) + index.publish(4, bytes(16), 0, 1, b"", is_persistent=True)[:8]
    assert tail.journal_fault(torn) == (8, "8 bytes do not count")


@pytest.mark.parametrize("kind", [EntryKind.RECOVERED, EntryKind.CLOSED])
def test_the_end_makes_all_void(kind: EntryKind) -> None:
    """It is the last of its file, is of no queue, and says whether journals count."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [b"1"])
    steps.run(log.end_steps(kind))
    last = write_ahead.ENTRY_HEAD.pack(kind, 0, 0).rstrip(b"\0")
    assert disk.contents()["/v/sprocket.wal.0"].rstrip(b"\0").endswith(last)
    assert read_log(disk, ROOT).tails == {}
    assert read_log(disk, ROOT).are_journals_void == (kind == EntryKind.RECOVERED)
    fill(log, a, [b"2"])
    assert files(disk) == [0, 1]
    assert records(disk) == {"A": b"2"}


def test_a_write_that_fails_goes_down_with_the_next() -> None:
    """Nothing of it counts before that, even if a part has reached the file."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [b"1"])
    log.append(a, b"2")
    disk.fail("write", error=errno.ENOSPC)
    with pytest.raises(DiskFull):
        log.write()
    assert records(disk) == {"A": b"1"}
    assert log.waiting_bytes == 1
    fill(log, a, [b"3"])
    assert records(disk) == {"A": b"123"}
    assert log.waiting_bytes == 0


def test_after_a_failed_sync_nothing_is_written() -> None:
    """What reached the disk is unknown."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [b"1"])
    log.append(a, b"2")
    disk.fail("sync")
    with pytest.raises(DiskFailed):
        log.commit()
    log.append(a, b"3")
    with pytest.raises(StoreFailed, match="a sync failed"):
        log.write()
    with pytest.raises(StoreFailed, match="a sync failed"):
        log.begin_sync()


def test_a_sync_covers_only_what_was_written_before_it() -> None:
    """Though the log goes on in another file before it ends."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    log.append(a, FILE_BYTES // 2 * b"1")
    log.write()
    job = log.begin_sync()
    assert job is not None
    job.run()
    log.append(a, FILE_BYTES * b"2")
    log.write()
    log.append(a, b"3")
    log.write()
    job.finish(None)
    assert not log.is_synced
    log.commit()
    assert log.is_synced
    expected = FILE_BYTES // 2 * b"1" + FILE_BYTES * b"2" + b"3"
    assert records(disk.crash(lambda _: 0)) == {"A": expected}


def test_a_batch_that_is_lost_in_the_middle_is_told() -> None:
    """What comes in later files counts."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [b"1", FILE_BYTES * b"2", b"3"])
    file = disk.open("/v/sprocket.wal.0", write=True)
    file.write([b"x"], len(disk.contents()["/v/sprocket.wal.0"]) - 1)
    contents = read_log(disk, ROOT)
    assert b"".join(contents.tails["A"].records) == b"13"
    (finding,) = contents.findings
    assert "1 batches before that of number 3 are damaged" in finding


BATCHES = 6


def test_a_damaged_batch_is_stepped_over_and_told() -> None:
    """Whichever byte of it is wrong: all others count, those of queues that it names, too."""
    disk = SimulatedDisk()
    disk.make_folder(ROOT)
    log = WriteAheadLog(disk, ROOT, 10_000)
    origins = Origin("A"), Origin("B", journal_bytes=7)
    for number in range(BATCHES):
        for origin in origins:
            log.append(origin, index.publish(number, bytes(16), 0, 5, b"", is_persistent=True))
        log.write()
    log.commit()
    path = "/v/sprocket.wal.0"
    data = disk.contents()[path]
    batches = [one for one in write_ahead.scan(data, 0, None) if isinstance(one, WriteAheadBatch)]
    assert len(batches) == BATCHES + 1
    for number, one in enumerate(batches[:BATCHES]):
        expected = b"".join(
            index.publish(each, bytes(16), 0, 5, b"", is_persistent=True)
            for each in range(BATCHES)
            if each != number
        )
        for at in range(one.start, one.end):
            found = disk.kill()
            file = found.open(path, write=True)
            file.write([bytes((data[at] ^ 1 << at % 8,))], at)
            contents = read_log(found, ROOT)
            kept = {name: b"".join(tail.records) for name, tail in contents.tails.items()}
            assert kept == {"A": expected, "B": expected}, at
            assert contents.tails["B"].journal_bytes == 7
            (finding,) = contents.findings
            assert finding.startswith(f"{path} at {one.start}: 1 batches before"), at
            if at == one.end - 20:
                assert finding.endswith("with 2 messages as far as can be seen")


def test_what_may_never_have_been_durable_is_no_damage() -> None:
    """Power goes before a sync ends, and of two batches the second one is there: neither counts."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [b"1"])
    start = len(disk.contents()["/v/sprocket.wal.0"].rstrip(b"\0"))
    for part in (b"2", b"3"):
        log.append(a, part)
        log.write()
    file = disk.open("/v/sprocket.wal.0", write=True)
    file.write([b"x"], start + 40)
    contents = read_log(disk, ROOT)
    assert (contents.tails["A"].records, contents.findings) == ([b"1"], ())
    assert contents.cut_bytes > 0
    again = WriteAheadLog(disk, ROOT, FILE_BYTES, contents.next_number, contents.next_sequence)
    again.decide()
    again.commit()
    fill(again, Origin("A"), [b"4"])
    assert records(disk) == {"A": b"14"}


def test_what_was_durable_counts_before_a_gap_from_which_a_start_went_on() -> None:
    """Power takes the mark of what is durable, and not what came after it; then two starts."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [b"1"])
    log.append(a, b"2")
    log.write()
    path = "/v/sprocket.wal.0"
    _, mark, _ = write_ahead.scan(disk.contents()[path], 0, None)
    assert isinstance(mark, WriteAheadBatch)
    assert (mark.sequence, mark.synced) == (1, 1)
    file = disk.open(path, write=True)
    file.write([b"x"], mark.end - 1)
    contents = read_log(disk, ROOT)
    assert (records(disk), contents.findings, contents.next_sequence) == ({"A": b"1"}, (), 1)
    again = WriteAheadLog(disk, ROOT, FILE_BYTES, contents.next_number, contents.next_sequence)
    again.decide()
    again.commit()
    assert (records(disk), read_log(disk, ROOT).findings) == ({"A": b"1"}, ())


def test_what_bodies_of_messages_say_is_no_batch() -> None:
    """Though it looks like the next one, in a batch that is damaged."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    payload = write_ahead.place(0, 0) + write_ahead.name(1, NamedOrigin("evil"))
    evil = write_ahead.batch_head(1, payload) + payload
    fill(log, a, [b"1" + evil, b"2"])
    file = disk.open("/v/sprocket.wal.0", write=True)
    file.write([b"x"], write_ahead.HEAD_BYTES + 5)
    assert records(disk) == {"A": b"2"}


def test_a_log_of_an_earlier_version_is_read() -> None:
    """Its batches do not say where they stand, nor what is durable."""
    disk = SimulatedDisk()
    disk.make_folder(ROOT)
    parts = [write_ahead.name(0, NamedOrigin("A")), b"", b""]
    data = b""
    for number, part in enumerate(parts):
        text = b"%d" % number
        payload = part + write_ahead.ENTRY_HEAD.pack(EntryKind.RECORDS, 0, len(text)) + text
        data += write_ahead.batch_head(number, payload) + payload
    file = disk.open("/v/sprocket.wal.0", write=True, create=True)
    file.write([data], 0)
    assert records(disk) == {"A": b"012"}
    assert read_log(disk, ROOT).next_sequence == 3


def test_no_file_is_removed_while_another_one_is_made_of_the_oldest() -> None:
    """Nor the other way round: they go one after the other, the oldest first."""
    for is_made_first in (True, False):
        disk = SimulatedDisk()
        log = new(disk)
        a = Origin("A")
        for number in range(5):
            fill(log, a, [b"%d" % number * FILE_BYTES])
        log.begin_flush(a, [])
        log.commit()
        log.end_flush(a)
        log.commit()
        fill(log, a, [FILE_BYTES // 2 * b"5"])
        retiring = log.retire_steps()
        if is_made_first:
            job = log.begin_fill()
            assert job is not None
            assert steps.run(retiring) == 0
            job.run()
            job.finish(None)
        else:
            call = next(retiring)
            job = log.begin_fill()
            assert job is not None
            job.run()
            job.finish(None)
            call()
            for call in retiring:
                call()
        numbers = files(disk)
        assert numbers == [*range(numbers[0], numbers[-1] + 1)]
        assert records(disk.crash(lambda _: 0)) == {"A": FILE_BYTES // 2 * b"5"}


def test_a_next_file_that_could_not_be_synced_is_none() -> None:
    """The log goes on in one that it makes itself."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [FILE_BYTES // 2 * b"0"])
    job = log.begin_fill()
    assert job is not None
    disk.fail("sync", 1)
    with pytest.raises(DiskFailed) as caught:
        job.run()
    job.finish(caught.value)
    fill(log, a, [FILE_BYTES * b"1", b"2"])
    assert records(disk.crash(lambda _: 0)) == {
        "A": FILE_BYTES // 2 * b"0" + FILE_BYTES * b"1" + b"2"
    }


def test_a_file_that_could_not_be_used_again_is_still_the_oldest() -> None:
    """It is tried again; no younger one goes before it."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    for number in range(4):
        fill(log, a, [b"%d" % number * FILE_BYTES])
    log.begin_flush(a, [])
    log.commit()
    log.end_flush(a)
    fill(log, a, [FILE_BYTES * b"5"])
    oldest = files(disk)[0]
    job = log.begin_file()
    assert job is not None
    disk.fail("rename")
    with pytest.raises(DiskFailed) as caught:
        job.run()
    job.finish(caught.value)
    assert log.oldest_file == oldest
    fill(log, a, [b"6"])
    assert files(disk)[0] == oldest + 1


def test_a_log_beside_what_a_clean_stop_leaves_is_void() -> None:
    """A RabbitMQ has run since. Its files get other names, and no later one gets theirs."""
    disk = SimulatedDisk()
    fill(new(disk), Origin("A"), [b"1", FILE_BYTES * b"2", b"3"])
    disk.open(f"{ROOT}/recovery.dets", write=True, create=True)
    found = read_log(disk, ROOT)
    assert (found.is_void, found.tails, found.numbers, found.next_number) == (True, {}, [0, 1], 2)
    renamed = set_aside(disk, ROOT, found.numbers)
    assert renamed == [f"{ROOT}/sprocket.void.0", f"{ROOT}/sprocket.void.1"]
    found = read_log(disk.crash(lambda _: 0), ROOT)
    assert (found.is_void, found.numbers, found.next_number) == (False, [], 2)


def test_who_commits_waits_for_a_file_that_is_being_made() -> None:
    """Group commit has it made on a thread; a flush that comes then does not make it, too."""
    disk = SimulatedDisk()
    log = new(disk)
    a = Origin("A")
    fill(log, a, [FILE_BYTES * b"1"])
    job = log.begin_file()
    assert job is not None
    log.append(a, b"2")
    work = log.commit_steps()
    for _ in range(2):
        next(work)()
    assert records(disk) == {"A": FILE_BYTES * b"1"}
    job.run()
    job.finish(None)
    steps.run(work)
    assert records(disk.crash(lambda _: 0)) == {"A": FILE_BYTES * b"1" + b"2"}


def test_a_start_that_counted_nothing_of_a_log_goes_on_before_all_of_it() -> None:
    """The first batch was lost, the second one not: the next start finds the file of the first."""
    disk = SimulatedDisk()
    log = new(disk)
    log.append(Origin("A"), b"1")
    log.write()
    size = log.pending_bytes + log.waiting_bytes
    log.append(Origin("A"), b"2")
    log.write()
    log.close()
    file = disk.open(f"{ROOT}/sprocket.wal.0", write=True)
    file.write([bytes(size)], 0)
    file.close()
    assert records(disk) == {}
    again = WriteAheadLog(disk, ROOT, FILE_BYTES, number=1)
    fill(again, Origin("A"), [b"3"])
    assert records(disk) == {"A": b"3"}
