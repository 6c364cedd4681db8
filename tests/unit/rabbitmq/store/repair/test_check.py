"""Checking a virtual host's folder: a real one is silent, each damage is told with its place."""

from collections.abc import Callable

import pytest
from tests.rabbit_folders import MadeVhost, published, segment, stored
from tests.recorded_rabbitmq import CASES, RecordedVhosts

from sprocket.base.disk import read_file
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.store import QueueTerms, clean_stop, recovery_terms, saved_tables
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.reading import vhost_folders
from sprocket.rabbitmq.store.repair import VhostFinding, VhostRule, check_vhost

Q = layout.queue_folder(QueueName("/", "q"))


def checked(made: MadeVhost) -> list[VhostFinding]:
    """Return all findings."""
    return list(check_vhost(made.disk, made.folder))


def rules(made: MadeVhost) -> list[str]:
    """Return the rules that are broken."""
    return [finding.rule.name for finding in checked(made)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_recorded_folders_break_no_rule(case: str) -> None:
    """What clean stops left agrees with queues and stores, to the last count."""
    disk = RecordedVhosts(case).in_memory()
    folders = vhost_folders(disk, "/vhosts")
    assert [list(check_vhost(disk, folder)) for folder in folders] == [[]] * len(folders)


def terms(**changed: object) -> QueueTerms:
    """Return what the queue of `stopped` left."""
    values: dict[str, object] = {
        "next_seq_id": 9,
        "next_deliver_seq_id": 1,
        "persistent_ref": b"r" * 16,
        "persistent_count": 3,
        "persistent_bytes": 30,
        "segments": {0: 2, 1: 1},
    }
    return QueueTerms(**values | changed)  # type: ignore[arg-type]


def stopped(**changed: object) -> MadeVhost:
    """Return a folder after a clean stop: two messages in a segment, one in the store."""
    made = MadeVhost()
    queue = made.queue()
    made.put(queue.segment(0), segment([0, 1]))
    made.put(queue.journal, published(8, is_embedded=False) + index.deliver(8))
    made.put(made.layout.recovery_terms, recovery_terms.encode({Q: terms(**changed)}))
    store = made.layout.persistent
    made.put(store.file(0), stored([8]))
    size = len(stored([8]))
    made.put(store.clean, clean_stop.encode_clean([b"r" * 16]))
    location = saved_tables.MessageLocation((8).to_bytes(16, "big"), 1, 0, 0, size)
    made.put(store.index, saved_tables.encode_locations([location]))
    summary = saved_tables.FileSummary(0, size, None, None, size)
    made.put(store.summary, saved_tables.encode_summary([summary]))
    return made


def test_a_folder_after_a_clean_stop_breaks_no_rule() -> None:
    """It is what the tests below change."""
    assert checked(stopped()) == []


@pytest.mark.parametrize(
    ("changed", "expected", "found"),
    [
        ({"segments": {0: 2}}, "messages by segment: {0: 2, 1: 1}", "{0: 2}"),
        ({"persistent_count": 4}, "persistent messages: 3", "4"),
        ({"persistent_bytes": 31}, "bytes of persistent messages: 30", "31"),
        ({"next_seq_id": 8}, "next sequence id: 9 or more", "8"),
    ],
)
def test_terms_that_disagree_with_the_index_are_told(
    changed: dict[str, object], expected: str, found: str
) -> None:
    """What is expected is what the index says."""
    (finding,) = checked(stopped(**changed))
    assert finding.rule is VhostRule.TERMS
    assert (finding.expected, finding.found) == (f"{Q}: {expected}", found)


def rewrite(made: MadeVhost, path: str, change: Callable[[bytes], bytes]) -> None:
    """Write a file anew."""
    made.put(path, change(read_file(made.disk, path)))


def flipped(data: bytes) -> bytes:
    """Return a file whose last byte is another one."""
    return data[:-1] + bytes((data[-1] ^ 1,))


def test_each_file_that_is_damaged_is_told() -> None:
    """By its rule."""
    store = stopped().layout.persistent
    for path, rule in (
        (stopped().queue().journal, "MESSAGE"),
        (store.file(0), "MESSAGE"),
        (store.clean, "CLIENTS"),
        (store.index, "LOCATION"),
        (store.summary, "SUMMARY"),
        (stopped().layout.config, "READABLE"),
        (stopped().queue().name, "READABLE"),
    ):
        made = stopped()
        rewrite(made, path, lambda data: data[:-2])
        found = rules(made)
        assert rule in found or (path.endswith("journal.jif") and "READABLE" in found), path


def test_tables_of_the_store_that_disagree_are_told() -> None:
    """Places, counts of queues, bytes in use, and rows that are missing."""
    made = stopped()
    store = made.layout.persistent
    size = len(stored([8]))
    wrong = saved_tables.MessageLocation((8).to_bytes(16, "big"), 2, 0, 5, size - 1)
    made.put(store.index, saved_tables.encode_locations([wrong]))
    found = checked(made)
    assert [(one.rule.name, one.found) for one in found] == [
        ("LOCATION", "2"),
        ("LOCATION", "it is not there"),
        ("SUMMARY", str(size)),
    ]
    made.put(store.index, saved_tables.encode_locations([]))
    assert "no such row" in [one.found for one in checked(made)]


def test_a_store_that_names_other_queues_is_told() -> None:
    """Those that clean.dot has and nobody left anything for."""
    made = stopped()
    made.put(made.layout.persistent.clean, clean_stop.encode_clean([b"s" * 16]))
    (finding,) = checked(made)
    assert finding.rule is VhostRule.CLIENTS
    assert (finding.expected, finding.found) == ((b"r" * 16).hex(), (b"s" * 16).hex())


def test_a_record_that_disagrees_with_its_message_is_told() -> None:
    """About the body's size, and whether it is persistent."""
    made = MadeVhost()
    record = bytearray(published(0) + published(1))
    record[35] = 99
    made.put(made.queue().journal, bytes(record).replace(b"d\0\4true", b"d\0\5fals", 0))
    assert rules(made) == ["BODY_SIZE"]


def test_what_is_damaged_is_told_once() -> None:
    """Though the index is read twice."""
    made = MadeVhost()
    made.put(made.queue().journal, published(0) + b"\0" * 9)
    made.put(made.queue("other").journal, published(0)[:-1])
    assert rules(made) == ["READABLE", "READABLE"]


def test_messages_that_have_left_may_be_gone() -> None:
    """A transient one whose store was emptied, an acknowledged one that nobody keeps."""
    made = MadeVhost()
    journal = published(0, is_embedded=False) + index.deliver(0) + index.ack(0)
    journal += published(1, is_embedded=False, is_persistent=False) + index.deliver(1)
    made.put(made.queue().journal, journal)
    assert checked(made) == []
