"""What waits in the delayed messages of a folder that nobody has open: read, and copied."""

import heapq
from collections.abc import Iterable, Iterator
from operator import attrgetter

from msgspec import structs

from sprocket.base.disk import Disk, replace_file
from sprocket.rabbitmq.codec import delayed
from sprocket.rabbitmq.codec.delayed import DelayedEntry, DelayedKey, DelayedManifest, RunFile
from sprocket.rabbitmq.store.delayed.opening import BLOCK_BYTES, replayed
from sprocket.rabbitmq.store.delayed.runs import ObsoleteEntries, RunWriter, entries_of_run
from sprocket.rabbitmq.store.layout import DelayedLayout


class WaitingMessages:
    """The messages of one store.

    Args:
        disk: Where it lies.
        layout: Its paths.
        records: What the write-ahead log has of it.

    Attributes:
        manifest: What holds, the log included.
        faults: What cannot be read, a sentence each; more may come while messages are given.
    """

    def __init__(self, disk: Disk, layout: DelayedLayout, records: Iterable[bytes]) -> None:
        self._disk = disk
        self._layout = layout
        replay, self.faults = replayed(disk, layout, records)
        self.manifest = replay.manifest
        self._logged = replay.left

    def __iter__(self) -> Iterator[DelayedEntry]:
        """Give what waits, in the order in which it is due; a block of each run is in memory."""
        manifest = self.manifest
        obsolete = ObsoleteEntries(
            DelayedKey(manifest.done_us, manifest.done_number), manifest.dropped
        )
        runs = [
            entries_of_run(self._disk, self._layout.run(one.number), one, self.faults)
            for one in manifest.runs
        ]
        last = None
        for one in heapq.merge(self._logged, *runs, key=attrgetter("key")):
            if one.key != last and not obsolete.has(one):  # log and run may both have one
                yield one
            last = one.key

    def due_at_us(self, one: DelayedEntry) -> int:
        """Return when a message is due by the wall clock, microseconds since 1970."""
        return one.due_us - self.manifest.ahead_us

    def copy(self, target: DelayedLayout) -> int:
        """Write what waits into a new folder, durably; return how many messages.

        Raises:
            DiskFull, DiskFailed: The new folder is not to be used.
        """
        disk, counts = self._disk, dict[str, int]()
        manifest = structs.replace(self.manifest, counts={}, dropped={}, runs=())
        disk.make_folder(target.root)
        self._keep(target, manifest)  # a run without any is damage
        writer = RunWriter(disk, target.run(0), BLOCK_BYTES)
        try:
            for one in self:
                writer.add(one)
                counts[one.exchange] = counts.get(one.exchange, 0) + 1
            writer.finish()
        finally:
            writer.close()
        disk.sync_folder(target.root)
        runs = (RunFile(0, writer.file_bytes, 0),) if counts else ()
        self._keep(target, structs.replace(manifest, counts=counts, runs=runs))
        return sum(counts.values())

    def _keep(self, target: DelayedLayout, manifest: DelayedManifest) -> None:
        replace_file(self._disk, target.manifest, delayed.encode_manifest(manifest))
