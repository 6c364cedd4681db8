"""What a real RabbitMQ did to its queues, done again: the files come out byte for byte."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.recorded_rabbitmq import FOLDER, RecordedVhosts

from sprocket.base.disk import steps
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.queue_index import (
    IndexLimits,
    QueueIndex,
    close_steps,
    flush_steps,
)
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog
from sprocket.testing.disk import SimulatedDisk

CASES = ("01-journal-only", "07-journal-over-segment", "09-journal-count")
VHOST = layout.vhost_folder("/")


@dataclass
class Recorded:
    """The files of one queue, and its messages as a journal has them."""

    files: dict[str, bytes] = field(default_factory=dict)
    records: dict[int, bytes] = field(default_factory=dict)

    def read(self, entry_count: int) -> None:
        """Find the publish records."""
        for name, data in self.files.items():
            is_segment = name.endswith(".idx")
            found = index.read_segment(data) if is_segment else index.read_journal(data)
            first = int(name.removesuffix(".idx")) * entry_count if is_segment else 0
            for start, kind, number in zip(found.starts, found.kinds, found.ids, strict=True):
                if kind > index.RecordKind.PUBLISH_TRANSIENT:
                    continue
                one = index.decode_publish(data, int(start), is_segment=is_segment)
                seq_id = first + int(number)
                self.records[seq_id] = index.publish(
                    seq_id,
                    one.message_id,
                    one.expiry_us,
                    one.body_size,
                    one.term,
                    is_persistent=one.is_persistent,
                )


def operations(case: str) -> Iterator[dict[str, Any]]:
    """What the queues did, in order."""
    with (FOLDER / case / "ops.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@pytest.mark.parametrize("case", CASES)
def test_the_files_come_out_byte_for_byte(case: str) -> None:
    """Journal and segments of each queue, after a clean stop; and the log is gone."""
    recorded = RecordedVhosts(case)
    queues: dict[str, Recorded] = {}
    entry_count = 0
    for path, data in recorded.files():
        parts = path.split("/")
        if parts[-1] == ".config":
            entry_count = int(data.split(b"count, ")[1].split(b"}")[0])
        elif parts[1] == "queues" and parts[-1] != ".queue_name":
            queues.setdefault(parts[2], Recorded()).files[parts[3]] = data
    journal_max = recorded.expected["settings"].get("queue_index_max_journal_entries", 32768)
    disk, paths = SimulatedDisk(), VhostLayout(f"/{VHOST}")
    disk.make_folder(paths.root)
    log = WriteAheadLog(disk, paths.root, 1 << 16)
    indexes: dict[str, QueueIndex] = {}
    flushes = 0
    for one in operations(case):
        folder = layout.queue_folder(QueueName("/", one["queue"]))
        recorded_queue = queues[folder]
        if folder not in indexes:
            recorded_queue.read(entry_count)
            limits = IndexLimits(entry_count, journal_max)
            queue = paths.queue(folder)
            indexes[folder] = QueueIndex(disk, queue, log, Origin(folder), limits, {})
        mine = indexes[folder]
        match one["op"]:
            case "publish":
                seq_id = one["seq_id"]
                gone = index.publish(seq_id, bytes(16), 0, 1, b"", is_persistent=True)
                mine.publish(seq_id, recorded_queue.records.get(seq_id, gone))
                if mine.is_flush_due:
                    steps.run(flush_steps(log, [mine]))
                    flushes += 1
                mine.deliver(seq_id)
            case "ack":
                mine.ack(one["seq_ids"])
            case "flush":
                steps.run(flush_steps(log, [mine]))
                flushes += 1
        if mine.is_flush_due:
            steps.run(flush_steps(log, [mine]))
            flushes += 1
    steps.run(close_steps(log, paths, [*indexes.values()]))
    for folder, expected in queues.items():
        root = paths.queue(folder).root
        found = {
            path.rpartition("/")[2]: data
            for path, data in disk.contents().items()
            if path.startswith(root + "/") and not path.endswith(layout.SUMS)
        }
        assert sorted(found) == sorted(expected.files)
        assert found == expected.files
    assert layout.write_ahead_files(disk.list(paths.root)) == []
    assert flushes > 0 or case == "01-journal-only"
