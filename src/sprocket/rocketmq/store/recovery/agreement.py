"""Compares queues and index with a part of the log.

After a stop recovery compares how far log, queues and index reach. Other damage to queues and
index, such as a unit that was overwritten or a file that is lost or comes from elsewhere, shows
only when they are compared with the records. So recovery reads the last part of what it would
trust, compares the unit of each record, and looks up some keys. A small store is compared as a
whole.

It is no error if a queue has a newer message where a record says it should be: the topic may have
been deleted and made again. Then the newer records decide.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall, WireError
from sprocket.base.progress import Step, unwatched
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.record import Entry, record
from sprocket.rocketmq.model.message import is_indexable
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.log import Found, LogScanner
from sprocket.rocketmq.store.queue import Queue, Queues, UnitAssigner

COMPARED_BYTES = {
    # clean, ours
    (True, True): 4 * MIB,
    (False, True): 16 * MIB,
    (True, False): 256 * MIB,
    (False, False): 256 * MIB,
}
"""How much of the log to look at, by how the store was left: some ms, or a quarter of a second."""
READS_MAX = 1000
"""Reads in queues; a store with very many queues is compared in part."""
LOOKUPS_MAX = 256
"""Keys that are looked up, evenly spread over the part of the log."""
_FOUND_MAX = 1000
"""Records of one key and one second; with more the lookup says nothing."""


class _Place(NamedTuple):
    """What a unit must say."""

    queue_offset: int
    physical_offset: int
    size: int


def wrong_queues(
    files: SegmentFiles,
    queues: Queues,
    start: int,
    until: int,
    units_of: UnitAssigner,
    *,
    absent_too: bool,
    put_from: int = 1 << 62,
    step: Step = unwatched,
) -> set[tuple[str, int]]:
    """Return the queues, by topic and id, whose units are not those of the records in a range.

    Args:
        files: The log.
        queues: They should have every record before `until`.
        start: Physical offset from where to compare; any place, not only where a record begins.
        until: Where to stop.
        units_of: Says which units records get.
        absent_too: A queue that is not there at all is wrong, and not one that was deleted.
        put_from: Where those records begin whose units were just put: none of their queues is
            absent.
        step: Told how far it is.
    """
    wrong: set[tuple[str, int]] = set()
    last: dict[tuple[str, int], int] = {}
    reads = 0
    reached = start
    walk = LogScanner(files.segments, start, check_crc=False, until=until)
    for found in walk.batches():
        if reads >= READS_MAX and not (absent_too and reached < put_from):
            break
        reached = walk.position
        step("queues compared with the log", reads, READS_MAX)
        if reads >= READS_MAX and not isinstance(found, list) and units_of.are_records(found):
            keys = ((run.topic, run.queue_id) for run in found.runs)
            wrong.update(key for key in keys if queues.queue(*key) is None)
            continue
        for key, places in _places(found, units_of):
            if places[0].queue_offset <= last.get(key, -1):
                wrong.discard(key)  # the topic was made again
            last[key] = places[-1].queue_offset
            queue = queues.queue(*key)
            if queue is None:
                if absent_too:
                    wrong.add(key)
            elif key not in wrong and reads < READS_MAX:
                reads += 1
                if not _agrees(queue, places, files):
                    wrong.add(key)
    return wrong


def _places(
    found: Found, units_of: UnitAssigner
) -> Iterator[tuple[tuple[str, int], Sequence[_Place]]]:
    """Give what the units of some records must say, queue by queue, as far as offsets go up."""
    runs: dict[tuple[str, int], list[_Place]] = {}
    for key, place in _one_by_one(found, units_of):
        run = runs.setdefault(key, [])
        if run and run[-1].queue_offset >= place.queue_offset:
            yield key, runs[key]
            run = runs[key] = []
        run.append(place)
    yield from runs.items()


def _one_by_one(found: Found, units_of: UnitAssigner) -> Iterator[tuple[tuple[str, int], _Place]]:
    """Give what the units must say, in the order of the log within each queue.

    Those in light queues are among them.
    """
    if not isinstance(found, list) and not units_of.are_records(found):
        found = found.entries()
    if isinstance(found, list):
        for entry in found:
            for e in units_of.each(entry) if entry.queueable else ():
                yield (e.topic, e.queue_id), _Place(e.queue_offset, e.physical_offset, e.size)
        return
    for topic, queue_id, rows in found.runs:
        columns = found.queue_offset[rows], found.physical_offset[rows], found.size[rows]
        for place in map(_Place, *(column.tolist() for column in columns)):
            yield (topic, queue_id), place


def _agrees(queue: Queue, places: Sequence[_Place], files: SegmentFiles) -> bool:
    """Say whether a queue has these records, or newer ones, at their offsets."""
    done = 0
    while done < len(places):
        first, last = places[done].queue_offset, places[-1].queue_offset
        try:
            units = {unit[0]: unit[1:3] for unit in queue.units(first, last - first + 1)}
        except (OffsetTooSmall, OffsetTooLarge):
            return False
        if first not in units:
            return False
        last = max(units)
        while done < len(places) and places[done].queue_offset <= last:
            wanted = places[done]
            place, size = units.get(wanted.queue_offset, (-1, 0))
            if (place, size) != wanted[1:]:
                key = queue.topic, queue.queue_id, wanted.queue_offset
                if place < wanted.physical_offset or not _is_at(files, place, size, key):
                    return False
            done += 1
    return True


def _is_at(files: SegmentFiles, place: int, size: int, key: tuple[str, int, int]) -> bool:
    """Say whether the record at a place is the one of a topic, queue and offset."""
    try:
        segment = files.segment(place)
        position = place - segment.start
        entry = record.entry(segment.read(position, min(size, segment.size - position)))
    except (OffsetTooSmall, OffsetTooLarge, WireError):
        return False
    found = entry.topic, entry.queue_id, entry.queue_offset
    return found == key and (entry.physical_offset, entry.size) == (place, size)


def index_is_wrong(
    files: SegmentFiles, index: Indexes, start: int, until: int, step: Step = unwatched
) -> bool:
    """Say whether the index lacks a file, or keys of records in a range of the log.

    Args:
        files: The log.
        index: It should have every key of the records before `until`.
        start: As for `wrong_queues`.
        until: As for `wrong_queues`.
        step: Told how far it is.
    """
    if _lacks_a_file(files, index, step):
        return True
    for number, entry in enumerate(_sample(files, start, until, step)):
        step("keys looked up", number, LOOKUPS_MAX)
        if not _is_found(index, entry):
            return True
    return False


def _lacks_a_file(files: SegmentFiles, index: Indexes, step: Step) -> bool:
    """Say whether a record with keys lies between what two index files have, or before the first.

    Where none is missing the next record with keys is the first one of the next file.
    """
    end = files.first - 1
    for number, header in enumerate(index.headers, 1):
        if header.next_unit <= 1:
            return number < len(index.headers)
        if header.begin_offset > end + 1:
            walk = LogScanner(
                files.segments, max(end, files.first), check_crc=False, until=header.begin_offset
            )
            for found in walk.batches():
                step("bytes of log compared with the index", walk.position - files.first)
                if any(place > end for place in _keyed(found).places):
                    return True
        end = max(end, header.end_offset)
    return False


class _Keyed(NamedTuple):
    """Where the records lie that the index must have, and what gives the entry of each."""

    places: Sequence[int]
    entry: Callable[[int], Entry]


def _keyed(found: Found) -> _Keyed:
    """Return which records the index must have."""
    if isinstance(found, list):
        entries = [entry for entry in found if entry.keys and is_indexable(entry.sys_flag)]
        return _Keyed([entry.physical_offset for entry in entries], entries.__getitem__)
    rows = sorted(set(found.keys.row[found.indexable[found.keys.row]].tolist()))
    places = found.physical_offset[rows].tolist() if rows else []
    return _Keyed(places, lambda number: found.entry(rows[number]))


def _sample(files: SegmentFiles, start: int, until: int, step: Step = unwatched) -> Iterable[Entry]:
    """Return some of the records with keys in a range of the log, evenly spread.

    Of what a walk found no more is kept meanwhile: it would be hundreds of MB.
    """
    sample: list[Entry] = []
    every, count = 1, 0
    walk = LogScanner(files.segments, start, check_crc=False, until=until)
    for found in walk.batches():
        step("bytes of log compared with the index", walk.position - start, until - start)
        keyed = _keyed(found)
        numbers = range(-count % every, len(keyed.places), every)
        sample += [keyed.entry(number) for number in numbers]
        count += len(keyed.places)
        while len(sample) > LOOKUPS_MAX:
            sample, every = sample[::2], 2 * every
    return sample


def _is_found(index: Indexes, entry: Entry) -> bool:
    at_ms = entry.stored_at_ms
    found = index.find(key_string(entry.topic, entry.keys[-1]), _FOUND_MAX, at_ms, at_ms)
    return entry.physical_offset in found or len(found) >= _FOUND_MAX
