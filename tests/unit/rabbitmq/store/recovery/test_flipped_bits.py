"""Every byte of a small folder is changed in turn: it is noticed, or decides nothing.

What is handed out is what was stored, with its properties and its expiry; what is not damaged is
there. Afterwards the store goes on and stops, and the next start agrees.
"""

from collections.abc import Callable

import pytest
from tests.rabbit_vhosts import (
    PATHS,
    ROOT,
    Q,
    close,
    flip,
    flush,
    journal,
    message,
    opened,
    put,
    segment,
)

from sprocket.base.disk import steps
from sprocket.rabbitmq.codec import index, message_term, write_ahead
from sprocket.rabbitmq.codec.store import recovery_terms
from sprocket.rabbitmq.store.layout import QueueLayout
from sprocket.rabbitmq.store.reading import VhostReader
from sprocket.rabbitmq.store.repair import check_vhost
from sprocket.rabbitmq.store.stored_queue import StoredQueue
from sprocket.rabbitmq.store.vhost import VhostStore
from sprocket.testing.disk import SimulatedDisk

LARGE = 200
"""Bytes of a body that goes to the message store."""
EXPIRES_AT_US = 1 << 60


def published(queue: StoredQueue, *numbers: int) -> None:
    """Publish messages; every third is large, the even ones expire."""
    for number in numbers:
        expires_at_us = None if number % 2 else EXPIRES_AT_US
        one = message(number, 20 if number % 3 else LARGE)
        queue.publish(number, [one], expires_at_us=expires_at_us, is_delivered=False)


def filled(disk: SimulatedDisk) -> VhostStore:
    """Segments, of which one has several appends, and what is not flushed."""
    store = opened(disk)
    queue = store.queue(Q)
    published(queue, 0, 1)
    flush(store, queue)
    published(queue, 2, 3, 4)
    queue.ack([1])
    flush(store, queue)
    published(queue, 5)
    queue.ack([4])
    store.log.commit()
    return store


def stopped() -> SimulatedDisk:
    """A clean stop, with journals."""
    disk = SimulatedDisk()
    close(filled(disk))
    return disk


def killed() -> SimulatedDisk:
    """A kill, with a log."""
    disk = SimulatedDisk()
    filled(disk)
    return disk.kill()


def killed_over_journals() -> SimulatedDisk:
    """A kill soon after a start: journals of the clean stop still count."""
    disk = stopped()
    store = opened(disk)
    published(store.queue(Q), 6)
    store.log.commit()
    return disk.kill()


LEFT = [0, 2, 3, 5]
DECIDES_NOTHING = (
    *(".vhost", ".config", ".queue_name", "sprocket.lock", ".sums", "sprocket.clean"),
    *("recovery.dets", "sprocket.geometry", "file_summary.ets", "msg_store_index.ets", "clean.dot"),
)
"""Files beside the messages: for people, or compared with what they are about."""


def flipped(disk: SimulatedDisk, path: str, at: int) -> SimulatedDisk:
    """Return the disk after a bit of a byte was changed."""
    found = disk.kill()
    file = found.open(path, write=True)
    file.write([bytes((file.read(at, 1)[0] ^ 1 << at % 8,))], at)
    file.close()
    return found


def read_by_others(disk: SimulatedDisk) -> None:
    """See that whoever only reads the folder is shown nothing but what was stored."""
    reader = VhostReader(disk, ROOT)
    for queue in reader.queues():
        for one in reader.messages(queue):
            if one.message is not None:
                assert one.message == message(one.seq_id, one.message.body_size)
                assert one.expiry_us == (0 if one.seq_id % 2 else EXPIRES_AT_US)
    reader.close()


def given(store: VhostStore) -> list[int]:
    """Return what a consumer is given; it is what was stored."""
    entries = steps.run(store.queue(Q).read(0, 1 << 40))
    for one in entries:
        assert one.message == message(one.seq_id, one.message.body_size)
        assert one.expires_at_us == (None if one.seq_id % 2 else EXPIRES_AT_US)
    return [one.seq_id for one in entries]


@pytest.mark.slow
@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("make", [stopped, killed, killed_over_journals], ids=lambda x: x.__name__)
def test_whichever_byte_is_changed(make: Callable[[], SimulatedDisk], step: int) -> None:
    """Of an index, a journal, the message store: at most one message is missing, and it is told."""
    disk = make()
    expected = [*LEFT, 6] if make is killed_over_journals else LEFT
    assert given(opened(disk.kill())) == expected
    assert [*check_vhost(disk, ROOT)] == []
    tried = 0
    for path, data in disk.contents().items():
        is_index = path.endswith((".idx", ".jif"))
        if path.endswith(DECIDES_NOTHING) or "/sprocket.wal." in path:
            continue
        for at in range(0, len(data), step):
            found = flipped(disk, path, at)
            where = f"{path} at {at}"
            read_by_others(found)
            store = opened(found)
            left = given(store)
            missing = set(expected) - set(left)
            assert not set(left) - set(expected), where
            assert len(missing) <= 1, where
            damage = [*store.report.damage, *store.queue(Q).unreadable.values()]
            assert damage or store.report.lost or not missing, where
            assert damage or not is_index or store.report.clean_stop, where
            tried += 1
            if at % 16 == 0:
                assert [*check_vhost(flipped(disk, path, at), ROOT)] != [], where
                close(store)
                assert given(opened(found)) == left, where
    assert tried > 1000 // step


@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.nightly)])
def test_whichever_byte_of_the_log_is_changed(step: int) -> None:
    """One batch does not count, and that is told; what comes behind it is there."""
    disk = SimulatedDisk()
    store = filled(disk)
    for number in range(6, 20):
        published(store.queue(Q), number)
        store.log.commit()
    disk = disk.kill()
    expected = [*LEFT, *range(6, 20)]
    assert given(opened(disk.kill())) == expected
    logs = [one for one in disk.contents() if "/sprocket.wal." in one]
    assert len(logs) > 1
    places: list[tuple[str, int]] = []
    last = 0
    for number, path in enumerate(logs):
        batches = [*write_ahead.scan(disk.contents()[path], number, None)]
        last = batches[-1].start
        places += [(path, at) for at in range(0, batches[-1].end, step)]
    for path, at in places:
        is_end = path == logs[-1] and at >= last
        where = f"{path} at {at}"
        found = flipped(disk, path, at)
        read_by_others(found)
        told = [*check_vhost(found, ROOT)]
        store = opened(found)
        left, report = given(store), store.report
        assert len(set(expected) - set(left)) <= 2, where  # so many were flushed together
        assert set(left) - set(expected) <= {1, 4}, where  # what acknowledges them is damaged
        if is_end:
            assert report.cut_bytes, where
        else:
            assert told, where
            assert any("sprocket.wal" in one for one in report.damage), where
        close(store)
        assert given(opened(found)) == left, where


@pytest.mark.slow
@pytest.mark.parametrize("make", [stopped, killed], ids=lambda x: x.__name__)
def test_a_change_of_what_is_beside_the_messages_costs_none(
    make: Callable[[], SimulatedDisk],
) -> None:
    """Nothing is lost by a change of a checksum, a name or what a clean stop says."""
    disk = make()
    for path, data in disk.contents().items():
        if not path.endswith(DECIDES_NOTHING) or path.endswith((".vhost", ".config")):
            continue  # those fix the folder: another one is refused
        for at in range(0, len(data), 1 if path.endswith(".sums") else 97):
            assert given(opened(flipped(disk, path, at))) == LEFT, f"{path} at {at}"


@pytest.mark.parametrize("path", [PATHS.clean, PATHS.recovery_terms])
def test_a_wrong_bit_in_what_a_stop_says_hides_no_other(path: str) -> None:
    """What it covered is looked at by its own checksums, and that is told."""
    disk = stopped()
    flip(disk, segment(0), b"body 2")
    for at in range(0, disk.size(path), 97):
        found = flipped(disk, path, at)
        read_by_others(found)
        store = opened(found)
        assert given(store) == [0, 3, 5], at
        assert any(path in one for one in store.report.damage), at
        assert any(segment(0) in one for one in store.report.damage), at


def test_a_wrong_bit_in_what_fixes_the_folder_refuses_no_start() -> None:
    """The name is right by the folder's; the number of a segment's entries is there twice."""
    disk = stopped()
    for path in (PATHS.name, PATHS.config, PATHS.geometry):
        for at in range(disk.size(path)):
            for bit in range(8):
                found = disk.kill()
                file = found.open(path, write=True)
                file.write([bytes((file.read(at, 1)[0] ^ 1 << bit,))], at)
                store = opened(found)
                assert given(store) == LEFT
                is_comment = path == PATHS.config and not store.report.damage
                assert is_comment or path in store.report.damage[0]
                close(store)
                assert opened(found).report.damage == []


def test_a_record_that_checksums_mend_is_mended_in_the_file() -> None:
    """By a recovery: a RabbitMQ, which is to find it, has no checksums."""
    disk = killed()
    before = disk.contents()[segment(0)]
    repaired = 0
    for at in range(0, len(before), 10):
        found = flipped(disk, segment(0), at)
        (damage,) = opened(found).report.damage
        if "taken from the checksums" in damage:
            assert found.contents()[segment(0)].startswith(before), at
            repaired += 1
        else:
            assert "it stays in its queue" in damage
    assert repaired > 5


def test_a_damaged_message_of_a_journal_comes_into_no_segment() -> None:
    """A RabbitMQ would not start with its term: the journal is set aside, and the loss is told."""
    disk = stopped()
    flip(disk, journal(), b"body 5")
    before = disk.contents()[journal()]
    store = opened(disk)
    assert given(store) == [0, 2, 3]
    assert store.report.lost == 1
    assert any(journal() in one and "is set aside" in one for one in store.report.damage)
    flush(store, store.queue(Q))
    close(store)
    contents = disk.contents()
    assert contents[QueueLayout.set_aside(journal())] == before
    for path, data in contents.items():
        if path.endswith(".idx"):
            records = index.read_segment(data)
            starts = index.states(records).published_at
            found = index.messages(records, starts[starts >= 0])
            assert all(data[at] == 131 for at in found.term_starts[found.term_sizes > 0]), path
    assert given(opened(disk)) == [0, 2, 3]


def one_message(number: int) -> bytes:
    """Return a segment with one message."""
    term = message_term.encode(message(number))
    record = index.publish(0, message(number).id, 0, 20, term, is_persistent=True)
    return index.segment_publish(0, record) + index.segment_mark(0)


def test_a_rabbitmq_that_has_run_makes_checksums_void() -> None:
    """It has removed a segment, and begun one of the same number; all is given checksums anew."""
    disk = stopped()
    path = segment(0)
    put(disk, path, one_message(9))
    terms = bytearray(recovery_terms.encode({}))
    terms[8:12], terms[0xA8:0xB8] = b"\0\0\0\1", b"an Erlang digest"
    put(disk, PATHS.recovery_terms, bytes(terms))
    findings = [one for one in check_vhost(disk, ROOT) if one.path == path]
    assert findings == []
    store = opened(disk)
    assert store.report.damage == []
    store.close()
    again = opened(disk)
    assert again.report.damage == []
    again.close()
    file = disk.open(path, write=True)
    file.write([b"\0"], file.size() // 2)
    assert len(opened(disk.kill()).report.damage) == 1
