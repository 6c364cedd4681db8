"""What must hold of a store's files, read without the code that writes them.

Numbers are those of the checks in the format pages: 4 and 5 the log, 7 to 10 the queues, 11 the
index, 14 what lies behind the end.
"""

import struct

from sprocket.base.disk import Disk, read_file
from sprocket.rocketmq.codec.record import Entry, record
from sprocket.rocketmq.codec.record_layout import MAGIC_BLANK, MAGICS
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.hashes import abs_hash, hash32

FILLER_SIZE = 0x7FFF_FFFF


def files(disk: Disk, folder: str) -> list[tuple[int, bytes]]:
    """Start and content of each file of a folder, in order."""
    return [(int(name), read_file(disk, f"{folder}/{name}")) for name in disk.list(folder)]


def first(disk: Disk, root: str) -> int:
    """Where the log begins."""
    return min(map(int, disk.list(f"{root}/commitlog")), default=0)


def log(disk: Disk, root: str, geometry: Geometry) -> tuple[list[Entry], int]:
    """Check the log (4, 5, 14); return its entries and its end."""
    found: list[Entry] = []
    end = 0
    whole = files(disk, f"{root}/commitlog")
    for number, (start, data) in enumerate(whole):
        assert len(data) == geometry.log.segment_bytes
        assert number == 0 or start == whole[number - 1][0] + len(data)
        position = 0
        while True:
            size, magic = struct.unpack_from(">iI", data, position)
            if magic not in MAGICS:
                break
            message = record.decode(data, position, check_tail=True)
            assert message.physical_offset == start + position
            assert position + size + 8 <= len(data)
            found.append(record.entry(data, position))
            position += size
            if position + 8 > len(data):
                break
        end = start + position
        if number + 1 < len(whole) and any(any(later) for _, later in whole[number + 1 :]):
            assert (magic, position + size) == (MAGIC_BLANK, len(data)), (start, position)
        else:
            rest = data[position + 8 :] if magic == MAGIC_BLANK else data[position:]
            assert not any(rest), f"bytes behind the end {end}"
            if magic == MAGIC_BLANK and number + 1 < len(whole):
                end = start + len(data)
            break
    return found, end


def queues(disk: Disk, root: str, entries: list[Entry], geometry: Geometry) -> int:
    """Check the queues against the log (7, 8, 9, 10, 14); return how many fillers stand inside."""
    by_queue: dict[tuple[str, int], dict[int, Entry]] = {}
    for entry in entries:
        if entry.queueable:
            by_queue.setdefault((entry.topic, entry.queue_id), {})[entry.queue_offset] = entry
    fillers = 0
    seen = set()
    log_first = first(disk, root)
    for topic in disk.list(f"{root}/consumequeue"):
        for queue_id in disk.list(f"{root}/consumequeue/{topic}"):
            key = topic, int(queue_id)
            seen.add(key)
            fillers += _queue(
                files(disk, f"{root}/consumequeue/{topic}/{queue_id}"),
                by_queue.get(key, {}),
                geometry,
                log_first,
            )
    missing = set(by_queue) - seen
    assert not missing, missing
    return fillers


def _queue(
    parts: list[tuple[int, bytes]], wanted: dict[int, Entry], geometry: Geometry, log_first: int
) -> int:
    units = b"".join(data for _, data in parts)
    for number, (start, data) in enumerate(parts):
        assert len(data) == geometry.queue.file_bytes
        assert start == parts[0][0] + number * len(data)
    first = parts[0][0] // 20 if parts else 0
    fillers = 0
    present = True
    offset = first
    for place, size, code in struct.iter_unpack(">qiq", units):
        present = present and size > 0
        if not present:
            assert (place, size, code) == (0, 0, 0), f"unit {offset} behind the end"
            assert offset not in wanted, f"unit {offset} is missing"
        elif size == FILLER_SIZE:
            assert offset not in wanted
            fillers += 1
        elif place < log_first:
            assert offset not in wanted
        else:
            entry = wanted[offset]
            assert (entry.physical_offset, entry.size, entry.tags_code) == (place, size, code)
        offset += 1
    assert all(first <= o < offset for o in wanted), "units are missing"
    return fillers


def index(disk: Disk, root: str, entries: list[Entry], geometry: Geometry) -> None:
    """Check the index of a store that was closed (11, 12)."""
    keys: dict[int, set[int]] = {}
    log_first = first(disk, root)
    for entry in entries:
        for key in entry.keys:
            code = abs_hash(hash32(f"{entry.topic}#{key}"))
            keys.setdefault(entry.physical_offset, set()).add(code)
    found: dict[int, set[int]] = {}
    slots, capacity = geometry.index.slots, geometry.index.units
    for _, data in files(disk, f"{root}/index"):
        assert len(data) == geometry.index.file_bytes
        _begin_ms, _end_ms, begin, end, used, count = struct.unpack_from(">qqqqii", data)
        assert 1 <= count <= capacity
        heads = struct.unpack_from(f">{slots}i", data, 40)
        assert used == sum(map(bool, heads))
        reached = 0
        for slot, head in enumerate(heads):
            number = head
            while number:
                assert 0 < number < count
                code, place, _seconds, before = struct.unpack_from(
                    ">iqii", data, 40 + 4 * slots + 20 * number
                )
                assert code % slots == slot
                assert begin <= place <= end
                assert before < number
                if place >= log_first:
                    assert code in keys[place], f"key of {place} is not its own"
                    found.setdefault(place, set()).add(code)
                number = before
                reached += 1
        assert reached == count - 1
    assert keys == found
