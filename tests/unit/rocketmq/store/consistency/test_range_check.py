"""Units and keys that do not fit the log are found; what a newer life of a topic made is not."""

import pytest
from tests.stores import ROOT, SMALL, filled_parts, log_files, new, open_parts, overwrite

from sprocket.base.disk import SegmentFiles
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.consistency import range_check
from sprocket.rocketmq.store.consistency.range_check import Part
from sprocket.rocketmq.store.index import HEADER_BYTES, SLOT_BYTES, Indexes, key_string
from sprocket.rocketmq.store.log import log_scanner
from sprocket.rocketmq.store.opening import Opened
from sprocket.rocketmq.store.queue import QUEUE_UNIT, UNIT_BYTES, Queue
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

COUNT = 60


@pytest.fixture(params=["many", "one by one"])
def lab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "Lab":
    """A store with 30 messages in each of two queues, with records in long batches or alone."""
    if request.param == "one by one":
        monkeypatch.setattr(log_scanner, "BATCH", 1)
        monkeypatch.setattr(log_scanner, "BATCH_MIN", 1)
    return Lab(*filled_parts(COUNT))


class Lab:
    """A store and what it is made of."""

    def __init__(self, disk: SimulatedDisk, store: Store, opened: Opened) -> None:
        self.disk = disk
        self.store = store
        self.parts = opened.parts
        assert opened.parts.index is not None
        self.index = opened.parts.index

    @property
    def end(self) -> int:
        """Where the log ends."""
        return self.store.end

    def queue(self, queue_id: int) -> Queue:
        """Return a queue of the topic."""
        queue = self.parts.queues.by_key.get(("topic", queue_id))
        assert queue is not None
        return queue

    def wrong(self, start: int = 0, *, absent_too: bool = False) -> set[tuple[str, int]]:
        """Return the queues that do not fit the log from a place on."""
        parts = self.parts
        part = Part(start, self.end)
        return range_check.wrong_queues(
            parts.files, parts.queues, part, parts.units, absent_too=absent_too
        )

    def lacks(self, start: int = 0) -> bool:
        """Say whether the index does not fit the log from a place on."""
        return range_check.index_is_wrong(self.parts.files, self.index, Part(start, self.end))

    def overwrite(
        self, queue_id: int, offset: int, place: int, size: int, code: int | None = None
    ) -> None:
        """Change a unit of a queue, as a bad disk would; its code is kept if none is given."""
        queue = self.queue(queue_id)
        assert isinstance(queue, FileQueue)
        files = SegmentFiles(self.disk, queue.files.folder, SMALL.queue.file_bytes)
        files.load()
        code = queue.unit(offset)[2] if code is None else code
        overwrite(files, offset * UNIT_BYTES, QUEUE_UNIT.pack(place, size, code))
        queue.files.close()  # what it has read before is forgotten

    def load_index(self) -> None:
        """Take up the index as it lies on the disk now."""
        self.index = Indexes(self.disk, f"{ROOT}/index", SMALL.index, FakeClock())
        self.index.load()

    def index_files(self) -> list[str]:
        """Return the index files, oldest first."""
        return [f"{ROOT}/index/{name}" for name in self.disk.list(f"{ROOT}/index")]


def test_a_sound_store_agrees(lab: Lab) -> None:
    """Wherever the comparison begins, also in the middle of a record."""
    for start in (0, 1, 1000, lab.end - 1, lab.end):
        assert lab.wrong(start, absent_too=True) == set()
        assert not lab.lacks(start)


@pytest.mark.parametrize("offset", [0, 7, 29])
@pytest.mark.parametrize(("ahead", "larger"), [(1, 0), (-1, 0), (1 << 40, 0), (0, 1)])
def test_one_wrong_unit_is_found(lab: Lab, offset: int, ahead: int, larger: int) -> None:
    """Wherever it is, and however little it differs."""
    place, size, _ = lab.queue(1).unit(offset)
    lab.overwrite(1, offset, max(place + ahead, 0), size + larger)
    assert lab.wrong() == {("topic", 1)}
    assert lab.wrong(place + size) == set()


def test_a_wrong_tags_code_is_found(lab: Lab) -> None:
    """A consumer that asks for the tag would never get the message."""
    place, size, code = lab.queue(1).unit(9)
    lab.overwrite(1, 9, place, size, code + 1)
    assert lab.wrong() == {("topic", 1)}


def test_a_unit_that_names_another_record_is_found(lab: Lab) -> None:
    """It is intact, but of another queue."""
    place, size, _ = lab.queue(0).unit(9)
    lab.overwrite(1, 8, place, size)
    assert lab.wrong() == {("topic", 1)}


def test_a_missing_queue_counts_only_if_wanted(lab: Lab) -> None:
    """Who knows which queues there were knows which one was deleted."""
    lab.parts.queues.remove("topic", 1)
    assert lab.wrong() == set()
    assert lab.wrong(absent_too=True) == {("topic", 1)}


def test_the_newest_life_of_a_topic_decides(lab: Lab) -> None:
    """Offsets of a topic that was deleted and made again begin at 0 another time."""
    lab.store.close()
    lab.disk.remove_tree(f"{ROOT}/consumequeue/topic/1")
    lab.disk.remove(f"{ROOT}/config/clean.json")
    lab.disk.remove(f"{ROOT}/config/queues.json")
    place = lab.end
    data = record.encode(
        new("topic", 1, name="NEW"),
        queue_offset=0,
        physical_offset=place,
        stored_at_ms=1_800_000_000_000,
        crc_tail=True,
    )
    overwrite(log_files(lab.disk), place, data)
    opened = open_parts(lab.disk)
    again = Lab(lab.disk, Store(opened), opened)
    assert again.wrong(absent_too=True) == set()
    again.overwrite(1, 0, place + 1, len(data))
    assert again.wrong() == {("topic", 1)}


def test_a_lost_index_file_is_noticed(lab: Lab) -> None:
    """The first, and one in the middle; the last ends where the index ends."""
    lab.store.append(new("topic", 0, name="MORE", keys=tuple(f"k{n}" for n in range(70))))
    lab.store.close()
    names = lab.index_files()
    assert len(names) == 4
    lab.load_index()
    assert not lab.lacks(lab.end)
    for lost in (0, 1):
        lab.disk.rename(names[lost], "/lost")
        lab.load_index()
        assert lab.lacks(lab.end)
        lab.disk.rename("/lost", names[lost])
    lab.load_index()
    lab.index.headers[0].next_unit = 1
    assert lab.lacks(lab.end)


def test_a_key_that_is_not_found_is_noticed(lab: Lab) -> None:
    """Units of an index file may be gone although its header is good."""
    lab.store.close()
    file = lab.disk.open(lab.index_files()[-1], write=True)
    units_at = HEADER_BYTES + SLOT_BYTES * SMALL.index.slots
    file.write([bytes(file.size() - units_at)], units_at)
    lab.load_index()
    assert lab.lacks()
    assert not lab.lacks(lab.end)


def test_very_many_queues_are_compared_in_part(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them costs a read, and opening must stay quick."""
    monkeypatch.setattr(range_check, "READS_MAX", 0)
    lab.overwrite(1, 3, 77, 77)
    assert lab.wrong() == set()


def test_the_limit_of_reads_holds_among_records_that_come_together(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight thousand of them may be in as many queues."""
    monkeypatch.setattr(range_check, "READS_MAX", 1)
    lab.overwrite(1, 3, 77, 77)
    assert lab.wrong() == set()
    lab.overwrite(0, 0, 77, 77)
    assert lab.wrong() == {("topic", 0)}


def test_only_some_keys_are_looked_up(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record of half a GiB was kept meanwhile, with the columns that it came from."""
    monkeypatch.setattr(range_check, "LOOKUPS_MAX", 8)
    looked_up: list[str] = []

    def find(key: str, *_: object) -> list[int]:
        looked_up.append(key)
        return [offset for offset, data in lab.store.records() if key_of(data) == key]

    def key_of(data: memoryview) -> str:
        entry = record.entry(data)
        return key_string(entry.topic, entry.keys[-1])

    monkeypatch.setattr(lab.index, "find", find)
    assert not lab.lacks()
    assert looked_up == [f"topic#N{number}" for number in range(0, COUNT, 8)]


def test_queues_that_were_just_put_are_not_looked_for(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only before them one may be absent, once enough queues were read."""
    monkeypatch.setattr(range_check, "READS_MAX", 0)
    parts = lab.parts
    parts.queues.remove("topic", 1)
    for put_from, expected in ((lab.end, {("topic", 1)}), (0, set())):
        assert expected == range_check.wrong_queues(
            parts.files,
            parts.queues,
            Part(0, lab.end),
            parts.units,
            absent_too=True,
            put_from=put_from,
        )


def test_a_comparison_with_the_index_can_be_ended(lab: Lab) -> None:
    """It tells how far it is while it scans, and while it looks keys up."""

    class EndedError(Exception):
        pass

    told: list[str] = []

    def step(what: str, done: int, total: int = 0) -> None:
        told.append(what)
        if len(told) == 3:
            raise EndedError

    parts = lab.parts
    with pytest.raises(EndedError):
        range_check.index_is_wrong(parts.files, lab.index, Part(0, lab.end), step)
    assert "bytes of log compared with the index" in told
