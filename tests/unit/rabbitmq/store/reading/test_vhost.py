"""Reading a virtual host's folder: whole, damaged in every way that is known, and unreadable."""

import pytest
from tests.rabbit_folders import ENTRIES, MadeVhost, message, published, segment, stored, term

from sprocket.base.checksum import crc32
from sprocket.base.errors import ForeignStore
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.write_ahead import SegmentAppend
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store.reading import (
    FoundMessage,
    MessageState,
    VhostReader,
    vhost_folders,
)
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog
from sprocket.testing.disk import SimulatedDisk

Q = QueueName("/", "q")


def found(made: MadeVhost, *, with_gone: bool = False) -> list[FoundMessage]:
    """Return all messages of all queues."""
    reader = VhostReader(made.disk, made.folder)
    return [one for queue in reader.queues() for one in reader.messages(queue, with_gone=with_gone)]


def ids(made: MadeVhost) -> list[int]:
    """Return the sequence ids of the messages that can be read; each is the right one."""
    read = []
    for one in found(made):
        if one.message is not None:
            assert one.message == message(one.seq_id)
            read.append(one.seq_id)
    return read


def faults(made: MadeVhost) -> list[str]:
    """Return what reading everything meets, without the folders of the paths."""
    reader = VhostReader(made.disk, made.folder)
    told = [
        one.fault
        for queue in reader.queues()
        for one in reader.messages(queue, with_gone=True)
        if one.message is None
    ]
    return told + [f"{fault.path.rpartition('/')[2]}: {fault.what}" for fault in reader.faults]


def with_journal(data: bytes) -> MadeVhost:
    """Return a folder whose queue has that journal."""
    made = MadeVhost()
    made.put(made.queue().journal, data)
    return made


def with_segment(data: bytes, journal: bytes = b"") -> MadeVhost:
    """Return a folder whose queue has that first segment."""
    made = with_journal(journal)
    made.put(made.queue().segment(0), data)
    return made


def test_a_journal_over_a_segment() -> None:
    """Messages of both, in order; what the journal acknowledges is gone."""
    journal = published(5) + index.deliver(5) + index.ack(1) + published(9) + index.deliver(9)
    made = with_segment(segment([0, 1, 2]), journal)
    assert (ids(made), faults(made)) == ([0, 2, 5, 9], [])


def test_without_terms_every_message_is_redelivered() -> None:
    """As after a crash, whoever got it."""
    made = with_segment(segment([0, 1], marks=0))
    assert [one.state for one in found(made)] == [MessageState.DELIVERED] * 2


def test_with_terms_the_delivered_ones_are_known() -> None:
    """By their sequence ids, not by records."""
    made = with_segment(segment([0, 1, 2]))
    made.leave_terms([Q], 2)
    delivered, published_ = MessageState.DELIVERED, MessageState.PUBLISHED
    assert [one.state for one in found(made)] == [delivered, delivered, published_]


def test_terms_of_older_servers_leave_it_to_the_records() -> None:
    """Those before 3.10 wrote a deliver record when they delivered."""
    made = with_segment(segment([0]) + segment([1], marks=0))
    made.leave_terms([Q], None)
    assert [one.state for one in found(made)] == [MessageState.DELIVERED, MessageState.PUBLISHED]


def test_what_has_left_is_given_if_asked_for() -> None:
    """Acknowledged messages of which records are left, and transient ones."""
    journal = published(0) + index.deliver(0) + index.ack(0)
    journal += published(1, is_persistent=False) + index.deliver(1)
    made = with_journal(journal)
    assert found(made) == []
    acked, transient = found(made, with_gone=True)
    assert acked.state is MessageState.ACKNOWLEDGED
    assert not transient.is_persistent
    assert transient.message == message(1)


def test_one_message_is_read_alone() -> None:
    """By its sequence id."""
    made = with_segment(segment([0, 1, 2]))
    reader = VhostReader(made.disk, made.folder)
    (queue,) = reader.queues()
    assert [one.seq_id for one in reader.messages(queue, seq_id=1)] == [1]


def test_a_queue_with_priorities_is_one_queue() -> None:
    """The highest priority first; each has sequence ids of its own."""
    made = MadeVhost()
    for priority in (0, 2, 10):
        made.put(made.queue("p", priority).segment(0), segment([priority % ENTRIES]))
    reader = VhostReader(made.disk, made.folder)
    (queue,) = reader.queues()
    assert (queue.name, queue.stopped_cleanly) == ("p", False)
    assert [one.queue.priority for one in reader.messages(queue)] == [10, 2, 0]


def test_messages_in_the_store_are_found() -> None:
    """In any of its files, in what a compaction left, and the transient ones in their own."""
    journal = b"".join(published(n, is_embedded=False) + index.deliver(n) for n in (0, 1, 2))
    journal += published(3, is_embedded=False, is_persistent=False) + index.deliver(3)
    made = with_journal(journal)
    made.put(made.layout.persistent.file(0), stored([0]))
    made.put(made.layout.persistent.file(7), stored([9, 1]))
    made.put(made.layout.persistent.compacted_file(7), stored([2]))
    made.put(made.layout.transient.file(0), stored([3]))
    assert [one.message for one in found(made, with_gone=True)] == list(map(message, range(4)))
    assert faults(made) == []


def test_a_copy_stands_in_for_one_that_is_damaged() -> None:
    """A crash during a compaction leaves messages twice."""
    made = with_journal(published(0, is_embedded=False))
    made.put(made.layout.persistent.file(0), stored([0]))
    made.put(made.layout.persistent.file(1), stored([0]))
    reader = VhostReader(made.disk, made.folder)
    (queue,) = reader.queues()
    assert [one.message for one in reader.messages(queue)] == [message(0)]
    made.disk.spoil(made.layout.persistent.file(0), 0, 10)
    assert [one.message for one in reader.messages(queue)] == [message(0)]
    assert ids(made) == [0]


MARK = index.segment_mark(0)
DAMAGED: dict[str, tuple[MadeVhost, list[int], str]] = {
    "a journal that is cut inside a record": (
        with_journal(published(0) + published(1)[:-1]),
        [0],
        "journal.jif: the last record goes on beyond the end",
    ),
    "zeros behind the journal's last record": (
        with_journal(published(0) + bytes(100)),
        [0],
        "journal.jif: zeros follow",
    ),
    "a segment of zeros only": (
        with_segment(bytes(64), published(0) + index.deliver(0)),
        [0],
        "0.idx: zeros follow",
    ),
    "a segment that ends inside a record": (
        with_segment(segment([0, 1]) + MARK[:1]),
        [0, 1],
        "0.idx: the last record goes on beyond the end",
    ),
    "an ack without a deliver before it": (
        with_journal(published(0) + published(1) + index.ack(0)),
        [1],
        "journal.jif: acknowledged without having been delivered",
    ),
    "two publishes of one message": (
        with_journal(published(0) + published(1) + published(0)),
        [0, 1],
        "journal.jif: published again later",
    ),
    "a deliver alone for a segment that is gone": (
        with_journal(index.deliver(0) + published(9)),
        [9],
        "journal.jif: message 0 is said to be delivered",
    ),
    "a relative id beyond the segment's entries": (
        with_segment(segment([0]) + index.segment_publish(ENTRIES, published(0))),
        [0],
        f"0.idx: a relative id of {ENTRIES} or more",
    ),
    "a message that is not a term": (
        with_segment(segment([0]) + segment([1]).replace(b"resource", b"resourde")),
        [0],
        "expected the term of a message",
    ),
    "another message than the index says": (
        with_journal(
            published(0) + index.publish(1, bytes(15) + b"\1", 0, 10, term(2), is_persistent=True)
        ),
        [0],
        "expected 00000000000000000000000000000001, found 00000000000000000000000000000002",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_is_whole_is_read_past_damage(what: str) -> None:
    """Each damage is told with its file; all else is there."""
    made, left, told = DAMAGED[what]
    assert ids(made) == left
    assert [told in fault for fault in faults(made)] == [True]


HARMLESS: dict[str, tuple[MadeVhost, list[int]]] = {
    "the journal repeats the segment": (
        with_segment(segment([0, 1]), published(0) + index.deliver(0) + published(1)),
        [0, 1],
    ),
    "an ack for a segment that is gone": (
        with_journal(index.ack(0) + index.deliver(1) + index.ack(1) + published(9)),
        [9],
    ),
    "publishes without deliver records": (with_segment(segment([0, 1], marks=0)), [0, 1]),
    "records in any order": (with_segment(segment([3]) + segment([1]) + segment([2])), [1, 2, 3]),
    "no .queue_name, no .config, no .vhost": (with_segment(segment([0])), [0]),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_a_crash_leaves_is_no_damage(what: str) -> None:
    """It is read without a word."""
    made, left = HARMLESS[what]
    assert (ids(made), faults(made)) == (left, [])


def in_store(data: bytes, count: int = 3) -> MadeVhost:
    """Return a folder with messages in the store whose file has that content."""
    journal = (published(n, is_embedded=False) + index.deliver(n) for n in range(count))
    made = with_journal(b"".join(journal))
    made.put(made.layout.persistent.file(0), data)
    return made


FILE = stored([0, 1, 2])
SIZE = len(FILE) // 3


@pytest.mark.parametrize(
    ("data", "left", "told"),
    [
        (FILE[: SIZE - 1] + b"\0" + FILE[SIZE:], [1, 2], "the mark of an entry is 00, not ff"),
        (FILE[:-1], [0, 1], "the entry goes on to"),
        (FILE[:SIZE] + bytes(20) + FILE[SIZE + 20 :], [0, 2], "zeros instead of an entry"),
        (FILE[: 2 * SIZE], [0, 1], "has no message 00000000000000000000000000000002"),
        (FILE + bytes(50), [0, 1, 2], "zeros instead of an entry"),
    ],
)
def test_a_damaged_store_loses_what_is_damaged(data: bytes, left: list[int], told: str) -> None:
    """The others are found behind it."""
    made = in_store(data)
    assert ids(made) == left
    assert any(told in fault for fault in faults(made))


def test_files_that_name_nothing_are_told() -> None:
    """Then the folder's name, and the greatest number of entries, stand in."""
    made = with_segment(segment([0]))
    paths = made.queue()
    made.put(paths.name, b"nonsense")
    made.put(made.layout.config, b"{")
    made.put(made.layout.recovery_terms, bytes(100))
    reader = VhostReader(made.disk, made.folder)
    (queue,) = reader.queues()
    assert (queue.vhost, queue.name) == ("/", queue.parts[0].folder)
    assert [one.seq_id for one in reader.messages(queue)] == [0]
    assert [fault.path.rpartition("/")[2] for fault in reader.faults] == [
        *(".queue_name", "recovery.dets", ".config"),
    ]


@pytest.mark.parametrize("has_queues", [True, False])
def test_a_wrong_bit_in_the_name_of_a_virtual_host_is_told(has_queues: bool) -> None:
    """The folder is called by its name, and its queues have it: what they say counts."""
    made = with_segment(segment([0]))
    if not has_queues:
        made.disk.remove(made.queue().name)
    made.put(made.layout.name, b"o")
    reader = VhostReader(made.disk, made.folder)
    assert reader.name == ("/" if has_queues else "o")
    (fault,) = reader.faults
    assert (fault.path, "found 'o'" in fault.what) == (made.layout.name, True)


def test_a_folder_that_somebody_has_called_something_else_is_read() -> None:
    """Its files say what it is; if its queues have another name that is told."""
    made = with_segment(segment([0]))
    made.disk.rename(made.folder, "/copy")
    reader = VhostReader(made.disk, "/copy")
    assert (reader.name, reader.faults) == ("/", [])
    made.put("/copy/.vhost", b"o")
    reader = VhostReader(made.disk, "/copy")
    assert reader.name == "o"
    assert [fault.path for fault in reader.faults] == ["/copy/.vhost"]


def test_a_folder_without_names_is_read() -> None:
    """Its number of entries is the one that older servers had."""
    made = with_segment(segment([0, 1]))
    made.disk.remove(made.layout.name)
    made.disk.remove(made.layout.config)
    reader = VhostReader(made.disk, made.folder)
    assert (reader.name, reader.segment_entry_count) == ("/", 16384)
    made.disk.remove(made.queue().name)
    reader = VhostReader(made.disk, made.folder)
    (queue,) = reader.queues()
    assert queue.vhost == reader.name == made.folder.rpartition("/")[2]


def test_counts_need_no_message() -> None:
    """They come from the index alone: the store is not there."""
    journal = published(0) + index.deliver(0) + published(1, is_embedded=False)
    journal += published(2, is_persistent=False) + published(3) + index.deliver(3) + index.ack(3)
    made = with_journal(journal)
    made.leave_terms([Q], 1)
    reader = VhostReader(made.disk, made.folder)
    (queue,) = reader.queues()
    counts = reader.count(queue)
    assert (counts.published, counts.delivered, counts.acknowledged) == (1, 1, 1)
    assert (counts.transient, counts.embedded, counts.body_bytes) == (1, 1, 20)
    assert queue.stopped_cleanly


def test_what_the_disk_cannot_read_costs_no_more_than_itself() -> None:
    """Of a segment what is before it; of a file of the store what is around it."""
    made = in_store(stored(range(100)), 100)
    queue = made.queue()
    sector = 4096
    made.put(queue.segment(99), segment([792]) + bytes(100_000))
    made.disk.spoil(queue.segment(99), 70_000, 1)
    made.disk.spoil(made.layout.persistent.file(0), sector, sector)
    size = len(FILE) // 3
    whole = [n for n in range(100) if (n + 1) * size <= sector or n * size >= 2 * sector]
    assert ids(made) == [*whole, 792]
    told = faults(made)
    assert any(fault.startswith("0.rdq: ") for fault in told)
    assert any(fault.startswith("99.idx: ") for fault in told)


def test_what_our_log_has_of_a_queue_completes_its_files() -> None:
    """Of a folder of ours after a kill: records, and a flush that was cut short."""
    made = MadeVhost()
    queue = made.queue()
    folder = queue.root.rpartition("/")[2]
    made.put(queue.journal, published(0) + published(1) + b"no longer counts")
    whole = segment([8, 9])
    made.put(queue.segment(1), whole + segment([10])[:-7])
    log = WriteAheadLog(made.disk, made.folder, 4096)
    origin = Origin(folder, journal_bytes=len(published(0) + published(1)))
    log.append(origin, published(10) + published(2) + index.deliver(0) + index.ack(0))
    log.commit()
    appended = SegmentAppend(1, len(whole), len(segment([10])), crc32(segment([10])))
    log.begin_flush(origin, [appended])
    log.commit()
    assert (ids(made), faults(made)) == ([1, 2, 8, 9, 10], [])


def test_a_queue_may_be_in_our_log_alone() -> None:
    """It was made, got a message, and the process was killed."""
    made = MadeVhost()
    log = WriteAheadLog(made.disk, made.folder, 4096)
    log.append(Origin("FOLDER"), published(0))
    log.commit()
    assert ids(made) == [0]
    (queue,) = VhostReader(made.disk, made.folder).queues()
    assert queue.name == "FOLDER"


def test_a_folder_of_something_else_is_refused() -> None:
    """By name."""
    disk = SimulatedDisk()
    disk.make_folder("/else")
    with pytest.raises(ForeignStore, match="/else: no folder of a virtual host"):
        VhostReader(disk, "/else")
    assert vhost_folders(disk, "/else") == []


def test_virtual_hosts_are_found_from_any_folder_above() -> None:
    """Their own, the one of all, and that of the node's data."""
    made = MadeVhost()
    assert vhost_folders(made.disk, made.folder) == [made.folder]
    assert vhost_folders(made.disk, "/vhosts/") == [made.folder]
    assert vhost_folders(made.disk, "/") == [made.folder]


def test_virtual_hosts_are_found_in_the_data_of_sprocket_up() -> None:
    """Which has RocketMQ's files beside them."""
    disk = SimulatedDisk()
    folder = "/sprocket-data/rabbitmq/msg_stores/vhosts/628WB79"
    for one in ("/sprocket-data/commitlog", "/sprocket-data/config", f"{folder}/queues"):
        disk.make_folder(one)
    assert vhost_folders(disk, "/sprocket-data") == [folder]
    assert vhost_folders(disk, "/sprocket-data/rabbitmq/") == [folder]


def test_nothing_is_written() -> None:
    """Not one byte of any file changes."""
    made = in_store(FILE)
    before = made.disk.contents()
    found(made, with_gone=True)
    assert made.disk.contents() == before
