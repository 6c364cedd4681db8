"""Whether queues and index agree with the last part of a log that recovery would trust.

After a stop recovery compares how far log, queues and index reach. Other damage to queues and
index, such as a unit that was overwritten or a file that is lost or comes from elsewhere, shows
only when they are held against the records. So recovery checks the last part of what it would
trust: the unit of each record, by the check that a whole store gets, and by look-ups some keys,
since a check of an index reads each of its slots. A small store is looked at as a whole.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sprocket.base.disk import SegmentFiles
from sprocket.base.progress import Step, unwatched
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.store.consistency.log_check import LogCheck
from sprocket.rocketmq.store.consistency.queue_check import QueueCheck, UnitCheck
from sprocket.rocketmq.store.consistency.unit_files import StoredUnits, UnitFiles, Units
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.log import LogScanner
from sprocket.rocketmq.store.queue import QueueKey, Queues, UnitAssigner

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


class Part(NamedTuple):
    """A range of the log: from where, any place, and where to stop."""

    start: int
    until: int


def wrong_queues(
    files: SegmentFiles,
    queues: Queues,
    part: Part,
    assigner: UnitAssigner,
    *,
    absent_too: bool,
    put_from: int = ANYWHERE,
    step: Step = unwatched,
) -> set[QueueKey]:
    """Return the queues, by topic and id, whose units are not those of the records in a range.

    It is not an error if a queue has a newer message where a record says it should be: the topic
    may have been deleted and made again.

    Args:
        files: The log.
        queues: They should have every record of the range.
        part: The range.
        assigner: Says which units records get.
        absent_too: A queue that is not there at all is wrong, and not one that was deleted.
        put_from: Where those records begin whose units were just put: none of their queues is
            absent.
        step: Told how far it is.
    """

    def units_of(key: QueueKey) -> Units:
        queue = queues.by_key.get(key)
        return UnitFiles("") if queue is None else StoredUnits(queue, "")

    log = LogCheck(files.segments, start=part.start, until=part.until, check_crc=False)
    topics = None if absent_too else frozenset[str]()
    check = QueueCheck(log.log, units_of, topics=topics, records_only=True)
    units = UnitCheck(log.log.entry_at, check.units, assigner, reads_max=READS_MAX)
    absent: set[QueueKey] = set()
    for found in log.rounds():
        step("queues compared with the log", units.reads, READS_MAX)
        for key, run, _findings in units.runs(found):
            deque(check.take((key, run)), 0)
        if units.reads >= READS_MAX:
            if not absent_too or found.physical_offset[0] >= put_from:
                break
            absent |= units.keys(found) - queues.by_key.keys()
    deque(check.finish(), 0)
    return units.wrong | check.wrong | absent


def index_is_wrong(files: SegmentFiles, index: Indexes, part: Part, step: Step = unwatched) -> bool:
    """Say whether the index lacks a file, or keys of records in a range of the log.

    Args:
        files: The log.
        index: It should have every key of the records before the end of the range.
        part: The range.
        step: Told how far it is.
    """
    if _lacks_a_file(files, index, step):
        return True
    for number, entry in enumerate(_sample(files, part, step)):
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
            scan = LogScanner(
                files.segments, max(end, files.first), check_crc=False, until=header.begin_offset
            )
            for found in scan.batches():
                step("bytes of log compared with the index", scan.position - files.first)
                if any(place > end for place in _keyed(found).places):
                    return True
        end = max(end, header.end_offset)
    return False


class _Keyed(NamedTuple):
    """Where the records lie that the index must have, and what gives the entry of each."""

    places: Sequence[int]
    entry: Callable[[int], Entry]


def _keyed(found: RecordBatch) -> _Keyed:
    """Return which records the index must have."""
    rows = sorted(set(found.keys.row[found.indexable[found.keys.row]].tolist()))
    places = found.physical_offset[rows].tolist() if rows else []
    return _Keyed(places, lambda number: found.entry(rows[number]))


def _sample(files: SegmentFiles, part: Part, step: Step) -> Iterable[Entry]:
    """Return some of the records with keys in a range of the log, evenly spread.

    Of what a scan found no more is kept meanwhile: it would be hundreds of MB.
    """
    sample: list[Entry] = []
    every, count = 1, 0
    scan = LogScanner(files.segments, part.start, check_crc=False, until=part.until)
    size = part.until - part.start
    for found in scan.batches():
        step("bytes of log compared with the index", scan.position - part.start, size)
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
