"""A table of the broker in `config/`: RocketMQ's JSON file, and our journal of what came since.

The file's member `dataVersion` counts changes; RocketMQ's tools and NameServers compare it. Our own
member says up to which line of the journal the file covers the table. Files and lines of topics and
groups are told in `codec.config.tables`, how file and journal go together in `base.tables`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import msgspec

from sprocket.base.disk import Steps, steps
from sprocket.base.place import Place
from sprocket.base.tables import Journal
from sprocket.rocketmq.codec.config import DataVersion, JsonObject, JsonValue, declared, tables
from sprocket.rocketmq.store import config_rdb
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout

E_co = TypeVar("E_co", bound=tuple[object, ...], covariant=True)
M = TypeVar("M", bound=Mapping[str, object])

Members: TypeAlias = "Mapping[str, JsonValue | Iterator[str]]"
"""Members of a file, see `fastjson.write_pieces`."""


@dataclass(frozen=True, slots=True)
class TableKind(Generic[E_co]):
    """Which table.

    Attributes:
        paths: Those of its file and its journal.
        decode: Reads a line of the journal.
        rocksdb: The number of the table where RocketMQ keeps it in a database, if it may do so.
    """

    paths: Callable[[StoreLayout], tuple[str, str]]
    decode: Callable[[bytes], E_co]
    rocksdb: int | None = None


TOPICS: TableKind[tables.TopicLine] = TableKind(
    lambda at: (at.topics, at.topic_journal),
    msgspec.json.Decoder(tables.TopicLine).decode,
    config_rdb.TOPICS,
)
GROUPS: TableKind[tables.GroupLine] = TableKind(
    lambda at: (at.subscription_groups, at.group_journal),
    msgspec.json.Decoder(tables.GroupLine).decode,
    config_rdb.GROUPS,
)
OFFSETS: TableKind[tables.OffsetLine] = TableKind(
    lambda at: (at.consumer_offsets, at.offset_journal),
    msgspec.json.Decoder(tables.OffsetLine).decode,
    config_rdb.OFFSETS,
)
DELAYS: TableKind[tables.DelayLine] = TableKind(
    lambda at: (at.delay_offsets, at.delay_journal),
    msgspec.json.Decoder(tables.DelayLine).decode,
)
POPS: TableKind[tables.PopLine] = TableKind(
    lambda at: (at.pop_checkpoints, at.pop_journal),
    msgspec.json.Decoder(tables.PopLine).decode,
)
ORDERS: TableKind[tables.OrderLine] = TableKind(
    lambda at: (at.ordered_pops, at.order_journal),
    msgspec.json.Decoder(tables.OrderLine).decode,
)


def _nothing(_: int) -> Steps:
    yield from ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What the owner of a table has written.

    Attributes:
        members: The file's, but for the version and our own.
        covered: Up to which line of the journal they go; None for the last one that there is.
        beside: Writes another file of the same table after it; gets the same sequence number.
        written: Called when they are on the disk.
    """

    members: Members
    covered: int | None = None
    beside: Callable[[int], Steps] = _nothing
    written: Callable[[], None] = lambda: None


class ConfigTable(Generic[E_co]):
    """File, journal and version of one table, whose owner keeps what is in it.

    Args:
        kind: Which.
        place: The store's; its clock is part of the version.
        snapshot: Gives what to write. Entries that are asked for later may be newer.

    Attributes:
        journal: What changed since the last snapshot was begun.
        version: Rises with changes.
        is_lost: Whether there was no file, nor a backup, nor a database: the table is new, or was
            removed by somebody, and only the journal knows something of it.
        is_void: Whether the file was written by somebody else, so that the journal counts only when
            it has been written again.

    Threads: event loop only, except for the calls of steps.
    Durability: what `note` has done is with the operating system when it returns, and on the disk
        after the next sync of the journal or snapshot.
    """

    def __init__(
        self, kind: TableKind[E_co], place: Place, snapshot: Callable[[], Snapshot]
    ) -> None:
        layout, self._clock = StoreLayout(place.folder), place.clock
        path, journal_path = kind.paths(layout)
        missing: Callable[[], JsonObject] = dict
        if kind.rocksdb is not None:
            missing = partial(config_rdb.content, place.disk, layout, kind.rocksdb)
        self._missing = missing
        self._file = ConfigFile(place.disk, path, self._without_file)
        self.journal: Journal[E_co] = Journal(place.disk, journal_path, kind.decode)
        self.version = DataVersion.new(self._clock.now_ms())
        self.is_lost = self.is_void = False
        self._snapshot = snapshot
        self._changes = 0

    def _without_file(self) -> JsonObject:
        """Return the content if there is no file."""
        content = self._missing()
        self.is_lost = not content
        return content

    def load(self, shape: type[M], take: Callable[[M], None]) -> list[E_co]:
        """Read the table; called once, before anything else.

        Args:
            shape: What the file must be, as msgspec knows types.
            take: Takes in what it says; raises WireError if that cannot be.

        Returns:
            The lines of the journal that have to be applied to that, in order.

        Raises:
            ForeignStore: The file is damaged, and so is its backup.
        """

        def interpret(content: M) -> int | None:
            version = DataVersion.from_json(content.get("dataVersion"), self._clock.now_ms())
            take(content)
            self.version = version
            return tables.covered_by(content)

        covered = self._file.load(shape, interpret)
        self.is_void = covered is None
        return self.journal.replay(covered)

    def note(self, *members: object) -> None:
        """Write a line that begins with the next version, before the table is changed.

        Raises:
            DiskFull, DiskFailed: The line does not count.
        """
        version = self.version.next(self._clock.now_ms())
        self.journal.append(version.counter, version.timestamp, *members)
        self.version = version
        self.journal.is_behind = True

    def noted(self, counter: int, timestamp: int) -> None:
        """Take over the version of a line that `note` has written."""
        self.version = DataVersion(counter, timestamp, self.version.state_version)

    def count_change(self, step: int) -> int:
        """Count a change, of which each `step` raise the version; return how many there were."""
        self._changes += 1
        if self._changes % step == 0:
            self.raise_version()
        return self._changes

    def raise_version(self) -> None:
        """Go on to the next version."""
        self.version = self.version.next(self._clock.now_ms())

    def flush_steps(self) -> Steps:
        """Write a new snapshot, if anything has changed since the last one.

        Raises:
            DiskFull, DiskFailed: The old one and the journal are there.
        """
        snapshot = self._snapshot()

        def replace(covered: int) -> Steps:
            yield from self._file.replace_steps(
                {
                    "dataVersion": declared.plain(self.version),
                    **snapshot.members,
                    tables.SEQUENCE: covered,
                }
            )
            yield from snapshot.beside(covered)
            snapshot.written()

        return self.journal.snapshot_steps(replace, snapshot.covered)

    def flush(self) -> None:
        """Write what changed, here and now: used when starting, when stopping and by tests."""
        steps.run(self.flush_steps())

    def close(self) -> None:
        """Flush and give the journal up."""
        try:
            self.flush()
        finally:
            self.journal.close()
