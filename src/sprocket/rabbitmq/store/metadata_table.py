"""What a node knows of users, virtual hosts and what is in them, on the disk.

A snapshot, and a journal of what came since (`base.tables`). Only what survives a restart is here:
the owner leaves out transient and exclusive things.

Invariants

1. One change is one line: after a crash all of it is there, or nothing.
2. What is in a virtual host goes with it.
3. A snapshot is what there was at the line up to which it covers, whatever is changed while it is
   written: it is made of a list of the values, and those do not change. The list costs the loop
   about 10 ns an entity.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from sprocket.base import log
from sprocket.base.disk import Disk, Steps, steps
from sprocket.base.tables import BackedFile, Journal
from sprocket.rabbitmq.codec import metadata
from sprocket.rabbitmq.codec.entities import Entity
from sprocket.rabbitmq.codec.metadata import Change, Key
from sprocket.rabbitmq.model.policy import GlobalParameter
from sprocket.rabbitmq.model.vhost import RemovedVhost, Vhost

E = TypeVar("E", bound=Entity)

_log = log.get_logger(__name__)

SNAPSHOT: Final = "metadata.json"
JOURNAL: Final = "metadata.journal"


class MetadataTable:
    """See the head of the module.

    Args:
        disk: Where it lies.
        folder: The node's; it is there.

    Raises:
        ForeignStore: The snapshot is damaged, and so is its backup.

    Attributes:
        journal: What changed since the last snapshot was begun.

    Durability: what `write` has done is with the operating system when it returns, and on the disk
        after the next sync of the journal, or snapshot.
    Threads: event loop only, except for the calls of steps.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self._of_node: dict[Key, Entity] = {}
        self._of_vhosts: dict[str, dict[Key, Entity]] = {}
        self._file = BackedFile(disk, f"{folder}/{SNAPSHOT}")
        self.journal: Journal[tuple[int, Change]] = Journal(
            disk, f"{folder}/{JOURNAL}", metadata.decode_line
        )
        covered, entities = self._file.load(metadata.decode_snapshot, lambda: (0, ()))
        self._apply((), entities)
        for _, change in self.journal.replay(covered):
            self._apply(change.gone, change.put)
        self._put_missing_vhosts()

    def _put_missing_vhosts(self) -> None:
        """Make virtual hosts anew whose line is damaged: what is in them is there."""
        for name in self._of_vhosts:
            if (Vhost, name) in self._of_node or (RemovedVhost, name) in self._of_node:
                continue
            _log.error("a virtual host was lost from the journal and is made anew", vhost=name)
            self.write(put=[Vhost(name=name)])

    def of_node(self, kind: type[E]) -> list[E]:
        """Return what there is of a kind that is in no virtual host."""
        return [one for one in self._of_node.values() if isinstance(one, kind)]

    def global_parameter(self, name: str) -> GlobalParameter | None:
        """Return a setting of the node; None if it is not set. O(1)."""
        found = self._of_node.get((GlobalParameter, name))
        return found if isinstance(found, GlobalParameter) else None

    def of_vhost(self, vhost: str, kind: type[E]) -> list[E]:
        """Return what a virtual host has of a kind; costs what it has of all kinds."""
        return [one for one in self._of_vhosts[vhost].values() if isinstance(one, kind)]

    def write(self, *, put: Sequence[Entity] = (), gone: Sequence[Entity] = ()) -> None:
        """Take entities away and add or replace others, all of them or none.

        Args:
            put: Those in virtual hosts are in ones that are there, or are put before them.
            gone: What is in a virtual host need not be named if that goes.

        Raises:
            DiskFull, DiskFailed: The table is as before.
        """
        if not put and not gone:
            return
        self.journal.append(*metadata.members(gone, put))
        self.journal.is_behind = True
        self._apply(gone, put)

    def flush_steps(self) -> Steps:
        """Write a new snapshot, if anything has changed since the last one.

        Raises:
            DiskFull, DiskFailed: The old one and the journal are there.
        """

        def replace(covered: int) -> Steps:
            everything = list(self._of_node.values())
            for contents in self._of_vhosts.values():
                everything += contents.values()
            yield from self._file.replace_steps(metadata.encode_snapshot(covered, everything))

        return self.journal.snapshot_steps(replace)

    def close(self) -> None:
        """Write what changed, and give the journal up."""
        try:
            steps.run(self.flush_steps())
        finally:
            self.journal.close()

    def _apply(self, gone: Iterable[Entity], put: Iterable[Entity]) -> None:
        for one in gone:
            vhost = metadata.vhost_of(one)  # which may be gone already
            contents = self._of_node if vhost is None else self._of_vhosts.get(vhost, {})
            contents.pop(metadata.key(one), None)
            if isinstance(one, Vhost):
                self._of_vhosts.pop(one.name, None)
        for one in put:
            if isinstance(one, Vhost):
                self._of_vhosts.setdefault(one.name, {})
            vhost = metadata.vhost_of(one)
            contents = self._of_node if vhost is None else self._of_vhosts.setdefault(vhost, {})
            contents[metadata.key(one)] = one
