"""`SegmentFiles` keeps its files in order and opens none before it is needed."""

import random
from typing import Any

import pytest

from sprocket.base.disk import (
    OpenFiles,
    Segment,
    SegmentFiles,
    SegmentReader,
    create_segment,
    fill_up,
    segment_name,
    segments,
    short_files,
    steps,
    written_ranges,
)
from sprocket.base.errors import (
    DiskFailed,
    FileMissing,
    ForeignStore,
    OffsetTooLarge,
    OffsetTooSmall,
)
from sprocket.testing.disk import BLOCK, SimulatedDisk


def _make(starts: list[int], *, size: int = 100, write: bool = True) -> "Made":
    disk = SimulatedDisk()
    disk.make_folder("/log")
    for start in starts:
        create_segment(disk, f"/log/{segment_name(start)}", size, durable=False)
    return Made(disk, "/log", 100, write=write)


class Made(SegmentFiles):
    """Files that say on which disk they lie."""

    def __init__(self, disk: SimulatedDisk, *settings: Any, write: bool) -> None:
        super().__init__(disk, *settings, write=write)
        self.disk = disk


def test_names_have_20_digits() -> None:
    """The second file of RocketMQ's default size."""
    assert segment_name(1 << 30) == "00000000001073741824"


def test_an_empty_set_has_no_bytes() -> None:
    """Without files every offset is too large."""
    files = _make([])
    assert files.load() == []
    assert (files.first, files.end_of_files, len(files)) == (0, 0, 0)
    with pytest.raises(OffsetTooLarge):
        files.segment(0)


def test_offsets_find_their_file() -> None:
    """The first and the last byte of each file, and one before and one past all."""
    files = _make([200, 300])
    files.load()
    assert (files.first, files.end_of_files, len(files)) == (200, 400, 2)
    assert [files.segment(o).start for o in (200, 299, 300, 399)] == [200, 200, 300, 300]
    with pytest.raises(OffsetTooSmall):
        files.segment(199)
    with pytest.raises(OffsetTooLarge):
        files.segment(400)


def test_files_are_added_and_dropped_at_both_ends() -> None:
    """What is dropped is gone from the disk; the rest is found as before."""
    files = _make([])
    for start in (0, 100, 200, 300):
        assert files.add(start, durable=start == 0).start == start
    assert files.segment(250).end == 300
    steps.run(files.drop_before_steps(100))
    assert files.first == 100
    steps.run(files.drop_before_steps(199))
    assert files.first == 100
    assert files.drop_from(250) == [300]
    assert files.drop_from(200) == [200]
    assert [s.start for s in files.segments] == [100]
    assert files.disk.list("/log") == [segment_name(100)]
    steps.run(files.drop_before_steps(200))  # the newest one stays
    assert files.first == 100


def test_what_is_dropped_can_be_read_until_it_is_let_go() -> None:
    """By who has a view of it, and by who asks for one while it is removed."""
    files = _make([0, 100])
    files.load()
    files.segments[0].file.write([b"old"], 0)
    files.close()
    dropping = files.drop_before_steps(100)
    call = steps.advance(dropping)
    assert call is not None
    call()
    view = files.segment(0).view
    assert steps.advance(dropping) is not None  # the folder is to be synced
    assert bytes(view[:3]) == b"old"
    with pytest.raises(OffsetTooSmall):
        files.segment(0)


@pytest.mark.parametrize("call", ["remove", "sync_folder"])
def test_a_drop_that_failed_goes_on_later(call: str) -> None:
    """No file goes before the one before it is gone for good."""
    files = _make([0, 100, 200])
    files.load()
    disk = files.disk
    for segment in files.segments:
        segment.file.sync()
    disk.sync_folder("/log")
    disk.fail(call)
    with pytest.raises(DiskFailed):
        steps.run(files.drop_before_steps(200))
    assert files.first == (0 if call == "remove" else 100)
    for choice in (0, 1):
        found = disk.crash(lambda count, choice=choice: min(choice, count - 1))  # type: ignore[misc]
        SegmentFiles(found, "/log", 100).load()
    steps.run(files.drop_before_steps(200))
    assert disk.crash(lambda _: 0).list("/log") == [segment_name(200)]


def test_a_copy_has_handles_of_its_own() -> None:
    """And may not write."""
    files = _make([0, 100])
    files.load()
    same = files.copy()
    assert [s.start for s in same.segments] == [0, 100]
    assert same.segment(100).file is not files.segment(100).file
    with pytest.raises(DiskFailed):
        same.segment(0).file.write([b"x"], 0)


def test_no_file_is_opened_before_it_is_needed() -> None:
    """A released segment opens again when it is used again."""
    files = _make([0])
    files.load()
    segment = files.segment(0)
    assert not segment.is_open
    segment.file.write([b"x"], 3)
    assert segment.is_open
    assert bytes(segment.view[3:4]) == b"x"
    files.close()
    assert not segment.is_open
    assert bytes(segment.view[3:4]) == b"x"
    assert segment.is_open


def test_an_empty_last_file_is_removed() -> None:
    """A crash between creating and lengthening leaves one; a reader leaves it where it is."""
    for write in (True, False):
        files = _make([0], write=write)
        files.disk.open(f"/log/{segment_name(100)}", write=True, create=True)
        assert files.load() == [segment_name(100)]
        assert len(files) == 1
        assert len(files.disk.list("/log")) == (1 if write else 2)


def test_folders_inside_are_not_files() -> None:
    """Sub-folders are skipped, as RocketMQ skips them."""
    files = _make([0])
    files.disk.make_folder("/log/other")
    files.load()
    assert len(files) == 1


@pytest.mark.parametrize(
    ("name", "size", "text"),
    [
        ("readme", 100, "20 digits"),
        ("0000000000000000010x", 100, "20 digits"),
        (segment_name(150), 100, "multiple"),
        (segment_name(100), 99, "expected 100 bytes, found 99"),
        (segment_name(100), 101, "expected 100 bytes, found 101"),
        (segment_name(200), 100, "before it"),
    ],
)
def test_files_that_do_not_fit_are_refused(name: str, size: int, text: str) -> None:
    """The text names the file, what was expected and what was found."""
    files = _make([0])
    files.disk.open(f"/log/{name}", write=True, create=True, size=size)
    with pytest.raises(ForeignStore, match=text):
        files.load()


@pytest.mark.parametrize(("name", "size"), [(segment_name(100), 99), (segment_name(200), 100)])
def test_derived_files_that_a_crash_left_short_are_removed(name: str, size: int) -> None:
    """And so is all that follows them, to be made again."""
    files = _make([0, 300])
    files.disk.open(f"/log/{name}", write=True, create=True, size=size)
    assert files.load(derived=True) == [name, segment_name(300)]
    assert files.disk.list("/log") == [segment_name(0)]


def test_derived_files_that_do_not_fit_are_made_again() -> None:
    """Too long, or under an offset where none begins; what has another name means nothing."""
    files = _make([0], size=101)
    disk = files.disk
    disk.open("/log/notes", write=True, create=True)
    assert files.load(derived=True) == [segment_name(0)]
    assert disk.list("/log") == ["notes"]
    create_segment(disk, f"/log/{segment_name(0)}", 100, durable=False)
    create_segment(disk, f"/log/{segment_name(50)}", 100, durable=False)
    assert files.load(derived=True) == [segment_name(50)]
    assert [s.start for s in files.segments] == [0]


def test_a_file_made_elsewhere_is_adopted() -> None:
    """Filling ahead makes the next file on another thread."""
    files = _make([0])
    files.load()
    path = f"/log/{segment_name(100)}"
    files.disk.open(path, write=True, create=True, size=7).write([b"left"], 0)
    create_segment(files.disk, path, 100, durable=True)
    assert files.adopt(100).file.read(0, 200) == bytes(100)
    assert files.end_of_files == 200


def test_a_file_that_is_made_durably_has_its_name_and_length_whatever_a_crash_keeps() -> None:
    """One that is not may have neither."""
    sizes = set()
    for seed in range(40):
        for is_durable in (True, False):
            disk = SimulatedDisk()
            disk.make_folder("/log")
            create_segment(disk, f"/log/{segment_name(0)}", 100, durable=is_durable)
            left = disk.crash(random.Random(seed).randrange)
            size = left.size(f"/log/{segment_name(0)}") if left.list("/log") else -1
            assert not is_durable or size == 100, seed
            sizes.add(size)
    assert sizes == {-1, 0, 100}


def test_durable_deletions_leave_no_gap() -> None:
    """Whatever a crash keeps of them, the files that are left follow each other."""
    for seed in range(40):
        for count in (0, 1, 2):
            files = _make([0, 100, 200, 300])
            disk = files.disk
            disk.sync_folder("/log")
            files.load()
            for segment in files.segments:
                segment.file.sync()
            disk.fail("remove", count + 1)
            with pytest.raises(DiskFailed):
                files.drop_from(0, durable=True)
            found = disk.crash(random.Random(seed).randrange)
            left = SegmentFiles(found, "/log", 100)
            left.load()
            assert len(left) == 4 - count
            again = SegmentFiles(found, "/log", 100)
            again.load()
            steps.run(again.drop_before_steps(10**6))
            newest = segment_name(100 * (3 - count))
            assert found.crash(random.Random(seed).randrange).list("/log") == [newest]


def _sized(**sizes: int) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder("/log")
    for name, size in sizes.items():
        file = f"{name[1:]:0>20}" if name[1:].isdigit() else name
        disk.open(f"/log/{file}", write=True, create=True, size=size)
    return disk


def test_files_that_were_cut_short_get_their_length_back() -> None:
    """Any of them, but for an empty last one, which was being made."""
    disk = _sized(_0=40, _100=100, _200=0, _300=7)
    short = short_files(disk, "/log", 100)
    assert [(int(one.path[-3:]), one.bytes) for one in short] == [(0, 40), (200, 0), (300, 7)]
    fill_up(disk, short, 100)
    assert [disk.size(f"/log/{name}") for name in disk.list("/log")] == [100] * 4
    assert short_files(disk, "/log", 100) == []
    assert [one.bytes for one in short_files(_sized(_0=40, _100=0), "/log", 100)] == [40]
    assert short_files(_sized(_0=0), "/log", 100) == []
    assert short_files(SimulatedDisk(), "/log", 100) == []


def test_files_under_other_names_are_not_filled_up() -> None:
    """They are not what they seem, and nor are those beside them."""
    assert short_files(_sized(_0=40, notes=3), "/log", 100) == []
    assert short_files(_sized(_0=40, _50=40), "/log", 100) == []


def test_only_so_many_files_are_open() -> None:
    """The oldest is let go; it opens again when it is needed."""
    disk = _make([0, 100, 200, 300]).disk
    open_files = OpenFiles(2)
    files = SegmentFiles(disk, "/log", 100, open_files=open_files)
    files.load()
    for segment in files.segments:
        segment.file.write([b"x"], 0)
        assert len(open_files) <= 2
    assert [segment.is_open for segment in files.segments] == [False, False, True, True]
    assert files.segment(0).read(0, 2) == b"x\0"
    files.close()
    assert len(open_files) == 0


def test_a_file_that_does_not_open_counts_as_closed() -> None:
    """It would take the place of another one."""
    open_files = OpenFiles()
    files = SegmentFiles(SimulatedDisk(), "/log", 100, open_files=open_files)
    files.adopt(0)
    with pytest.raises(FileMissing):
        _ = files.segment(0).file
    assert len(open_files) == 0


def test_who_has_a_file_in_hand_may_use_it_after_it_was_let_go() -> None:
    """A sync that runs on another thread must not fail for want of a handle."""
    disk = _make([0, 100]).disk
    files = SegmentFiles(disk, "/log", 100, open_files=OpenFiles(1))
    files.load()
    file, view = files.segment(0).file, files.segment(0).view
    _ = files.segment(100).file
    assert not files.segment(0).is_open
    file.write([b"x"], 0)
    file.sync()
    assert view[0] == ord("x")


def _written(*parts: tuple[int, bytes], size: int = 10 * BLOCK) -> tuple[SimulatedDisk, Segment]:
    """A file of some blocks with something in it."""
    disk = SimulatedDisk()
    disk.make_folder("/log")
    create_segment(disk, f"/log/{segment_name(0)}", size, durable=False)
    files = SegmentFiles(disk, "/log", size)
    files.load()
    for position, data in parts:
        files.segment(0).file.write([data], position)
    return disk, files.segment(0)


def test_holes_are_zeros_that_nobody_reads() -> None:
    """Before, between and behind what was written."""
    disk, segment = _written((2 * BLOCK, b"a" * BLOCK), (5 * BLOCK + 1, b"b"))
    disk.calls.clear()
    assert segment.read(0, 2 * BLOCK) == bytes(2 * BLOCK)
    assert segment.read(3 * BLOCK, 2 * BLOCK) == bytes(2 * BLOCK)
    assert segment.read(6 * BLOCK, 4 * BLOCK) == bytes(4 * BLOCK)
    assert disk.calls["read"] == 0
    whole = bytearray(10 * BLOCK)
    whole[2 * BLOCK : 3 * BLOCK] = b"a" * BLOCK
    whole[5 * BLOCK + 1] = ord("b")
    assert segment.read(0, 10 * BLOCK) == whole
    assert disk.calls["read"] == 2
    assert segment.read(2 * BLOCK + 1, 3) == b"aaa"
    assert segment.read(17, 0) == b""


def test_zeros_stand_for_what_a_short_file_lacks() -> None:
    """Its length says nothing about where it ends."""
    _, segment = _written((0, b"abc"))
    segment.file.resize(2)
    assert segment.read(1, 5) == b"b\0\0\0\0"
    assert segment.read(5, 5) == bytes(5)


def test_a_read_goes_up_to_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says where that is, and what the disk said."""
    monkeypatch.setattr(segments, "READ_BLOCK_BYTES", BLOCK)
    disk, segment = _written((0, b"a" * 4 * BLOCK))
    disk.spoil(segment.path, 2 * BLOCK + 7, 1)
    assert segment.readable(0, 2 * BLOCK) == (b"a" * 2 * BLOCK, None)
    data, unreadable = segment.readable(5, 4 * BLOCK - 5)
    assert data == b"a" * (2 * BLOCK - 5)
    assert unreadable is not None
    assert (unreadable.start, unreadable.end) == (2 * BLOCK, 3 * BLOCK)
    assert segment.path in unreadable.why
    assert "Input/output error" in unreadable.why
    assert segment.readable(3 * BLOCK, BLOCK) == (b"a" * BLOCK, None)
    disk.fail("read")
    assert segment.readable(3 * BLOCK, BLOCK) == (b"a" * BLOCK, None)


def test_a_file_that_is_gone_is_no_bad_sector() -> None:
    """The owner of the files may delete them while they are read."""
    disk, segment = _written((0, b"a"))
    segment.release()
    disk.remove(segment.path)
    with pytest.raises(FileMissing):
        segment.readable(0, 1)


def test_a_reader_has_pieces_in_hand() -> None:
    """One call for what lies together; behind what was written only what is asked for."""
    disk, segment = _written((0, b"a" * 3 * BLOCK))
    disk.calls.clear()
    reader = SegmentReader(segment, 2 * BLOCK)
    assert reader.bring(0, 4) == 0
    assert (reader.start, reader.end) == (0, 2 * BLOCK)
    assert reader.bring(BLOCK, BLOCK) == BLOCK
    assert disk.calls["read"] == 1
    assert reader.bring(BLOCK, 2 * BLOCK) == 0
    assert (reader.start, reader.end) == (BLOCK, 3 * BLOCK)
    assert reader.bring(3 * BLOCK - 1, 5) == 0
    assert bytes(reader.data) == b"a\0\0\0\0"
    assert reader.bring(8 * BLOCK, 5) == 0
    assert bytes(reader.data) == bytes(5)
    assert reader.bring(10 * BLOCK - 2, 5) == 0
    assert bytes(reader.data) == bytes(2)


def _filled_segment() -> tuple[SimulatedDisk, Segment]:
    """A segment of four blocks with something in each."""
    disk = SimulatedDisk()
    disk.make_folder("/log")
    segment = Segment(disk, "/log", 0, 4 * BLOCK, write=True, open_files=OpenFiles())
    create_segment(disk, segment.path, 4 * BLOCK, durable=False)
    segment.write(0, bytes(range(256)) * (4 * BLOCK // 256))
    return disk, segment


def test_who_reads_on_reads_once() -> None:
    """Until the end of what was read ahead comes, or the file was let go of."""
    disk, segment = _filled_segment()
    found = [bytes(segment.read_on(at, 10, 100)) for at in range(0, 100, 10)]
    assert b"".join(found) == bytes(range(100))
    assert disk.calls["read"] == 1
    assert segment.read_on(95, 10, 100) == bytes(range(95, 105))
    assert segment.read_on(95, 300, 100) == (bytes(range(256)) * 2)[95:395]
    assert segment.read_on(90, 10, 100) == bytes(range(90, 100))
    assert disk.calls["read"] == 4
    assert segment.read_on(4 * BLOCK - 9, 10, 100) == bytes(range(247, 256))
    segment.let_go()
    assert segment.read_on(95, 10, 100) == bytes(range(95, 105))
    assert disk.calls["read"] == 6


def test_what_was_read_ahead_is_what_was_written_last() -> None:
    """Wherever it was written, and though it was not written well."""
    disk, segment = _filled_segment()
    for position in (0, 5, 99, 100):
        segment.read_on(0, 10, 100)
        segment.write(position, b"!")
        assert bytes(segment.read_on(position, 1, 100)) == b"!"
    segment.read_on(0, 10, 100)
    disk.fail("write", kept=1.0)
    with pytest.raises(DiskFailed):
        segment.write(3, b"?")
    assert bytes(segment.read_on(3, 1, 100)) == b"?"


def test_what_is_read_ahead_may_be_unreadable() -> None:
    """What is asked for before it is given all the same."""
    disk, segment = _filled_segment()
    disk.spoil(segment.path, BLOCK, BLOCK)
    assert segment.read_on(BLOCK - 10, 10, 100) == (bytes(range(256)) * 8)[BLOCK - 10 : BLOCK]
    with pytest.raises(DiskFailed):
        segment.read_on(BLOCK - 10, 11, 100)


def test_only_what_was_written_is_to_be_made_zero() -> None:
    """Whole blocks of zeros may never have been written, and would take space."""
    one, block = b"\0x\0", 4096
    assert written_ranges(bytes(3 * block), 7) == []
    assert written_ranges(one, 10) == [(11, 12)]
    data = bytes(100) + b"x" * block + bytes(2 * block) + b"y"
    for position in (0, 500, 3 * block):
        ranges = written_ranges(data, position)
        assert [data[a - position : b - position] for a, b in ranges] == [b"x" * block, b"y"]
    full = written_ranges(b"x" * (3 * block), 5)
    assert full == [(5, 5 + 3 * block)]
