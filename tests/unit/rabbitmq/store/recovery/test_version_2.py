"""Queues of version 2, which a stopped RabbitMQ left: they are of version 1 afterwards."""

import struct
from functools import partial
from hashlib import sha256
from random import Random
from zlib import crc32

import pytest
from tests.rabbit_vhosts import (
    LARGE,
    PATHS,
    ROOT,
    Q,
    close,
    delivered,
    flip,
    ids,
    message,
    opened,
    put,
    segment,
)
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.base.disk import steps
from sprocket.rabbitmq.codec import index, message_term
from sprocket.rabbitmq.codec.amqp import properties
from sprocket.rabbitmq.codec.store import QueueTerms, clean_stop, entries, recovery_terms
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store import recovery
from sprocket.rabbitmq.store.layout import encode_queue_name, queue_folder
from sprocket.rabbitmq.store.repair import check_vhost
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.testing.disk import CHANGES, SimulatedDisk

QUEUE = PATHS.queue(queue_folder(Q))
ENTRIES_V2 = 8
"""Entries of a segment of version 2; one of version 1 has four."""
CASE = "08-classic-v2"


def octets(found: BasicMessage) -> bytes:
    """Return the properties as a client gets them."""
    told = found.properties
    return told if isinstance(told, bytes) else properties.encode(told)


class PowerLost(BaseException):
    """Everything stops."""


def lose(countdown: list[int], call: str, _path: str) -> None:
    """Stop before one of the calls that change the disk."""
    if call in CHANGES:
        countdown[0] -= 1
        if not countdown[0]:
            raise PowerLost


def put_segments(disk: SimulatedDisk, *numbers: int, large: frozenset[int] = frozenset()) -> None:
    """Write the files of version 2 that have those messages; the large ones are in the store."""
    for number in sorted({one // ENTRIES_V2 for one in numbers}):
        bounds = b"\2" + struct.pack(">QQ", number * ENTRIES_V2, (number + 1) * ENTRIES_V2)
        told, stored = b"RCQI" + bounds + bytes(43), b"RCQS" + bounds + bytes(43)
        for seq_id in range(number * ENTRIES_V2, (number + 1) * ENTRIES_V2):
            if seq_id not in numbers:
                told += bytes(32)
                continue
            size = LARGE if seq_id in large else 20
            term = message_term.encode(message(seq_id, size))
            place = b"\2" + struct.pack(">QI4x", len(stored), len(term))
            if seq_id in large:
                place = b"\1" + message(seq_id).id
            else:
                stored += struct.pack(">IBHx", len(term), 1, crc32(term) & 0xFFFF) + term
            told += b"\1\1\0" + place + struct.pack(">IQ", size, 0)
        put(disk, QUEUE.segment_v2(number), told)
        put(disk, QUEUE.store_v2(number), stored)


def left_by_rabbitmq() -> SimulatedDisk:
    """A queue with messages in two segments, of which a conversion has done some already."""
    disk = SimulatedDisk()
    put(disk, PATHS.name, b"/")
    put(disk, PATHS.config, clean_stop.encode_config(4))
    put(disk, QUEUE.name, encode_queue_name(Q, is_v2=True))
    put_segments(disk, 1, 3, 5, 9, 10, 11, large=frozenset((5, 10)))
    both = [
        index.publish(n, message(n).id, 0, 20, message_term.encode(message(n)), is_persistent=True)
        for n in (3, 12, 9, 13)
    ]
    put(
        disk,
        segment(0),
        index.segment_publish(3, both[0]) + index.segment_mark(3),
    )
    put(disk, segment(3), index.segment_publish(0, both[1]) + index.segment_mark(0))
    put(disk, QUEUE.journal, both[2] + index.deliver(9) + both[3] + index.deliver(13))
    store = b"".join(
        part
        for n in (5, 10)
        for part in entries.entry(message(n).id, message_term.encode(message(n, LARGE)))
    )
    put(disk, PATHS.persistent.file(0), store)
    terms = QueueTerms(
        next_seq_id=21,
        next_deliver_seq_id=10,
        persistent_ref=bytes(16),
        persistent_count=6,
        persistent_bytes=0,
        segments={0: 3, 1: 3},
        is_v2=True,
    )
    put(disk, PATHS.recovery_terms, recovery_terms.encode({queue_folder(Q): terms}))
    return disk


ALL = [1, 3, 5, 9, 10, 11, 12, 13]


def test_a_recorded_folder_is_imported() -> None:
    """Order, bodies, property bytes and `redelivered` are what RabbitMQ's own consumer got."""
    recorded = RecordedVhosts(CASE)
    disk = recorded.in_memory()

    def open_it() -> VhostStore:
        return VhostStore.open(VhostPlace(disk, ROOT, "/"), VhostStoreSettings(), VhostGeometry())

    told = recovery.dry_run(disk, PATHS, 2048)
    store = open_it()
    expected = recorded.messages
    assert store.report == told
    assert (store.report.imported, store.report.lost, store.report.damage) == (3, 0, [])
    assert store.report.messages == sum(map(len, expected.values())) > 3600
    for (vhost, name), messages in expected.items():
        found = steps.run(store.queue(QueueName(vhost, name)).read(0, 1 << 40))
        now_us = recorded.expected["drained_from_us"]
        left = [one for one in found if not 0 < (one.expires_at_us or 0) <= now_us]
        assert [
            (
                one.seq_id,
                one.is_delivered,
                sha256(one.message.body).hexdigest(),
                octets(one.message).hex(),
            )
            for one in left
        ] == [
            (one["seq_id"], one["redelivered"], one["body_sha256"], one["properties_hex"])
            for one in messages
        ]
    assert not [path for path in disk.contents() if path.endswith((".qi", ".qs"))]
    close(store)
    assert [*check_vhost(disk, ROOT)] == []
    again = open_it()
    assert (again.report.clean_stop, again.report.imported) == (True, 0)
    assert again.report.messages == told.messages


def test_what_both_versions_have_is_there_once() -> None:
    """And who had it is known; numbers go on where they were."""
    disk = left_by_rabbitmq()
    store = opened(disk)
    queue = store.queue(Q)
    assert (ids(queue), delivered(queue), queue.next_seq_id) == (ALL, [1, 3, 5, 9], 21)
    assert (store.report.imported, store.report.messages) == (1, len(ALL))
    assert disk.contents()[QUEUE.name] == encode_queue_name(Q)


@pytest.mark.slow
def test_an_import_may_be_cut_short_at_any_call() -> None:
    """Nothing is lost, nothing is there twice, and the next start ends it."""
    nth = 1
    while True:
        disk = left_by_rabbitmq()
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
            *(disk.crash(random.randrange) for _ in range(6)),
        ):
            store = opened(found)
            assert (store.report.damage, store.report.lost) == ([], 0)
            assert ids(store.queue(Q)) == ALL
            close(store)
            assert not [path for path in found.contents() if path.endswith((".qi", ".qs"))]
            assert [*check_vhost(found, ROOT)] == []
        nth += 1
    assert nth > 15


def test_a_message_that_is_damaged_is_told_and_kept_in_its_file() -> None:
    """All others are imported; what version 1 has as well is not lost."""
    disk = left_by_rabbitmq()
    for number in (1, 3):
        flip(disk, QUEUE.store_v2(0), b"body %d " % number)
    before = disk.contents()
    told = recovery.dry_run(disk, PATHS, 4)
    assert disk.contents() == before
    store = opened(disk)
    assert store.report == told
    assert ids(store.queue(Q)) == [one for one in ALL if one != 1]
    assert store.report.lost == 1
    assert ["does not fit its checksum" in one for one in store.report.damage] == [True, True]
    for path in (QUEUE.segment_v2(0), QUEUE.store_v2(0)):
        assert disk.contents()[f"{path}.damaged"] == before[path]
    assert QUEUE.store_v2(1) not in disk.contents()


@pytest.mark.parametrize("place", [0, 9])
def test_a_message_that_is_in_no_file_is_told(place: int) -> None:
    """By its entry it should survive a restart; all others are imported."""
    disk = left_by_rabbitmq()
    entry = 64 + 11 % ENTRIES_V2 * 32
    disk.open(QUEUE.segment_v2(1), write=True).write([bytes([place])], entry + 3)
    store = opened(disk)
    assert ids(store.queue(Q)) == [one for one in ALL if one != 11]
    assert store.report.damage[-1].endswith("message 11 cannot be read: it is in no file")
    assert (store.report.lost, f"{QUEUE.segment_v2(1)}.damaged" in disk.contents()) == (1, True)


def test_messages_whose_file_is_missing_are_told() -> None:
    """Those that the store of the virtual host has are imported."""
    disk = left_by_rabbitmq()
    disk.remove(QUEUE.store_v2(1))
    store = opened(disk)
    assert ids(store.queue(Q)) == [one for one in ALL if one != 11]  # 9 is in the journal, too
    lost = "message 11 cannot be read: the file of its messages is missing"
    assert (store.report.lost, store.report.damage[-1].endswith(lost)) == (1, True)


@pytest.mark.parametrize("is_store_whole", [True, False])
def test_a_damaged_header_costs_nothing_if_the_other_file_has_it(is_store_whole: bool) -> None:
    """If both are damaged the files are set aside; either is told."""
    disk = left_by_rabbitmq()
    flip(disk, QUEUE.segment_v2(1), b"RCQI")
    if not is_store_whole:
        flip(disk, QUEUE.store_v2(1), b"RCQS")
    store = opened(disk)
    gone = [] if is_store_whole else [10, 11]  # 9 is in the journal, too
    assert ids(store.queue(Q)) == [one for one in ALL if one not in gone]
    (damage,) = store.report.damage
    assert ("is taken instead" if is_store_whole else "messages cannot be read") in damage
    assert f"{QUEUE.store_v2(1)}.damaged" in disk.contents()
    close(store)
    assert opened(disk).report.clean_stop
