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
    IndexEntry,
    IndexLimits,
    IndexRecovery,
    QueueIndex,
    close_steps,
    flush_steps,
)
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog, read_log
from sprocket.testing.disk import SimulatedDisk

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


class Replay:
    """What a case recorded, and the same done by us, up to a clean stop.

    Attributes:
        recorded: As RabbitMQ left it.
        queues: Its queues' files, by folder.
        disk: What we left.
        paths: Of the virtual host on that disk.
        entry_count: Entries of a segment.
        flush_count: How often a queue was flushed.
    """

    def __init__(self, case: str) -> None:
        self.recorded = RecordedVhosts(case)
        self.queues: dict[str, Recorded] = {}
        for path, data in self.recorded.files():
            parts = path.split("/")
            if parts[-1] == ".config":
                self.entry_count = int(data.split(b"count, ")[1].split(b"}")[0])
            elif parts[1] == "queues" and parts[-1] != ".queue_name":
                self.queues.setdefault(parts[2], Recorded()).files[parts[3]] = data
        settings = self.recorded.expected["settings"]
        journal_max = settings.get("queue_index_max_journal_entries", 32768)
        self.limits = IndexLimits(self.entry_count, journal_max)
        self.flush_count = 0
        self.disk, self.paths = SimulatedDisk(), VhostLayout(f"/{VHOST}")
        self.disk.make_folder(self.paths.root)
        self.log = WriteAheadLog(self.disk, self.paths.root, 1 << 16)
        self.indexes: dict[str, QueueIndex] = {}
        for one in operations(case):
            self.do(layout.queue_folder(QueueName("/", one["queue"])), one)
        steps.run(close_steps(self.log, self.paths, [*self.indexes.values()]))

    def do(self, folder: str, one: dict[str, Any]) -> None:
        """Do one operation."""
        recorded_queue = self.queues[folder]
        if folder not in self.indexes:
            recorded_queue.read(self.entry_count)
            queue = self.paths.queue(folder)
            self.indexes[folder] = QueueIndex(
                self.disk, queue, self.log, Origin(folder), self.limits, {}
            )
        mine = self.indexes[folder]
        match one["op"]:
            case "publish":
                seq_id = one["seq_id"]
                gone = index.publish(seq_id, bytes(16), 0, 1, b"", is_persistent=True)
                mine.publish_all(seq_id, [recorded_queue.records.get(seq_id, gone)])
            case "ack":
                mine.ack(one["seq_ids"])
            case "flush":
                self.flush(mine)
        if mine.is_flush_due:
            self.flush(mine)

    def flush(self, mine: QueueIndex) -> None:
        """Flush a queue."""
        steps.run(flush_steps(self.log, [mine]))
        self.flush_count += 1

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the files of a queue that RabbitMQ knows."""
        root = self.paths.queue(folder).root
        return {
            path.rpartition("/")[2]: data
            for path, data in self.disk.contents().items()
            if path.startswith(root + "/") and not path.endswith(layout.SUMS)
        }


def left(disk: SimulatedDisk, paths: VhostLayout, entry_count: int) -> dict[str, list[IndexEntry]]:
    """Return the messages of all queues of a virtual host that was stopped."""
    folders = disk.folders(paths.queues)
    recovery = IndexRecovery(disk, paths, entry_count, read_log(disk, paths.root), folders)
    log = WriteAheadLog(disk, paths.root, 1 << 16, 99)
    found: dict[str, list[IndexEntry]] = {}
    for folder, one in recovery.run(lambda _: True).items():
        limits = IndexLimits(entry_count)
        mine = QueueIndex(disk, paths.queue(folder), log, Origin(folder), limits, one.segments)
        found[folder] = [
            entry
            for number in sorted(one.segments)
            for entry in steps.run(mine.segment_steps(number)).between(0, 1 << 62)
        ]
    return found


@pytest.mark.parametrize("case", ["01-journal-only", "07-journal-over-segment"])
def test_the_files_come_out_byte_for_byte(case: str) -> None:
    """Journal and segments of each queue, after a clean stop; and the log is gone."""
    replay = Replay(case)
    for folder, expected in replay.queues.items():
        assert replay.files(folder) == expected.files
    assert layout.write_ahead_files(replay.disk.list(replay.paths.root)) == []
    assert replay.flush_count > 0 or case == "01-journal-only"


def test_what_is_flushed_by_count_is_the_same() -> None:
    """A flush may come between RabbitMQ's publish and deliver records, and not between ours."""
    replay = Replay("09-journal-count")
    for folder, expected in replay.queues.items():
        assert sorted(replay.files(folder)) == sorted(expected.files)
    theirs = left(replay.recorded.in_memory(), VhostLayout(f"/vhosts/{VHOST}"), replay.entry_count)
    assert left(replay.disk, replay.paths, replay.entry_count) == theirs
    assert sum(map(len, theirs.values())) > 100
    assert replay.flush_count > 0
