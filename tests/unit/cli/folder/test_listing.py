"""What `ls` says of queues, topics and files."""

from tests.stores import ROOT, SMALL, filled

from sprocket.cli.folder import listing

START_MS = 1_700_000_000_000


def test_queues_have_offsets_counts_and_times() -> None:
    """Three messages in one queue, two in the other, a second apart."""
    _disk, store = filled(5)
    assert next(listing.queue_rows(store)) == {
        "topic": "topic",
        "queue_id": 0,
        "min_offset": 0,
        "max_offset": 3,
        "messages": 3,
        "bytes": sum(size for _, _, size, _, _ in store.units("topic", 0, 0, 3)),
        "first_stored_at_ms": START_MS,
        "last_stored_at_ms": START_MS + 4000,
    }


def test_topics_sum_their_queues() -> None:
    """From the first message of any to the last one of any."""
    _disk, store = filled(5)
    assert list(listing.topic_rows(store)) == [
        {
            "topic": "topic",
            "queue_count": 2,
            "messages": 5,
            "bytes": store.end - store.first,
            "first_stored_at_ms": START_MS,
            "last_stored_at_ms": START_MS + 4000,
        }
    ]


def test_files_have_a_length_and_are_written_up_to_somewhere() -> None:
    """In the order of their names, with their folders."""
    disk, store = filled(5)
    store.close()
    rows = {row["file"]: row for row in listing.file_rows(disk, ROOT)}
    log = rows[f"commitlog/{0:020d}"]
    assert (log["bytes"], log["written_bytes"]) == (SMALL.log.segment_bytes, store.end)
    assert f"consumequeue/topic/1/{0:020d}" in rows
    assert "checkpoint" in rows
