"""How far each consumer group is in each queue, so that it goes on from there after any end.

Two files hold it, both in `config/`:

* `consumerOffset.json`, RocketMQ's own, replaced as a whole every few seconds (`flush_ms`) and at
  stop: a crash leaves the old one or the new one.
* `sprocket.offsets`, a journal of the commits since then: one line is written for each commit,
  before the commit is answered. A process that dies, by `kill -9` too, leaves what it has written
  to the system, so no answered commit is lost with the process. The journal is not synced: a power
  loss may take the commits of the last interval, and consumers then see some messages again.

A journal line is `crc TAB [sequence,"topic@group",queue,offset] LF`; crc is CRC-32 & 0x7FFFFFFF of
the JSON in decimal, sequences rise by one. The file says in `sprocketSequence` which lines it
covers; only later ones count, so that lines which a power loss brings back do no harm. A file that
RocketMQ has written since lacks that member: then the journal is older than it and is dropped.
Reading stops at the first line that is torn, fails its crc or breaks the sequence. When the file is
durable its lines leave the journal: it is cut to nothing, or, when commits came in the meantime,
replaced by a new one of these (written beside it, then renamed: a kill finds either of them whole).

Invariants

1. File + journal = the table: at any moment reading both gives what was answered last.
2. A line leaves the journal only after a file that covers it is durable.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import msgspec

from sprocket.base import log
from sprocket.base.checksum import crc31
from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, File
from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.config_file import ConfigFile
from sprocket.rocketmq.codec import values
from sprocket.rocketmq.codec.tables import DataVersion
from sprocket.rocketmq.store import config_rdb
from sprocket.rocketmq.store.layout import StoreLayout

_log = log.get_logger(__name__)

JOURNAL_BYTES_MAX = 4 * 1024 * 1024
"""A journal of this size asks for a flush at once; about 80,000 commits."""

Commit: TypeAlias = tuple[int, str, int, int]
"""Sequence, `topic@group`, queue, offset."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Commit).decode

SEQUENCE = "sprocketSequence"
"""Our member of the file; RocketMQ passes over it when it reads."""

VERSION_STEP = 500
"""Commits for each step of the data version, RocketMQ's `consumerOffsetUpdateVersionStep`."""


@dataclass(frozen=True, slots=True)
class FlushJob:
    """The content of `consumerOffset.json` at one moment, to be written on any thread."""

    run: Callable[[], None]
    journal_end: int
    """Bytes of the journal that the content covers."""


class ConsumerOffsets:
    """The table of committed offsets, by `topic@group` and queue.

    Threads: event loop only, but for `FlushJob.run`.
    Durability: see the head of the module.
    """

    def __init__(self, disk: Disk, folder: str, clock: Clock) -> None:
        layout = StoreLayout(folder)
        rocksdb = partial(config_rdb.offsets_json, disk, layout)
        self._file = ConfigFile(disk, layout.consumer_offsets, rocksdb)
        self._disk = disk
        self._clock = clock
        self._table: dict[str, dict[int, int]] = {}
        self._version = DataVersion.new(clock.now_ms())
        self._commits = 0
        self._sequence = 0
        covered = self._file.load(self._interpret)
        self._journal_path = StoreLayout(folder).offset_journal
        self._journal: File = disk.open(self._journal_path, write=True, create=True)
        self._journal_end = self._replay(covered)
        self._is_changed = covered is None or self._journal_end > 0
        if covered is None:
            self.flush()  # from now on the journal counts

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset the group goes on from, None when it never committed one."""
        queues = self._table.get(f"{topic}@{group}")
        return None if queues is None else queues.get(queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note where the group is in a queue; forwards or backwards.

        Raises:
            DiskFull, DiskFailed: The journal could not be written; the table is as before.
        Durability: written to the system when this returns, see the head of the module.
        """
        key = f"{topic}@{group}"
        queues = self._table.setdefault(key, {})
        if queues.get(queue_id) == offset:
            return
        content = _encode((self._sequence + 1, key, queue_id, offset))
        line = b"%d\t%b\n" % (crc31(content), content)
        self._journal.write([line], self._journal_end)
        self._journal_end += len(line)
        self._sequence += 1
        queues[queue_id] = offset
        self._is_changed = True
        self._commits += 1
        if self._commits % VERSION_STEP == 0:
            self._version = self._version.next(self._clock.now_ms())

    @property
    def wants_flush(self) -> bool:
        """Tell whether the journal has grown so long that it should not wait for its time."""
        return self._journal_end >= JOURNAL_BYTES_MAX

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that committed an offset in the topic."""
        prefix = f"{topic}@"
        return [key[len(prefix) :] for key in self._table if key.startswith(prefix)]

    def begin_flush(self) -> FlushJob | None:
        """Return what must be written, None when nothing changed since the last time."""
        if not self._is_changed:
            return None
        self._is_changed = False
        groups: dict[str, list[str]] = {}
        for key in self._table:
            topic, _, group = key.partition("@")
            topics = groups.setdefault(group, [])
            if topic not in topics:
                topics.append(topic)
        content = self._file.encode(
            {
                "dataVersion": self._version.to_json(),
                "groupTopicMap": groups,
                "offsetTable": {key: dict(queues) for key, queues in self._table.items()},
                SEQUENCE: self._sequence,
            }
        )
        return FlushJob(run=lambda: self._file.replace(content), journal_end=self._journal_end)

    def finish_flush(self, job: FlushJob, error: StoreError | None) -> None:
        """Cut from the journal what the file now holds; after an error nothing is cut."""
        if error is not None:
            self._is_changed = True
            _log.error("consumer offsets could not be written; trying again", why=str(error))
            return
        rest_bytes = self._journal_end - job.journal_end
        if rest_bytes == 0:
            self._journal.resize(0)
        else:
            rest = self._journal.read(job.journal_end, rest_bytes)
            path = self._journal_path  # not the handle's, which keeps the name it was opened by
            fresh = self._disk.open(path + ".tmp", write=True, create=True)
            fresh.resize(0)
            fresh.write([rest], 0)
            self._disk.rename(path + ".tmp", path)
            self._journal.close()
            self._journal = fresh
        self._journal_end = rest_bytes

    def flush(self) -> None:
        """Write what changed, here and now: used when stopping and by tests."""
        job = self.begin_flush()
        if job is None:
            return
        try:
            job.run()
        except StoreError as error:
            self.finish_flush(job, error)
            raise
        self.finish_flush(job, None)

    def close(self) -> None:
        """Flush and give the journal up."""
        try:
            self.flush()
        finally:
            self._journal.close()

    def _interpret(self, content: dict[str, Any]) -> int | None:
        """Take in what the file says; return up to where it covers the journal.

        Returns:
            None if the journal is void: RocketMQ has written the file since.
        """
        version = DataVersion.from_json(content.get("dataVersion"), self._clock.now_ms())
        found = values.mapping(content.get("offsetTable"), "offsetTable")
        self._table = {
            str(key): {
                values.integer(queue, "a queue"): values.integer(at, "an offset")
                for queue, at in values.mapping(queues, f"offsets of {key}").items()
            }
            for key, queues in found.items()
        }
        self._version = version
        if not content:
            return 0
        covered = content.get(SEQUENCE)
        return covered if isinstance(covered, int) else None

    def _replay(self, covered: int | None) -> int:
        """Apply the journal's lines behind `covered`; return where the good part of it ends."""
        size = self._journal.size()
        data = self._journal.read(0, size)
        end = 0
        self._sequence = covered or 0
        for line_end, (sequence, key, queue_id, offset) in _lines(data):
            end = line_end
            if covered is not None and sequence > covered:
                self._table.setdefault(key, {})[queue_id] = offset
            self._sequence = max(self._sequence, sequence)
        if end < size:
            _log.warning("the end of the offset journal is torn and was cut", bytes=size - end)
            self._journal.resize(end)
            self._journal.sync()
        return end


def _lines(data: bytes) -> Iterator[tuple[int, Commit]]:
    """Yield each good line with the position behind it."""
    position = 0
    previous: int | None = None
    while (end := data.find(b"\n", position)) >= 0:
        try:
            crc_text, content = data[position:end].split(b"\t", 1)
            if int(crc_text) != crc31(content):
                return
            commit = _decode(content)
        except (ValueError, msgspec.DecodeError):
            return
        if previous is not None and commit[0] != previous + 1:
            return
        previous = commit[0]
        position = end + 1
        yield position, commit
