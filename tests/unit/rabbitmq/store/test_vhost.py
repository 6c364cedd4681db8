"""A virtual host's store: queues, messages that several share, flushes, clean stops."""

import pytest
from tests.rabbit_vhosts import (
    LARGE,
    PATHS,
    ROOT,
    Q,
    close,
    delivered,
    flip,
    flush,
    ids,
    journal,
    log_files,
    message,
    opened,
    publish,
    put,
    segment,
)

from sprocket.base.disk import advance, steps
from sprocket.base.errors import DiskFailed, DiskFull, ForeignStore, StoreLocked
from sprocket.base.units import KIB, MIB
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.store import clean_stop
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store import queue_index
from sprocket.rabbitmq.store.layout import encode_queue_name, queue_folder
from sprocket.rabbitmq.store.reading import VhostReader
from sprocket.rabbitmq.store.repair import check_vhost
from sprocket.rabbitmq.store.stored_queue import ARRIVED_MAX
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.testing.disk import SimulatedDisk

OTHER = QueueName("/", "other")


def test_messages_come_back_after_a_power_loss_in_order() -> None:
    """Those that were synced, of each queue; what was acknowledged and synced does not."""
    disk = SimulatedDisk()
    store = opened(disk)
    a, b = store.queue(Q), store.queue(OTHER)
    publish(a, 0, 1, 2, 9)
    publish(b, 0, size=LARGE)
    store.log.commit()
    a.ack([1])
    store.log.commit()
    a.ack([2])
    publish(a, 10)
    again = opened(disk.crash(lambda _: 0))
    assert (ids(again.queue(Q)), ids(again.queue(OTHER))) == ([0, 2, 9], [0])
    assert delivered(again.queue(Q)) == [0, 2, 9]
    assert again.queue(Q).next_seq_id == 12
    assert (again.report.messages, again.report.clean_stop) == (4, False)


@pytest.mark.parametrize("size", [20, LARGE])
def test_what_goes_along_when_it_is_said_what_is_durable_is_not(size: int) -> None:
    """It came between two turns; whoever waits for it waits for a sync of its own."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0, size=size)
    store.log.write()
    first = store.log.begin_sync()
    assert first is not None
    first.run()
    publish(queue, 1, size=size)  # while the sync was on its thread
    first.finish(None)
    steps.run(store.flush_steps([]))  # as every second
    store.log.write()
    second = store.log.begin_sync()
    assert second is not None
    second.run()
    second.finish(None)
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == [0, 1]


def test_after_a_clean_stop_nothing_is_looked_at() -> None:
    """What was delivered is known, numbers go on, and no segment is read."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, *range(6))
    publish(queue, 6, 7, size=LARGE)
    flush(store, queue)
    queue.ack([0])
    queue.deliver([2, 1])
    publish(queue, 8)
    close(store)
    assert [*check_vhost(disk, ROOT)] == []
    opens: list[str] = []
    disk.before = lambda call, path: opens.append(path) if call == "open" else None
    again = opened(disk)
    assert [path for path in opens if path.endswith((".idx", ".rdq"))] == []
    assert (again.report.clean_stop, again.report.messages) == (True, 8)
    queue = again.queue(Q)
    assert (queue.next_seq_id, queue.body_bytes) == (9, 6 * 20 + 2 * LARGE)
    assert ids(queue) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert delivered(queue) == [1, 2]
    close(again)
    assert [*check_vhost(disk, ROOT)] == []
    assert delivered(opened(disk).queue(Q)) == [1, 2]


def test_small_messages_wait_for_the_write_and_are_in_it() -> None:
    """They count at once, and are noted together; what is written later is behind them."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0, 1)
    publish(queue, 5)
    assert (queue.message_count, queue.body_bytes, queue.next_seq_id) == (3, 60, 6)
    assert sum(queue.index.unacked.values()) == 2  # those before the gap
    assert store.log.pending_bytes > 3 * 20
    store.log.commit()
    assert sum(queue.index.unacked.values()) == 3
    assert store.log.waiting_bytes == 0
    publish(queue, 6)
    store.log.commit()
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == [0, 1, 5, 6]


@pytest.mark.parametrize("sizes", [(20,) * 8, (20, LARGE, 20, 20)])
def test_what_waits_for_the_write_is_written_as_if_it_did_not(sizes: tuple[int, ...]) -> None:
    """The same bytes, also where a large message comes between small ones."""
    written = []
    for is_at_once in (False, True):
        disk = SimulatedDisk()
        store = opened(disk)
        for number, size in enumerate(sizes):
            publish(store.queue(Q), number, size=size)
            if is_at_once:
                store.queue(Q).append_arrived()
        store.queue(Q).ack([1])
        store.log.commit()
        written.append({name: disk.contents()[f"{ROOT}/{name}"] for name in log_files(disk)})
    assert written[0] == written[1]


def test_what_happens_to_a_queue_is_behind_what_waits() -> None:
    """It is acknowledged, read and purged as if it had been noted."""
    disk = SimulatedDisk()
    store = opened(disk)
    a, b = store.queue(Q), store.queue(OTHER)
    publish(a, 0, 1)
    a.ack([0])
    publish(a, 2)
    publish(a, 3, size=LARGE)
    publish(a, 4)
    assert ids(a) == [1, 2, 3, 4]
    publish(b, 0)
    b.purge()
    publish(b, 1)
    store.log.commit()
    again = opened(disk.crash(lambda _: 0))
    assert (ids(again.queue(Q)), ids(again.queue(OTHER))) == ([1, 2, 3, 4], [1])


def test_what_is_expected_of_a_write_is_what_it_gets() -> None:
    """Bytes that were expected do not count any more once the log has them."""
    store = opened(SimulatedDisk())
    queue = store.queue(Q)
    publish(queue, *range(4))
    queue.append_arrived()
    assert store.log.pending_bytes == queue.index.journal_bytes + 4 * len(index.deliver(0))


def test_messages_that_wait_have_a_limit() -> None:
    """Of all queues together, so that a write does not take long."""
    store = opened(SimulatedDisk(), VhostStoreSettings(embed_bytes_below=200))
    queues = [store.queue(QueueName("/", name)) for name in "abcd"]
    for number in range(ARRIVED_MAX // 4):
        assert not any(queue.index.journal_bytes for queue in queues)
        for queue in queues:
            publish(queue, number)
    assert all(queue.index.journal_bytes for queue in queues)


def test_a_message_of_several_queues_is_stored_once() -> None:
    """And goes when the last of them has settled it, whatever the order and the starts between."""
    disk = SimulatedDisk()
    store = opened(disk)
    queues = [store.queue(QueueName("/", name)) for name in "abc"]
    for queue in queues:
        publish(queue, 0, size=LARGE)
    store.log.commit()
    assert disk.contents()[PATHS.persistent.file(0)].count(b"body 0 ") == 1
    queues[1].ack([0])
    close(store)
    store = opened(disk)
    queues = [store.queue(QueueName("/", name)) for name in "abc"]
    queues[2].ack([0])
    store.log.commit()
    disk = disk.kill()
    store = opened(disk)
    queues = [store.queue(QueueName("/", name)) for name in "abc"]
    assert [ids(queue) for queue in queues] == [[0], [], []]
    assert store.report.stored == 1
    queues[0].ack([0])
    flush(store, queues[0])
    close(store)
    assert opened(disk).report.stored == 0


def test_small_messages_lie_in_the_index_of_each_queue() -> None:
    """Body and properties count together, up to one byte below the limit."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number, size in enumerate((196, 197)):
        publish(store.queue(Q), number, size=size)
        publish(store.queue(OTHER), number, size=size)
    flush(store, store.queue(Q), store.queue(OTHER))
    contents = disk.contents()
    for name in (Q, OTHER):
        assert contents[segment(0, name)].count(b"body 0 ") == 1
        assert b"body 1 " not in contents[segment(0, name)]
    assert contents[PATHS.persistent.file(0)].count(b"body 1 ") == 1


@pytest.mark.parametrize("restart", ["none", "clean", "kill"])
def test_acknowledged_messages_of_the_store_are_given_back(restart: str) -> None:
    """Also those that were never read in this life; what is left is what queues have."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, *range(12), size=LARGE)
    flush(store, queue)
    store.log.commit()
    if restart == "clean":
        close(store)
    if restart != "none":
        disk = disk.kill()
        store = opened(disk)
        queue = store.queue(Q)
    queue.ack([*range(8)])
    flush(store, queue)
    while steps.run(store.collect_steps()):
        pass
    stored = b"".join(data for path, data in disk.contents().items() if path.endswith(".rdq"))
    assert stored.count(b"body ") < 8
    close(store)
    assert [*check_vhost(disk, ROOT)] == []
    assert opened(disk).report.stored == 4


@pytest.mark.parametrize("restart", ["none", "clean", "kill"])
def test_a_purge_gives_everything_back(restart: str) -> None:
    """Numbers go on; what comes after it stays; nothing of before comes back."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue, other = store.queue(Q), store.queue(OTHER)
    publish(queue, *range(6), size=LARGE)
    publish(other, 3, size=LARGE)
    publish(queue, *range(6, 9))
    flush(store, queue)
    publish(queue, 9)
    store.log.commit()
    if restart == "clean":
        close(store)
    if restart != "none":
        disk = disk.kill()
        store = opened(disk)
        queue, other = store.queue(Q), store.queue(OTHER)
        ids(other)
    queue.purge()
    assert (queue.unacked_count(), ids(queue)) == (0, [])
    next_id = queue.next_seq_id
    publish(queue, next_id, next_id + 1)
    store.log.commit()
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == [next_id, next_id + 1]
    flush(store, queue)
    assert ids(queue) == [next_id, next_id + 1]
    close(store)
    assert [*check_vhost(disk, ROOT)] == []
    store = opened(disk)
    assert (store.report.stored, store.report.messages) == (1, 3)
    assert (ids(store.queue(Q)), ids(store.queue(OTHER))) == ([next_id, next_id + 1], [3])


def test_a_purge_while_a_flush_is_under_way() -> None:
    """At any of its steps: nothing of before comes back, nothing of after is lost."""
    for at in range(8):
        disk = SimulatedDisk()
        store = opened(disk)
        queue = store.queue(Q)
        publish(queue, *range(6))
        flush(store, queue)
        publish(queue, 6, 7)
        queue.ack([0, 1, 2, 3])
        work = store.flush_steps([queue])
        call = next(work)
        for step in range(100):
            if step == at:
                queue.purge()
                publish(queue, 8, 9)
                assert ids(queue) == [8, 9]
            try:
                call = work.send(call())
            except StopIteration:
                break
        else:
            pytest.fail("the flush does not end")
        assert ids(queue) == ([8, 9] if at <= step else [4, 5, 6, 7])
        store.log.commit()
        assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == ids(queue)
        flush(store, queue)
        assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == ids(queue)


def test_a_purge_while_a_flush_is_under_way_outlives_the_files_of_the_log() -> None:
    """The flush does not say that it is done, so the log keeps what says that all is void."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue, other = store.queue(Q), store.queue(OTHER)
    publish(queue, *range(6))
    flush(store, queue)
    publish(queue, 6)
    work = queue_index.flush_steps(store.log, [queue.index])
    call = advance(work)
    queue.purge()
    store.log.commit()
    while call is not None:
        call = advance(work, call())
    first = store.log.oldest_file
    for number in range(60):
        publish(other, number, size=200)
        store.log.commit()
        flush(store, other)
    assert store.log.file_count > 1
    assert store.log.oldest_file == first
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == []
    flush(store, queue)
    assert store.log.oldest_file > first
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == []


@pytest.mark.parametrize("end", ["purge", "remove"])
def test_a_purge_after_a_flush_that_failed_outlives_a_clean_stop(end: str) -> None:
    """The stop ends that flush first, and then removes what the purge has made void."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, *range(6))
    flush(store, queue)
    publish(queue, 6, 7)
    disk.fail("write", 2)
    with pytest.raises(DiskFailed):
        flush(store, queue)
    assert queue.index.is_flushing
    if end == "purge":
        queue.purge()
        publish(queue, 8, 9)
    else:
        steps.run(queue.remove())
    close(store)
    assert [*check_vhost(disk, ROOT)] == []
    assert disk.is_folder(PATHS.queue(queue_folder(Q)).root) == (end == "purge")
    assert ids(opened(disk).queue(Q)) == ([8, 9] if end == "purge" else [])


@pytest.mark.parametrize("kept", [0, 0.5, 1])
@pytest.mark.parametrize("nth", [1, 3, 4, 5])  # of the log, a segment, its checksums, another
def test_a_clean_stop_ends_a_flush_that_failed(nth: int, kept: float) -> None:
    """However much of it reached a file; what came after that is in the journal."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0, 1)
    flush(store, queue)
    publish(queue, 2, 3, 5)
    disk.fail("write", nth, kept=kept)
    with pytest.raises(DiskFailed):
        flush(store, queue)
    queue.ack([1])
    close(store)
    assert [*check_vhost(disk, ROOT)] == []
    again = opened(disk.crash(lambda _: 0))
    assert (again.report.clean_stop, again.report.damage) == (True, [])
    assert ids(again.queue(Q)) == [0, 2, 3, 5]


def test_a_queue_that_is_removed_leaves_nothing() -> None:
    """Its folder goes with the next flush; one of the same name begins anew."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, *range(6))
    flush(store, queue)
    steps.run(queue.remove())
    assert opened(disk.crash(lambda _: 0)).report.messages == 0
    steps.run(store.flush_steps(store.flush_due(0)))
    assert disk.list(PATHS.queues) == []
    queue = store.queue(Q)
    assert (queue.next_seq_id, queue.unacked_count()) == (0, 0)
    publish(queue, 0)
    store.log.commit()
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == [0]


def test_a_queue_that_is_removed_while_a_flush_is_under_way_leaves_nothing() -> None:
    """At any of its steps; nor does it keep files of the log."""
    for at in range(9):
        disk = SimulatedDisk()
        store = opened(disk)
        queue, other = store.queue(Q), store.queue(OTHER)
        publish(queue, *range(6))
        work = store.flush_steps([queue])
        call = advance(work)
        step = 0
        while call is not None:
            if step == at:
                steps.run(queue.remove())
            call, step = advance(work, call()), step + 1
        if step <= at:
            break
        steps.run(store.flush_steps(store.flush_due(1e9)))
        first = store.log.oldest_file
        for number in range(60):
            publish(other, number, size=200)
            store.log.commit()
            flush(store, other)
        assert disk.list(PATHS.queues) == [queue_folder(OTHER)], at
        assert store.log.oldest_file > first, at
    assert at > 3


def test_a_queue_may_come_back_before_its_folder_has_gone() -> None:
    """Then the folder stays for it."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0, 1)
    flush(store, queue)
    steps.run(queue.remove())
    queue = store.queue(Q)
    publish(queue, 7)
    flush(store, queue)
    store.log.commit()
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == [7]
    assert disk.list(PATHS.queues) == [queue_folder(Q)]


def test_what_is_due_for_a_flush() -> None:
    """Queues with many records at once, idle ones after a second, others not."""
    store = opened(SimulatedDisk())
    many, few = store.queue(Q), store.queue(OTHER)
    publish(few, 0)
    assert (store.flush_due(10.0), store.is_flush_due) == ([], False)
    publish(many, *range(7))
    assert (store.flush_due(10.5), store.is_flush_due) == ([many], True)
    flush(store, many)
    assert (store.flush_due(10.9), store.is_flush_due) == ([], False)
    assert store.flush_due(11.0) == [few]
    publish(few, 1)
    assert store.flush_due(11.2) == []
    assert store.flush_due(12.2) == [few]
    flush(store, few)
    assert store.flush_due(99.0) == []


def test_the_log_stays_small_though_a_queue_is_never_idle() -> None:
    """The queues that need its oldest file are flushed, and the checksums of stored messages go."""
    disk = SimulatedDisk()
    settings = VhostStoreSettings(
        embed_bytes_below=200, log_bytes_max=8192, log_file_bytes=2048, journal_bytes_max=1 << 20
    )
    store = opened(disk, settings, VhostGeometry())
    slow, busy = store.queue(Q), store.queue(OTHER)
    now = 0.0
    for number in range(300):
        now += 0.1
        publish(busy, number, size=100)
        if number % 40 == 0:
            publish(slow, number, size=LARGE)
        store.log.commit()
        steps.run(store.flush_steps(store.flush_due(now)))
        assert len(log_files(disk)) <= 6
    again = opened(disk.crash(lambda _: 0), settings)
    assert ids(again.queue(OTHER)) == [*range(300)]
    assert ids(again.queue(Q)) == [*range(0, 300, 40)]


def test_messages_in_memory_have_a_limit() -> None:
    """The fullest queues are flushed until half of it is left."""
    settings = VhostStoreSettings(embed_bytes_below=4096, journal_bytes_max=10_000)
    store = opened(SimulatedDisk(), settings)
    small, large = store.queue(Q), store.queue(OTHER)
    publish(small, *range(5), size=500)
    assert store.flush_due(0.0) == []
    publish(large, *range(12), size=500)
    assert store.flush_due(0.1) == [large]


def test_many_queues_are_flushed_some_at_a_time() -> None:
    """So that no turn is long."""
    store = opened(SimulatedDisk())
    queues = [store.queue(QueueName("/", f"q{n}")) for n in range(300)]
    for queue in queues:
        publish(queue, 0)
    store.flush_due(0.0)
    first = store.flush_due(2.0)
    assert len(first) == 256
    flush(store, *first)
    assert len(store.flush_due(2.1)) == 44


def test_a_kill_with_many_queues_needs_no_file_for_each() -> None:
    """What they have stays in the log, kill after kill, until they are flushed."""
    disk = SimulatedDisk()
    settings = VhostStoreSettings(log_bytes_max=MIB, log_file_bytes=2 * KIB)
    names = [QueueName("/", f"q{n}") for n in range(40)]
    store = opened(disk, settings)
    for name in names:
        publish(store.queue(name), 0, 1)
    store.log.commit()
    store.queue(names[0]).ack([0])
    store.log.commit()
    for _ in range(2):
        disk = disk.crash(lambda _: 0)
        store = opened(disk, settings)
        assert (store.report.messages, disk.folders(PATHS.queues)) == (79, [])
        assert len(log_files(disk)) == 1
        assert [ids(store.queue(name)) for name in names] == [[1], *[[0, 1]] * 39]
    store.flush_due(0.0)
    flush(store, *store.flush_due(9.0))
    assert len(disk.folders(PATHS.queues)) == 40
    store = opened(disk.crash(lambda _: 0), settings)
    assert [ids(store.queue(name)) for name in names] == [[1], *[[0, 1]] * 39]


@pytest.mark.parametrize("log_bytes_max", [8 * MIB, MIB // 64])
def test_much_of_a_queue_comes_into_its_segments_after_a_kill(log_bytes_max: int) -> None:
    """As the log may only carry a little for each queue, and in all a part of what it may have."""
    disk = SimulatedDisk()
    settings = VhostStoreSettings(log_bytes_max=log_bytes_max, log_file_bytes=2 * KIB)
    geometry = VhostGeometry(segment_entries=64)
    store = opened(disk, settings, geometry)
    publish(store.queue(Q), *range(40), size=2000)
    store.log.commit()
    disk = disk.kill()
    store = opened(disk, settings, geometry)
    assert segment(0) in disk.contents()
    assert log_files(disk) == []
    assert ids(store.queue(Q)) == [*range(40)]


def test_names_are_in_the_folder_for_people() -> None:
    """Of priorities, too, as soon as there is a folder."""
    disk = SimulatedDisk()
    store = opened(disk)
    name = QueueName("/", "p", 3)
    publish(store.queue(name), 0)
    flush(store, store.queue(name))
    path = PATHS.queue(queue_folder(name)).name
    assert disk.crash(lambda _: 0).contents()[path] == b"VHOST: /\nQUEUE: p\0\3\n"


def test_only_one_may_have_it_open() -> None:
    """Until that one has closed it."""
    disk = SimulatedDisk()
    store = opened(disk)
    with pytest.raises(StoreLocked):
        opened(disk)
    store.close()
    opened(disk)


def test_another_virtual_hosts_folder_is_refused() -> None:
    """And left as it is."""
    disk = SimulatedDisk()
    close(opened(disk))
    before = disk.contents()
    with pytest.raises(ForeignStore, match="expected the virtual host 'v', found '/'"):
        VhostStore.open(VhostPlace(disk, ROOT, "v"), VhostStoreSettings(), VhostGeometry())
    assert disk.contents() == before


def test_a_folder_keeps_its_geometry() -> None:
    """Whatever the settings say later; it is told."""
    disk = SimulatedDisk()
    close(opened(disk, geometry=VhostGeometry(segment_entries=7)))
    assert clean_stop.decode_config(disk.contents()[PATHS.config]) == 7
    store = opened(disk, geometry=VhostGeometry(segment_entries=9))
    assert store.report.segment_entries == 7
    publish(store.queue(Q), *range(8))
    flush(store, store.queue(Q))
    assert {segment(0), segment(1)} <= disk.contents().keys()


def test_a_folder_of_before_3_8_17() -> None:
    """It has queues and no `.config`: its segments have 16,384 entries."""
    disk = SimulatedDisk()
    put(disk, journal(), b"")
    store = opened(disk)
    assert store.report.segment_entries == 16384
    assert clean_stop.decode_config(disk.contents()[PATHS.config]) == 16384


def test_a_geometry_that_cannot_be_understood_is_refused() -> None:
    """Rather than guessed."""
    disk = SimulatedDisk()
    put(disk, PATHS.config, b"{segment_entry_count, 99999}.")
    with pytest.raises(ForeignStore, match=r"\.config"):
        opened(disk)


def test_a_full_disk_refuses_and_loses_nothing() -> None:
    """A flush that found no space is due again."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0, 1)
    store.log.commit()
    disk.is_full = True
    with pytest.raises(DiskFull):
        flush(store, queue)
    disk.is_full = False
    assert store.flush_due(0.0) == [queue]
    flush(store, queue)
    assert ids(opened(disk.crash(lambda _: 0)).queue(Q)) == [0, 1]


WHERE = {
    "in the newest store file, after a kill": (LARGE, 1, "kill"),
    "in a full store file, after a kill": (LARGE, 12, "kill"),
    "in a store file, after a clean stop": (LARGE, 2, "clean"),
    "in a full store file, after a clean stop": (LARGE, 12, "clean"),
}


@pytest.mark.parametrize("where", WHERE)
def test_a_flipped_bit_is_noticed(where: str) -> None:
    """The message is left out and told; all others are there, and it stays in the files."""
    size, count, end = WHERE[where]
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, *range(count), size=size)
    flush(store, queue)
    if end == "clean":
        close(store)
    disk = disk.kill()
    flip(disk, PATHS.persistent.file(0), b"body 0 ")
    queue = opened(disk).queue(Q)
    assert ids(queue) == [*range(1, count)]
    assert len(queue.unreadable) <= 1
    assert all("another checksum" in why for why in queue.unreadable.values())
    if end == "clean":
        assert [*queue.unreadable] == [0]


def test_checksums_outlive_kills() -> None:
    """Those that only the log has had are beside the files when it is gone."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(Q), 0, 1, size=LARGE)
    store.log.commit()
    disk = disk.kill()
    opened(disk).close()
    flip(disk, PATHS.persistent.file(0), b"body 0 ")
    queue = opened(disk).queue(Q)
    assert ids(queue) == [1]
    assert "another checksum" in queue.unreadable[0]


@pytest.mark.parametrize("where", WHERE)
def test_who_only_reads_the_folder_notices_a_flipped_bit_too(where: str) -> None:
    """By the checksums beside the files, and those in the log; check has one finding."""
    size, count, end = WHERE[where]
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, *range(count), size=size)
    flush(store, queue)
    if end == "clean":
        close(store)
    assert [*check_vhost(disk, ROOT)] == []
    flip(disk, PATHS.persistent.file(0), b"body 0 ")
    reader = VhostReader(disk, ROOT)
    (found,) = reader.queues()
    faults = {one.seq_id: one.fault for one in reader.messages(found) if one.fault}
    assert [*faults] == [0]
    assert "another checksum" in faults[0]
    (finding,) = check_vhost(disk, ROOT)
    assert "another checksum" in finding.found


def test_numbers_that_lie_far_apart() -> None:
    """As transient messages between them are not kept."""
    disk = SimulatedDisk()
    store = opened(disk, geometry=VhostGeometry())
    queue = store.queue(Q)
    publish(queue, 5, 1_000, 1_000_000)
    queue.ack([1_000])
    flush(store, queue)
    assert ids(queue) == [5, 1_000_000]
    close(store)
    assert [*check_vhost(disk, ROOT)] == []


def test_an_expiry_comes_back() -> None:
    """And none stays none."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    queue.publish(0, [message(0)], expires_at_us=77, is_delivered=True)
    publish(queue, 1)
    close(store)
    found = steps.run(opened(disk).queue(Q).read(0, 9))
    assert [(one.expires_at_us, one.is_delivered) for one in found] == [(77, True), (None, False)]


@pytest.mark.parametrize("left", ["none", "cut", "damaged"])
def test_a_journal_that_lacks_something_is_told(left: str) -> None:
    """Also where the log has records behind it, which count; check says the same."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(Q), 0, 1)
    close(store)
    store = opened(disk)
    publish(store.queue(Q), 2)
    store.log.commit()
    disk = disk.kill()
    assert opened(disk.kill()).report.damage == []
    file = disk.open(journal(), write=True)
    if left == "damaged":
        second = file.size() // 2
        file.write([b"\0" * 40], second)
    else:
        file.resize(0 if left == "none" else file.size() - 1)
    expected = {"none": [2], "cut": [0, 1, 2], "damaged": [0, 1, 2]}[left]
    findings = [one for one in check_vhost(disk, ROOT) if one.path == journal()]
    assert len(findings) == 1
    again = opened(disk)
    assert ids(again.queue(Q)) == expected
    assert [one for one in again.report.damage if "journal.jif" in one] == again.report.damage
    assert len(again.report.damage) == 1


@pytest.mark.parametrize("count", [1, 20], ids=["synced one by one", "synced together"])
@pytest.mark.parametrize("end", ["a clean stop", "a kill", "a kill and a start", "three kills"])
def test_who_reads_the_folder_knows_what_queues_are_called(end: str, count: int) -> None:
    """Whatever the end was, and before anything of a queue came into a segment."""
    disk = SimulatedDisk()
    store = opened(disk)
    names = [QueueName("/", f"orders\n{number}") for number in range(count)]
    for name in names:
        publish(store.queue(name), 0)
    store.log.commit()
    if end == "a clean stop":
        close(store)
        disk = disk.crash(lambda _: 0)
    else:
        disk = disk.crash(lambda _: 0)
        for _ in range({"a kill": 0, "a kill and a start": 1, "three kills": 2}[end]):
            opened(disk)
            disk = disk.crash(lambda _: 0)
    found = [queue.name for queue in VhostReader(disk, ROOT).queues()]
    assert found == sorted(name.name for name in names)


@pytest.mark.parametrize("is_carried", [True, False])
def test_a_torn_name_is_written_again(is_carried: bool) -> None:
    """By the start that finds it, though nothing of the queue comes into a segment then."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(Q), 0, size=20 if is_carried else 300)
    store.log.commit()
    disk = disk.crash(lambda _: 0)
    put(disk, PATHS.queue(queue_folder(Q)).name, b"")
    queue = opened(disk).queue(Q)
    assert ids(queue) == [0]
    put_back = disk.crash(lambda _: 0).contents()[PATHS.queue(queue_folder(Q)).name]
    assert put_back == encode_queue_name(Q)


NAME_FILE = PATHS.queue(queue_folder(Q)).name


def test_a_name_that_is_missing_comes_at_the_next_stop() -> None:
    """Though nothing happens to the queue."""
    disk = SimulatedDisk()
    store = opened(disk)
    publish(store.queue(Q), 0)
    close(store)
    disk.remove(NAME_FILE)
    disk.sync_folder(NAME_FILE.rpartition("/")[0])
    again = opened(disk)
    assert ids(again.queue(Q)) == [0]
    again.queue(OTHER)  # has no folder, and gets none
    close(again)
    assert disk.crash(lambda _: 0).contents()[NAME_FILE] == encode_queue_name(Q)
    assert not disk.is_folder(PATHS.queue(queue_folder(OTHER)).root)
    assert opened(disk).report.clean_stop


@pytest.mark.parametrize("data", [b"", encode_queue_name(Q) + b"and more"])
def test_a_name_that_cannot_be_read_is_replaced_by_the_next_flush(data: bytes) -> None:
    """Whoever left it so, where no log tells what it was."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0)
    flush(store, queue)
    disk = disk.crash(lambda _: 0)
    put(disk, NAME_FILE, data)
    again = opened(disk)
    queue = again.queue(Q)
    publish(queue, 7)
    flush(again, queue)
    assert disk.crash(lambda _: 0).contents()[NAME_FILE] == encode_queue_name(Q)


def test_a_bad_sector_under_a_name_stops_no_start() -> None:
    """The file is left as it is, unwritten: nobody needs it, and it may be read again."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0)
    flush(store, queue)
    disk = disk.crash(lambda _: 0)

    calls: set[str] = set()

    def fail(call: str, path: str) -> None:
        if path.startswith(NAME_FILE):
            calls.add(call)
        if (call, path) == ("read", NAME_FILE):
            raise DiskFailed("bad sector", path)

    disk.before = fail
    again = opened(disk)
    assert (ids(again.queue(Q)), again.report.damage) == ([0], [])
    close(again)
    assert disk.contents()[NAME_FILE] == encode_queue_name(Q)
    assert calls == {"open", "read", "size"}


def test_a_queue_is_named_that_was_flushed_before_its_name_was_known() -> None:
    """As one of a log that does not tell names."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    queue.index.origin.queue_name = b""
    publish(queue, 0)
    store.log.commit()
    disk = disk.crash(lambda _: 0)
    again = opened(disk)
    flush(again, *again.unclaimed.values())
    queue = again.queue(Q)
    publish(queue, 7)
    flush(again, queue)
    close(again)
    (found,) = VhostReader(disk, ROOT).queues()
    assert found.name == Q.name


@pytest.mark.parametrize("lacks", ["little", "much", "nothing"])
def test_checksums_of_what_was_not_written_are_no_damage(lacks: str) -> None:
    """Power went in a flush: of a segment and its checksums only these are on the disk.

    The start that finds it tells the checksums where the segment ends, or the next one would miss
    something.
    """
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0, 1)
    flush(store, queue)
    written = disk.contents()[segment(0)]
    if lacks == "little":
        queue.ack([0])
    else:
        publish(queue, 2, size=300)
    store.log.commit()

    def lose_power(call: str, path: str) -> None:
        if call == "sync" and path == segment(0):
            raise PowerLoss

    disk.before = lose_power
    with pytest.raises(PowerLoss):
        flush(store, queue)
    disk.before = None
    if lacks == "nothing":
        queue.ack([2])
        store.log.commit()
    disk = disk.kill()
    put(disk, segment(0), written)
    for _ in range(3):
        report = opened(disk).report
        assert report.damage == []
        disk = disk.crash(lambda _: 0)
    assert [*check_vhost(disk, ROOT)] == []


class PowerLoss(BaseException):
    """The moment at which everything stops."""
