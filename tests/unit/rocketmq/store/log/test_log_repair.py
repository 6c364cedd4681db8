"""After mending, nothing lies behind the end and a record lies wherever one is expected."""

import pytest
from tests.stores import filled, log_files, overwrite

from sprocket.base.disk import SegmentFiles
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.log import Damage, LogScanner, log_repair


def _scan(files: SegmentFiles) -> LogScanner:
    scan = LogScanner(files.segments, 0, check_crc=True)
    for _ in scan:
        pass
    return scan


def test_a_whole_log_is_left_alone() -> None:
    """No byte is written."""
    disk, _ = filled(40)
    files = log_files(disk)
    writes = disk.calls["write"]
    scan = _scan(files)
    assert log_repair.cut(files, scan) == 0
    log_repair.pad(files, scan.damage)
    assert disk.calls["write"] == writes


def test_what_lies_behind_the_end_is_zeroed_and_counted() -> None:
    """Later files are deleted, all of it durably."""
    disk, store = filled(10)
    files = log_files(disk)
    files.add(4096)
    overwrite(files, store.end + 5, b"torn")
    overwrite(files, 4096 + 100, b"later")
    assert log_repair.cut(files, _scan(files)) == 4096 + 105 - store.end
    for choice in (0, 2):
        found = disk.crash(lambda count, choice=choice: min(choice, count - 1))  # type: ignore[misc]
        assert found.list("/store/commitlog") == ["0" * 20]
        data = found.open("/store/commitlog/" + "0" * 20).read(0, 5000)
        assert not any(data[store.end :])


def test_a_blank_at_the_end_stays() -> None:
    """Whether the next file is there or not."""
    disk, _ = filled(40)
    files = log_files(disk)
    files.drop_from(4096)
    blank_at = _scan(files).end
    assert log_repair.cut(files, _scan(files)) == 0
    assert bytes(files.segment(0).view[blank_at + 4 : blank_at + 8]) == b"\xcb\xd4\x31\x94"
    files.add(4096)
    assert _scan(files).end == 4096
    assert log_repair.cut(files, _scan(files)) == 0
    assert len(files) == 2


@pytest.mark.parametrize("first", [0, 3, 19])
def test_damage_becomes_a_record_in_no_queue(first: int) -> None:
    """One or two damaged records, a scan then finds nothing wrong."""
    disk, store = filled(20)
    files = log_files(disk)
    places = [(offset, len(data)) for offset, data in store.records()]
    damaged = places[first : first + 2]
    for offset, _ in damaged[:1] if first == 19 else damaged:
        overwrite(files, offset + 8, b"????")
    before = _scan(files)
    log_repair.pad(files, before.damage)
    after = _scan(files)
    assert after.damage == []
    if first == 19:  # the last one: that is not damage but the end
        assert after.end == before.end == damaged[0][0]
        return
    (padding,) = [e for e in LogScanner(files.segments, 0, check_crc=True) if e.sys_flag == 12]
    assert padding.topic == log_repair.PADDING_TOPIC
    assert (padding.physical_offset, padding.size) == (damaged[0][0], sum(s for _, s in damaged))
    assert not padding.queueable


@pytest.mark.parametrize("size", [91, 92, 93, 99, 150])
def test_any_damage_that_held_a_record_can_be_padded(size: int) -> None:
    """The shortest record has a topic of one byte; nothing is written for less."""
    disk, _ = filled(20)
    files = log_files(disk)
    log_repair.pad(files, [Damage(0, size, "", 5)])
    if size == 91:
        assert bytes(files.segment(0).view[28:36]) == bytes(8)
        return
    padding = record.decode(files.segment(0).view[:size])
    assert (padding.store_size, padding.stored_at_ms) == (size, 5)
    assert padding.topic == log_repair.PADDING_TOPIC[: size - 91]


@pytest.mark.parametrize(("left", "padded"), [(8, True), (7, False)])
def test_damage_up_to_the_end_of_a_file_becomes_a_blank(left: int, padded: bool) -> None:
    """If there is room for one; every writer leaves that much."""
    disk, _ = filled(40)
    files = log_files(disk)
    writes = disk.calls["write"]
    log_repair.pad(files, [Damage(4096 - left, 4096, "", 5)])
    assert (disk.calls["write"] > writes) == padded
