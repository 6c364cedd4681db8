"""What `sprocket store ls` lists of a store: its queues, its topics, its files."""

from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from typing import Any

from sprocket.base.disk import Disk
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.store.store import Store


def queue_rows(store: Store) -> Iterator[dict[str, Any]]:
    """Give offsets, count, bytes, and the times of the first and last message of each queue.

    The bytes are those of the records in the log, by the units of the queue; −1 if some are lost.
    """
    for topic, queue_id, kept in store.queues():
        is_empty = kept.max <= kept.min
        times = (-1, -1)
        if not is_empty:
            last = QueueOffset(kept.max - 1)
            times = (
                store.stored_at_ms(topic, queue_id, kept.min),
                store.stored_at_ms(topic, queue_id, last),
            )
        yield {
            "topic": topic,
            "queue_id": queue_id,
            "min_offset": kept.min,
            "max_offset": kept.max,
            "messages": kept.max - kept.min,
            "bytes": store.queue_bytes(topic, queue_id),
            "first_stored_at_ms": times[0],
            "last_stored_at_ms": times[1],
        }


def topic_rows(store: Store) -> Iterator[dict[str, Any]]:
    """Give the same for each topic, over all of its queues."""
    for topic, rows in groupby(queue_rows(store), key=lambda row: row["topic"]):
        queues = list(rows)
        sizes = [row["bytes"] for row in queues]
        firsts = [row["first_stored_at_ms"] for row in queues if row["first_stored_at_ms"] >= 0]
        yield {
            "topic": topic,
            "queue_count": len(queues),
            "messages": sum(row["messages"] for row in queues),
            "bytes": -1 if -1 in sizes else sum(sizes),
            "first_stored_at_ms": min(firsts, default=-1),
            "last_stored_at_ms": max(row["last_stored_at_ms"] for row in queues),
        }


def file_rows(disk: Disk, folder: str, inside: str = "") -> Iterator[dict[str, Any]]:
    """Give length and time of change of each file below a folder, and how far it was written.

    Files have their full length from the beginning; what was not written takes no space.
    """
    for name in disk.list(f"{folder}/{inside}"):
        path = f"{folder}/{inside}{name}"
        if disk.is_folder(path):
            yield from file_rows(disk, folder, f"{inside}{name}/")
            continue
        with closing(disk.open(path)) as file:
            written = min(file.data_end(), file.size())
            yield {
                "file": f"{inside}{name}",
                "bytes": file.size(),
                "written_bytes": written,
                "changed_at_ms": disk.modified_at_ms(path),
            }
