"""Offsets without gaps, times that never go down, and a failed write takes everything back."""

import errno
from itertools import accumulate, pairwise

import pytest
from msgspec import structs
from tests.stores import SMALL, batch_of, filled, filled_parts, new, open_parts, open_store

from sprocket.base.clock import LogClock
from sprocket.base.disk import steps
from sprocket.base.errors import (
    CorruptRecord,
    DiskFailed,
    DiskFull,
    DiskRefused,
    MessageTooLarge,
    StoreFailed,
)
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.errors import PropertiesTooLarge
from sprocket.rocketmq.model.message import INNER_BATCH
from sprocket.rocketmq.store.log import Appended, AppendedBatch, Appender, Flusher
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

AT_MS = 1_700_000_000_000


def test_offsets_count_by_queue() -> None:
    """Prepared and rolled back messages take none, committed ones do."""
    store = open_store(SimulatedDisk())
    offsets = [
        store.append(new("a", 0)).queue_offset,
        store.append(new("a", 1)).queue_offset,
        store.append(new("a", 0, sys_flag=4)).queue_offset,
        store.append(new("a", 0, sys_flag=12)).queue_offset,
        store.append(new("a", 0, sys_flag=8)).queue_offset,
        store.append(new("b", 0)).queue_offset,
        store.append(new("a", 0)).queue_offset,
    ]
    assert offsets == [0, 0, 0, 0, 1, 0, 2]
    batch = store.append_all(
        [new("a", 0), new("a", 0, sys_flag=4), new("a", 0), new("c", 0)], together=True
    )
    assert [e.queue_offset for e in batch] == [3, 0, 4, 0]
    store.write()
    store.sync()
    assert store.queue_range("a", 0).max == 5
    assert store.append(new("c", 0)).queue_offset == 1


def test_a_batch_takes_a_place_for_each_of_its_messages() -> None:
    """In its queue and in the log, where it lies in one file."""
    _, store = filled(0)
    ends = []
    for number in range(9):
        made = [new("a", 1, b"x" * 250) for _ in range(1 + number % 4)]
        if number % 3:
            batch = store.append_batch(batch_of(made))
        else:
            batch = store.append_all(made, together=True)
        ends.append(batch[-1].queue_offset + 1)
        assert [e.queue_offset for e in batch] == [*range(ends[-1] - len(made), ends[-1])]
        assert len({e.physical_offset // SMALL.log.segment_bytes for e in batch}) == 1
        places = [*batch.physical_offsets, store.end]
        assert len({after - place for place, after in pairwise(places)}) == 1
    assert ends == list(accumulate(1 + number % 4 for number in range(9)))
    store.write()
    store.sync()
    found = [record.decode(data) for _, data in store.records()]
    assert [(m.queue_offset, m.body) for m in found] == [(n, b"x" * 250) for n in range(ends[-1])]
    assert store.queue_range("a", 1).max == ends[-1]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_takes_everything_back(number: int) -> None:
    """Offsets of queues old and new; the next turn has them."""
    disk, store = filled(4)
    before = store.end, store.written
    store.append(new("topic", 0))
    store.append_all([new("topic", 0), new("other", 0), new("topic", 0)])
    store.append_batch(batch_of([new("topic", 1), new("topic", 1)]))
    store.append_all([new("topic", 1), new("other", 0)], together=True)
    store.append_batch(batch_of([new("third", 1)]))
    disk.fail("write", 1, number)
    with pytest.raises((DiskFull, DiskFailed)):
        store.write()
    assert (store.end, store.written) == before
    assert store.dispatch() == ([], [])
    assert store.append(new("topic", 1)).queue_offset == 2
    assert store.append(new("other", 0)).queue_offset == 0
    assert store.append(new("topic", 0)).queue_offset == 2
    store.write()
    store.sync()
    assert store.queue_range("topic", 1).max == 3
    assert len(list(store.records())) == 7


def test_a_file_that_cannot_be_opened_stops_nothing() -> None:
    """Nothing was written, so nothing is to be undone, and no file is needed for that."""
    disk, store, opened = filled_parts(4)
    before = store.end, store.written
    opened.log.files.close()
    store.append(new())
    for nth in range(1, 9):
        disk.fail("open", nth, errno.EMFILE)
    with pytest.raises(DiskRefused):
        store.write()
    assert (store.end, store.written) == before
    disk.calls["open"] += 9  # there are descriptors again
    store.append(new())
    store.write()
    store.sync()
    assert len(list(store.records())) == 5


def test_a_failed_write_that_cannot_be_undone_pauses_the_store() -> None:
    """It says why, until a round of upkeep finds that there is room again."""
    disk, store = filled(4)
    before = store.end
    store.append(new())
    assert store.refusal is None
    disk.fail("write", 1, errno.ENOSPC)
    disk.is_full = True
    with pytest.raises(DiskFull):
        store.write()
    with pytest.raises(DiskFull, match="index"):  # whose upkeep needs space, too
        steps.run(store.maintain_steps())
    assert store.refusal is not None
    with pytest.raises(DiskFailed, match="undone"):
        store.append(new())
    disk.is_full = False
    steps.run(store.maintain_steps())
    assert store.refusal is None
    store.append(new())
    store.write()
    assert store.sync() > before
    store.close()
    assert len(list(open_store(disk).records())) == 5


def test_a_failed_write_that_could_not_be_undone_leaves_no_clean_stop() -> None:
    """The next opening looks at what is behind the end; nothing that was stored is missing."""
    disk, store = filled(4)
    store.append(new())
    disk.fail("write", 1, errno.ENOSPC)
    disk.is_full = True
    with pytest.raises(DiskFull):
        store.write()
    with pytest.raises(DiskFull):
        store.close()
    disk.is_full = False
    again = open_store(disk)
    assert again.report.bytes_cut > 0
    assert len(list(again.records())) == 4


def test_a_failed_sync_of_what_undoes_a_write_stops_the_store() -> None:
    """It counts as one of the log's own: it may have been about other records."""
    disk, store = filled(4)
    store.append(new())
    disk.fail("write", 1, errno.ENOSPC)
    disk.fail("sync", 1, errno.EIO)
    with pytest.raises(StoreFailed):
        store.write()
    for refused in (lambda: store.append(new()), store.sync, store.close):
        with pytest.raises(StoreFailed, match="sync"):
            refused()
    assert len(list(open_store(disk).records())) == 4


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (new(body=bytes(2049)), MessageTooLarge),
        (new("a/b"), CorruptRecord),
        (new(queue_id=-1), MessageTooLarge),
        (new(queue_id=1 << 31), MessageTooLarge),
        (new("x" * 40_000), MessageTooLarge),
    ],
)
def test_what_cannot_be_stored_is_refused(bad: object, error: type[Exception]) -> None:
    """Alone and in a batch, of which then nothing is taken."""
    store = open_store(SimulatedDisk())
    with pytest.raises(error):
        store.append(bad)  # type: ignore[arg-type]
    with pytest.raises(error):
        store.append_all([new(), bad], together=True)  # type: ignore[list-item]
    with pytest.raises(error):
        store.append_all([new(), bad, new()])  # type: ignore[list-item]
    assert store.end == 0
    assert store.append(new()).queue_offset == 0


def test_many_fill_files_as_each_by_itself_would() -> None:
    """In any mixture of queues and sizes; a batch that must lie together may leave more room."""
    sizes = (300, 700, 40, 900, 1, 1300, 600, 20)
    many = [new(f"t{n % 3}", n % 2, bytes(size)) for n, size in enumerate(sizes)]
    single, together = open_store(SimulatedDisk()), open_store(SimulatedDisk())
    expected = [single.append(one) for one in many]
    assert list(together.append_all(many)) == expected
    for store in (single, together):
        store.write()
        store.sync()
    records = [bytes(data) for _, data in together.records()]
    assert records == [bytes(data) for _, data in single.records()]
    assert len(records) == len(sizes)
    assert len({one.physical_offset // SMALL.log.segment_bytes for one in expected}) > 1


def test_beside_a_batch_plain_records_get_the_offsets_that_they_get_alone() -> None:
    """A record that takes several offsets has all of them given one by one."""
    pairs = properties.encode({"INNER_NUM": "3"})
    inner = structs.replace(new("batches", sys_flag=INNER_BATCH), properties=pairs)
    plain = [new(f"t{n % 3}", n % 2) for n in range(8)]
    offsets = []
    for given in ([*plain, new("batches")], [*plain, inner]):
        store = open_store(SimulatedDisk())
        store.batch_topics.add("batches")
        offsets.append(
            [*store.append_all(given).queue_offsets, *store.append_all(plain).queue_offsets]
        )
    assert offsets[0] == offsets[1]


def test_store_times_never_go_down() -> None:
    """Even when the clock does; all that is written together has the time of its first."""
    clock = FakeClock()
    store = open_store(SimulatedDisk(), clock=clock)
    times = []
    for step in (0, 5, -1000, 3, 2000):
        clock.step_wall(step)
        times.append(store.append(new()).stored_at_ms - AT_MS)
        clock.step_wall(7)
        times.append(store.append_batch(batch_of([new()]))[0].stored_at_ms - AT_MS)
        clock.step_wall(-7)
        store.write()
    assert times == [0, 0, 5, 5, 5, 5, 5, 5, 1008, 1008]


def test_a_fill_in_flight_forbids_a_write_into_it() -> None:
    """The owner waits; not to is a mistake."""
    _, store = filled(1, fill_ahead_bytes=4096)
    fill = store.begin_fill()
    assert fill is not None
    while not store.fill_blocks_write():
        store.append(new())
    with pytest.raises(AssertionError):
        store.write()
    fill.run()
    fill.finish(None)
    store.write()
    assert len(list(store.records())) > 1


def test_a_pause_ends_and_a_stop_does_not() -> None:
    """Each says why; nothing is taken meanwhile, and nothing of the offsets is lost."""
    clock = FakeClock()
    opened = open_parts(SimulatedDisk(), clock=clock)
    flusher = Flusher(opened.parts.disk, opened.log, opened.parts.settings, clock)
    appender = Appender(opened.log, flusher, LogClock(clock, 0), {("topic", 0): 2}, 2048)
    appender.pause("the disk is 91 % full")
    with pytest.raises(DiskFull, match="91 %"):
        appender.append(new("topic", 0))
    appender.resume()
    assert appender.append(new("topic", 0)).queue_offset == 2
    appender.stop("no more")
    appender.pause("full")
    appender.resume()
    with pytest.raises(StoreFailed, match="no more"):
        appender.append_batch(batch_of([new("topic", 0)]))


def test_batches_and_light_queues_get_their_places() -> None:
    """One after the other, alone and in a batch, and units in every queue."""
    store = open_store(SimulatedDisk(), light_queues=True)
    store.batch_topics.add("batches")
    pairs = properties.encode({"INNER_NUM": "3"})
    inner = structs.replace(new("batches", sys_flag=INNER_BATCH), properties=pairs)
    light = structs.replace(
        new("topic"), properties=properties.encode({"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"})
    )
    entries = [
        store.append(inner),
        store.append(new("batches")),
        store.append(light),
        *store.append_all([inner, light, new("topic"), light], together=True),
    ]
    assert [e.queue_offset for e in entries] == [0, 3, 0, 4, 1, 2, 3]
    store.write()
    store.sync()
    assert {(a.topic, a.next_offset) for a in store.dispatch().arrivals} == {
        ("batches", 7),
        ("topic", 4),
        ("%LMQ%a", 3),
        ("%LMQ%b", 3),
    }
    got = store.get_messages("%LMQ%b", 0, 0)
    places = [record.decode(stored).physical_offset for stored in got.records]
    assert places == [entries[n].physical_offset for n in (2, 4, 6)]
    assert store.get_messages("batches", 0, 1).count == 7


def test_a_batch_may_have_a_light_message() -> None:
    """It gets its places in the light queues as well, wherever in the batch it is."""
    store = open_store(SimulatedDisk(), light_queues=True)
    light, plain = [
        structs.replace(new("topic"), properties=properties.encode({**pairs, "END": "1"}))
        for pairs in ({"INNER_MULTI_DISPATCH": "%LMQ%a"}, {})
    ]
    appended = store.append_batch(batch_of([plain, light, plain]))
    lights = properties.encode({"INNER_MULTI_DISPATCH": "%LMQ%a"})
    alike = batch_of([structs.replace(plain, properties=lights, flag=n) for n in range(2)])
    assert alike.added == lights
    shared = store.append_batch(alike)
    assert [*shared.queue_offsets] == [3, 4]
    assert [store.append(light).queue_offset, *appended.queue_offsets] == [5, 0, 1, 2]
    store.write()
    store.sync()
    store.dispatch()
    got = store.get_messages("%LMQ%a", 0, 0)
    places = [record.decode(stored).physical_offset for stored in got.records]
    assert places[:3] == [appended[1].physical_offset, *shared.physical_offsets]
    assert len(places) == 4


def test_places_are_told_one_by_one() -> None:
    """As a sequence, and as parts of one."""
    places = AppendedBatch([5, 7, 9], [100, 200, 300], 42)
    assert [*places] == [Appended(5, 100, 42), Appended(7, 200, 42), Appended(9, 300, 42)]
    assert (len(places), places[-1], places.part(1)) == (
        3,
        [*places][2],
        AppendedBatch([7], [200], 42),
    )


def test_a_failed_write_takes_all_places_back() -> None:
    """Those in light and batch queues as well."""
    disk = SimulatedDisk()
    store = open_store(disk, light_queues=True)
    store.batch_topics.add("batches")
    inner = structs.replace(
        new("batches", sys_flag=INNER_BATCH), properties=properties.encode({"INNER_NUM": "3"})
    )
    light = structs.replace(
        new("topic"), properties=properties.encode({"INNER_MULTI_DISPATCH": "%LMQ%a"})
    )
    store.append_all([inner, light], together=True)
    store.write()
    store.append_all([inner, light], together=True)
    store.append(light)
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        store.write()
    assert [e.queue_offset for e in (store.append(inner), store.append(light))] == [3, 1]
    store.write()
    store.sync()
    assert {(a.topic, a.next_offset) for a in store.dispatch().arrivals} == {
        ("batches", 6),
        ("topic", 2),
        ("%LMQ%a", 2),
    }


def test_limits_of_light_records_and_batches() -> None:
    """The whole record for light queues, all bodies together for a batch."""
    store = open_store(SimulatedDisk(), light_queues=True)
    light = structs.replace(
        new("topic", body=bytes(1900)),
        properties=properties.encode({"INNER_MULTI_DISPATCH": "%LMQ%a"}),
    )
    with pytest.raises(MessageTooLarge, match="for light queues"):
        store.append(light)
    with pytest.raises(MessageTooLarge, match="a batch of 2049 bytes"):
        store.append_batch(batch_of([new(body=bytes(1000)), new(body=bytes(1005))]))
    assert len(store.append_batch(batch_of([new(body=bytes(1000)), new(body=bytes(1004))]))) == 2
    with pytest.raises(MessageTooLarge, match="a batch of 2068 bytes"):
        store.append_batch(batch_of([new(body=b"")] * 94))
    with pytest.raises(PropertiesTooLarge):
        store.append(structs.replace(new(), properties=b"a\x01" + bytes(32_766) + b"\x02"))


@pytest.mark.parametrize("flag", [1 << bit for bit in range(11, 31)] + [-(1 << 31), 0x702])
def test_every_bit_of_the_system_flag_is_kept(flag: int) -> None:
    """Those that mean nothing yet, too; only the hosts' are set as the hosts are."""
    store = open_store(SimulatedDisk())
    entry = store.append(new(sys_flag=flag | 0x30))
    store.write()
    assert record.decode(store.record_at(entry.physical_offset)).sys_flag == flag
    assert entry.queue_offset == 0
