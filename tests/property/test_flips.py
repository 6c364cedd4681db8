"""A byte that is not what was stored is found, and its message never handed out as if it were.

Where records end in a CRC tail, any byte of any record is flipped; where they do not, any byte of
any body. Each round flips one byte in each of many records, with intact ones in between, so that
twenty thousand flips take seconds; a few hundred are flipped alone.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pytest
from tests import repetition
from tests.recorded import CASES, Recorded
from tests.stores import ROOT, SMALL, batch_of, new

from sprocket.base.errors import StoreError, WireError
from sprocket.rocketmq.codec.record import record, record_scan
from sprocket.rocketmq.codec.record_layout import CRC_NAME, CRC_TAIL_BYTES, parts
from sprocket.rocketmq.geometry import Geometry, LogGeometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FLIPS = 20_000
ALONE = 300
SEED = 20_260_718

V6_HOST = bytes(range(16)) + bytes((0, 0, 48, 57))
LONG_TOPIC = "%RETRY%" + "g" * 130


@dataclass(frozen=True)
class Target:
    """A record of a store, and which of its bytes are covered by a checksum."""

    path: str
    position: int
    place: int
    first: int
    size: int
    body: bytes


def ours(crc_tail: bool) -> SimulatedDisk:
    """A store of ours: versions 1 and 2, both kinds of hosts, bodies of many lengths, batches."""
    disk, clock = SimulatedDisk(), FakeClock()
    settings = StoreSettings(crc_tail=crc_tail, fill_ahead_bytes=0, message_bytes_max=2048)
    store = Store.open(disk, ROOT, settings, clock, SMALL)
    for number in range(60):
        topic = (LONG_TOPIC, "topic", "other")[number % 3]
        body = bytes((number + at) % 256 for at in range(number * 7 % 300))
        made = new(topic, number % 2, body, name=f"N{number}", keys=(f"k{number % 5}", "all"))
        if number % 4 == 1:
            made = new(topic, 0, body, born_at_ms=number)
        store.append(made)
        if number % 10 == 0:
            store.append_batch(batch_of([new("batch", 1, b"one of three") for _ in range(3)]))
        clock.advance(100)
    store.write()
    store.close()
    return disk


@lru_cache(maxsize=8)
def stored(name: str) -> tuple[SimulatedDisk, tuple[Target, ...], Geometry]:
    """Return a store, and its records with the bytes that may be flipped."""
    if name.startswith("ours"):
        disk, geometry = ours(name.endswith("tail")), SMALL
    else:
        disk, geometry = Recorded(name).in_memory(), Recorded(name).geometry
    return disk, tuple(targets(disk, geometry.log)), geometry


def targets(disk: SimulatedDisk, geometry: LogGeometry) -> Iterator[Target]:
    """Every record of the log that has a byte to flip."""
    folder = f"{ROOT}/commitlog"
    for name in disk.list(folder):
        path, start = f"{folder}/{name}", int(name)
        view = disk.open(path).view()
        scan = record_scan.Scan(view, start, 0, geometry.segment_bytes, check_tail=True)
        for position, size in scan:
            fields, body, _topic, _topic_end, _end = parts(view, position)
            whole = bytes(view[position : position + size])
            content = whole[body - position : body - position + fields[14]]
            if CRC_NAME in whole[-CRC_TAIL_BYTES:]:
                yield Target(path, position, start + position, 0, size, content)
            elif content:
                at = body - position
                yield Target(path, position, start + position, at, len(content), content)


def flip(disk: SimulatedDisk, target: Target, at: int, bits: int) -> None:
    """Change one byte of a record; doing it again changes it back."""
    file = disk.open(target.path, write=True)
    (byte,) = file.read(target.position + at, 1)
    file.write([bytes([byte ^ bits])], target.position + at)
    file.sync()


def flips(name: str, count: int, draw: random.Random, *, at_once: int) -> Iterator[list[Target]]:
    """Give rounds of damaged records, until so many bytes were flipped; each round is undone."""
    disk, records, _ = stored(name)
    done = 0
    while done < count:
        # No two neighbours: what follows a damaged record must show where it ends.
        offset = draw.randrange(2)
        chosen = list(records[offset::2])
        chosen = draw.sample(chosen, min(at_once, len(chosen)))
        made = []
        for target in chosen:
            edges = (0, target.size - 1, draw.randrange(target.size), draw.randrange(target.size))
            at = target.first + draw.choice(edges)
            made.append((target, at, 1 << draw.randrange(8)))
        for one in made:
            flip(disk, *one)
        yield chosen
        for one in made:
            flip(disk, *one)
        done += len(made)


TAILED = ["ours-tail", "10a-crc-tail"]
BODIES = ["ours-plain", "01-basic", "02-kill9-load", "05-long-topic", "11a-ipv6-store-host"]
SHARE = {"ours-tail": 4_000, "10a-crc-tail": 12_000, "01-basic": 4_000, "02-kill9-load": 4_000}
DEFAULT_SHARE = 1_000


def test_as_many_bytes_are_flipped_as_we_say() -> None:
    """The shares of the stores add up."""
    assert sum(SHARE.get(name, DEFAULT_SHARE) for name in [*TAILED, *BODIES]) >= FLIPS
    assert set(BODIES[1:]) < set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", repetition.some([*TAILED, *BODIES], ["ours-tail", "ours-plain"]))
def test_check_names_each_flipped_record(name: str) -> None:
    """All of them, and, as soon as the bytes are back, none."""
    disk, _records, geometry = stored(name)
    draw = random.Random(SEED)
    assert list(check(disk, ROOT, geometry)) == []
    for damaged in flips(name, SHARE.get(name, DEFAULT_SHARE), draw, at_once=400):
        named = {finding.record for finding in check(disk, ROOT, geometry)}
        assert {target.place for target in damaged} <= named
    assert list(check(disk, ROOT, geometry)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", repetition.some(["ours-tail", "10a-crc-tail", "ours-plain"], ["ours-tail"])
)
def test_check_names_the_record_that_is_flipped_alone(name: str) -> None:
    """The last record of the log too, behind which nothing shows where it ends."""
    disk, records, geometry = stored(name)
    draw = random.Random(SEED)
    for number in range(ALONE):
        target = records[-1 - number % 3] if number % 2 else draw.choice(records)
        at = target.first + draw.randrange(target.size)
        bits = 1 << draw.randrange(8)
        flip(disk, target, at, bits)
        named = {finding.record for finding in check(disk, ROOT, geometry)}
        flip(disk, target, at, bits)
        assert target.place in named, (target.place, at)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    repetition.some(
        ["ours-tail", "10a-crc-tail", "01-basic", "02-kill9-load"], ["10a-crc-tail", "01-basic"]
    ),
)
def test_no_wrong_body_is_read(name: str) -> None:
    """A damaged record, read by its place or through its queue, is refused when it is decoded."""
    disk, records, geometry = stored(name)
    bodies = {target.place: target.body for target in records}
    draw = random.Random(SEED)
    for damaged in flips(name, 2_000, draw, at_once=400):
        store = Store.open_read_only(disk, ROOT, geometry)
        for target in damaged:
            with pytest.raises((WireError, StoreError)):
                record.decode(store.record_at(target.place), check_tail=True)
        for topic, queue_id, kept in store.queues():
            offset = kept.min
            while offset < kept.max:
                got = store.get_messages(topic, queue_id, offset, max_count=400)
                for data in got.records if got.status is GetStatus.FOUND else ():
                    try:
                        message = record.decode(data, check_tail=True)
                    except WireError:
                        continue
                    if message.physical_offset in bodies:
                        assert bodies[message.physical_offset] == message.stored_body
                assert got.next_offset > offset
                offset = got.next_offset
        store.close()
