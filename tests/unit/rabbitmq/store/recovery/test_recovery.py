"""Recovery of a virtual host: cut short anywhere, begun anew, after RabbitMQ's ends and ours."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from tests.rabbit_vhosts import (
    LARGE,
    PATHS,
    ROOT,
    Q,
    close,
    delivered,
    flush,
    ids,
    journal,
    log_files,
    opened,
    publish,
    put,
    segment,
)
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.base.disk import steps
from sprocket.rabbitmq.codec.store import entries, recovery_terms
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store import recovery
from sprocket.rabbitmq.store.layout import VhostLayout, vhost_folder
from sprocket.rabbitmq.store.repair import check_vhost
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.testing.disk import CHANGES, SimulatedDisk

OTHER = QueueName("/", "other")


class PowerLost(BaseException):
    """Everything stops."""


def lose(countdown: list[int], call: str, _path: str) -> None:
    """Stop before one of the calls that change the disk."""
    if call in CHANGES:
        countdown[0] -= 1
        if not countdown[0]:
            raise PowerLost


def settled_since_a_clean_stop() -> SimulatedDisk:
    """A journal.jif has messages of which only the log knows that they are settled."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(Q), *range(4))
    publish(store.queue(OTHER), *range(4), size=LARGE)
    close(store)
    store = opened(disk)
    store.queue(Q).ack([0, 1, 2, 3])
    store.queue(OTHER).ack([0])
    publish(store.queue(OTHER), 4, 5)
    store.log.commit()
    return disk


def torn_everywhere() -> SimulatedDisk:
    """The last append of a segment and the newest store file end in nonsense."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(OTHER), 1, 2, 3, size=LARGE)
    flush(store, store.queue(OTHER))
    publish(store.queue(OTHER), 4, 5)
    work = store.flush_steps([store.queue(OTHER)])
    call = next(work)
    while not disk.exists(segment(1, OTHER)):
        call = work.send(call())
    for path in (segment(1, OTHER), PATHS.persistent.file(0)):
        file = disk.open(path, write=True)
        file.write([b"\0\0\0\0\0\0\0\x99 no message"], file.size() - 9 * (".idx" in path))
    return disk


def purged_and_going_on() -> SimulatedDisk:
    """The log says that files are void, and has what came after."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(OTHER), *range(4), size=LARGE)
    flush(store, store.queue(OTHER))
    store.queue(OTHER).purge()
    publish(store.queue(OTHER), 7, 8)
    store.log.commit()
    return disk


KILLED: dict[str, tuple[Callable[[], SimulatedDisk], dict[QueueName, list[int]]]] = {
    "settled since a clean stop": (
        settled_since_a_clean_stop,
        {Q: [], OTHER: [1, 2, 3, 4, 5]},
    ),
    "torn everywhere": (torn_everywhere, {Q: [], OTHER: [1, 2, 3, 4, 5]}),
    "purged and going on": (purged_and_going_on, {Q: [], OTHER: [7, 8]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", KILLED)
def test_recovery_may_be_cut_short_at_any_call(what: str) -> None:
    """And the one after that, too: what was synced is there, nothing else, and files are right."""
    make, expected = KILLED[what]
    nth = 1
    while True:
        disk = make().kill()
        disk.before = partial(lose, [nth])
        try:
            opened(disk)
        except PowerLost:
            pass
        else:
            break
        disk.before = None
        random = Random(nth)
        for found in (
            disk.kill(),
            disk.crash(lambda _: 0),
            disk.crash(lambda count: count - 1),
            *(disk.crash(random.randrange) for _ in range(4)),
        ):
            store = opened(found)
            assert {name: ids(store.queue(name)) for name in expected} == expected
            close(store)
            assert [*check_vhost(found, ROOT)] == []
            again = opened(found)
            assert again.report.clean_stop
            assert {name: ids(again.queue(name)) for name in expected} == expected
        nth += 1
    assert nth > 10


@pytest.mark.parametrize("what", KILLED)
def test_looking_changes_nothing_and_says_the_same(what: str) -> None:
    """A report of what would be done is the report of what is done."""
    make, expected = KILLED[what]
    disk = make().kill()
    before = disk.contents()
    told = recovery.dry_run(disk, PATHS, VhostGeometry.small().segment_entries)
    assert disk.contents() == before
    store = opened(disk)
    assert store.report == told
    assert told.messages == sum(map(len, expected.values()))
    assert (told.clean_stop, told.damage) == (False, [])
    close(store)
    before = disk.contents()
    assert recovery.dry_run(disk, PATHS, VhostGeometry.small().segment_entries).clean_stop
    assert disk.contents() == before


def stopped_cleanly() -> SimulatedDisk:
    """Return a disk that a clean stop has left: segments, a journal, stored messages."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, *range(6))
    publish(queue, 6, size=LARGE)
    flush(store, queue)
    publish(queue, 7)
    close(store)
    return disk


def cut_segment(disk: SimulatedDisk) -> None:
    """A segment loses its last message."""
    file = disk.open(segment(0), write=True)
    file.resize(file.size() - 100)


def cut_journal(disk: SimulatedDisk) -> None:
    """A journal loses its last record."""
    file = disk.open(journal(), write=True)
    file.resize(file.size() - 8)


def changed_journal(disk: SimulatedDisk) -> None:
    """A journal has another byte."""
    file = disk.open(journal(), write=True)
    file.write([b"X"], 30)


def other_terms(disk: SimulatedDisk) -> None:
    """A RabbitMQ has run and stopped."""
    put(disk, PATHS.recovery_terms, recovery_terms.encode({}))


def no_terms(disk: SimulatedDisk) -> None:
    """A RabbitMQ's file is gone."""
    disk.remove(PATHS.recovery_terms)


def changed_clean(disk: SimulatedDisk) -> None:
    """Our own file has another byte."""
    file = disk.open(PATHS.clean, write=True)
    file.write([b"7"], 40)


def another_queue(disk: SimulatedDisk) -> None:
    """A queue has come from somewhere."""
    put(disk, f"{PATHS.queues}/ELSEWHERE/0.idx", b"")


def another_segment(disk: SimulatedDisk) -> None:
    """A segment has come back."""
    put(disk, segment(5), b"\0")


def cut_store(disk: SimulatedDisk) -> None:
    """The message store lost its last byte."""
    file = disk.open(PATHS.persistent.file(0), write=True)
    file.resize(file.size() - 1)


def no_clean_dot(disk: SimulatedDisk) -> None:
    """The message store's word is gone."""
    disk.remove(PATHS.persistent.clean)


SPOILT: dict[Callable[[SimulatedDisk], None], list[int]] = {
    cut_segment: [*range(1, 8)],
    cut_journal: [*range(8)],
    changed_journal: [*range(8)],
    other_terms: [*range(8)],
    no_terms: [*range(8)],
    changed_clean: [*range(8)],
    another_queue: [*range(8)],
    another_segment: [*range(8)],
    cut_store: [0, 1, 2, 3, 4, 5, 7],
    no_clean_dot: [*range(8)],
}


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda one: one.__name__)
def test_a_clean_stop_that_is_wrong_is_not_believed(spoil: Callable[[SimulatedDisk], None]) -> None:
    """Everything is looked at then, and whatever is whole is there."""
    disk = stopped_cleanly()
    assert opened(disk.kill()).report.clean_stop
    spoil(disk)
    store = opened(disk)
    assert not store.report.clean_stop
    found = [one.seq_id for one in steps.run(store.queue(Q).read(0, 99))]
    assert found == SPOILT[spoil]


def test_after_a_clean_stop_and_a_kill_nothing_old_is_believed() -> None:
    """What said that the stop was a clean one is gone before anything is done."""
    disk = stopped_cleanly()
    store = opened(disk)
    store.queue(Q).ack([0])
    store.log.commit()
    names = {path.rpartition("/")[2] for path in disk.crash(lambda _: 0).contents()}
    assert not names & {"recovery.dets", "sprocket.clean", "clean.dot"}
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == [*range(1, 8)]


def rabbitmq_runs(disk: SimulatedDisk) -> None:
    """Do to the folder what a RabbitMQ does that starts on it and is killed: it sees no log."""
    aside = {name: disk.contents()[f"{ROOT}/{name}"] for name in log_files(disk)}
    for name in aside:
        disk.remove(f"{ROOT}/{name}")
    store = opened(disk)
    store.queue(Q).ack(ids(store.queue(Q))[:2])
    for queue in (store.queue(Q), store.queue(OTHER)):
        flush(store, queue)
    store.log.commit()
    store.close()
    for name in log_files(disk):
        disk.remove(f"{ROOT}/{name}")
    for name, data in aside.items():
        put(disk, f"{ROOT}/{name}", data)
    put(disk, PATHS.recovery_terms, recovery_terms.encode({}))


def killed_with_a_log() -> SimulatedDisk:
    """Return a disk with messages in segments, and others that only the log has."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(Q), *range(6))
    flush(store, store.queue(Q))
    publish(store.queue(Q), 6, 7)
    store.queue(Q).ack([5])
    store.log.commit()
    return disk.kill()


def test_an_old_log_is_not_replayed_over_what_a_rabbitmq_has_done() -> None:
    """It is set aside, and told; what RabbitMQ has left is what there is."""
    disk = killed_with_a_log()
    rabbitmq_runs(disk)
    old = {name: disk.contents()[f"{ROOT}/{name}"] for name in log_files(disk)}
    store = opened(disk)
    assert ids(store.queue(Q)) == [2, 3, 4, 5]
    renamed = [f"{ROOT}/sprocket.void.{name.rpartition('.')[2]}" for name in old]
    assert store.report.void_log == renamed
    assert [disk.contents()[path] for path in renamed] == [*old.values()]
    assert any("a RabbitMQ has run" in one for one in store.report.damage)
    publish(store.queue(Q), 50)
    store.log.commit()
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == [2, 3, 4, 5, 50]


@pytest.mark.slow
def test_a_void_log_stays_void_wherever_the_start_is_cut_short() -> None:
    """Whatever is left of its files, none of it comes back."""
    nth = 1
    while True:
        disk = killed_with_a_log()
        rabbitmq_runs(disk)
        disk.before = partial(lose, [nth])
        try:
            opened(disk)
        except PowerLost:
            pass
        else:
            break
        disk.before = None
        random = Random(nth)
        for found in (disk.kill(), *(disk.crash(random.randrange) for _ in range(6))):
            assert ids(opened(found).queue(Q)) == [2, 3, 4, 5]
        nth += 1
    assert nth > 8


def test_a_rabbitmq_that_stopped_cleanly_between_two_of_ours() -> None:
    """Its files count; ours of before do not."""
    disk = stopped_cleanly()
    rabbitmq_runs(disk)
    store = opened(disk)
    assert (ids(store.queue(Q)), store.report.void_log) == ([*range(2, 8)], [])


def test_a_message_that_the_store_has_not_is_told() -> None:
    """The others are there."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(Q), 0, 1, size=LARGE)
    publish(store.queue(Q), 2)
    store.log.commit()
    disk.remove(PATHS.persistent.file(0))
    store = opened(disk.kill())
    assert (ids(store.queue(Q)), store.report.lost) == ([2], 2)


def test_what_a_compaction_of_rabbitmq_left_is_found_by_a_look_too() -> None:
    """Though it is put in its place only later."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(Q), 0, size=LARGE)
    store.log.commit()
    disk = disk.kill()
    disk.rename(PATHS.persistent.file(0), PATHS.persistent.compacted_file(0))
    put(disk, PATHS.persistent.file(0), b"".join(entries.entry(bytes(16), b"\x83garbage")))
    assert recovery.dry_run(disk, PATHS, 4).lost == 0
    assert ids(opened(disk).queue(Q)) == [0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "01-journal-only",
        "03-store-fanout",
        "04-dirty-kill9",
        "05-properties-ttl",
        "06-segments-2048-default",
        "07-journal-over-segment",
        "09-journal-count",
    ],
)
def test_a_real_rabbitmqs_folder_is_opened_and_left(case: str) -> None:
    """Each queue has what a client got, whoever had it before, also after our own clean stop."""
    recorded = RecordedVhosts(case)
    disk = recorded.in_memory()
    for vhost in {vhost for vhost, _ in recorded.messages}:
        folder = f"/vhosts/{vhost_folder(vhost)}"
        wanted = {name: found for (one, name), found in recorded.messages.items() if one == vhost}
        for again in range(2):
            store = VhostStore.open(
                VhostPlace(disk, folder, vhost), VhostStoreSettings(), VhostGeometry()
            )
            assert (store.report.damage, store.report.lost) == ([], 0)
            assert store.report.clean_stop == bool(again)
            for name, expected in wanted.items():
                told = [queue for queue in recorded.expected["queues"] if queue["name"] == name]
                if told[0].get("arguments", {}).get("x-max-priority"):
                    continue
                queue = store.queue(QueueName(vhost, name))
                found = steps.run(queue.read(0, queue.next_seq_id))
                left = [one for one in found if not _is_expired(one.expires_at_us, recorded)]
                assert [_told(one) for one in left] == [
                    (one["exchange"], one["routing_key"], one["redelivered"], one["body_sha256"])
                    for one in expected
                ]
            close(store)
        assert [*check_vhost(disk, VhostLayout(folder).root)] == []


def _is_expired(expires_at_us: int | None, recorded: RecordedVhosts) -> bool:
    now_us = recorded.expected.get("drained_from_us", 0)
    return expires_at_us is not None and expires_at_us <= now_us


def _told(one: object) -> tuple[str, str, bool, str]:
    from hashlib import sha256

    from sprocket.rabbitmq.store.stored_queue import StoredEntry

    assert isinstance(one, StoredEntry)
    message = one.message
    digest = sha256(message.body).hexdigest()
    return message.exchange, message.routing_keys[0], one.is_delivered, digest


@pytest.mark.slow
def test_redelivered_is_known_after_a_clean_stop_of_rabbitmq() -> None:
    """By the number that its terms have."""
    recorded = RecordedVhosts("01-journal-only")
    disk = recorded.in_memory()
    folder = f"/vhosts/{vhost_folder('/')}"
    store = VhostStore.open(VhostPlace(disk, folder, "/"), VhostStoreSettings(), VhostGeometry())
    ((_, name),) = recorded.messages
    expected = [one["redelivered"] for one in recorded.messages["/", name]]
    queue = store.queue(QueueName("/", name))
    assert len(delivered(queue)) == sum(expected) > 0
