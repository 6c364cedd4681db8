"""Making the log durable, and preparing the disk ahead of its writer.

Both are divided into jobs. The owner of the store begins and finishes a job; in between it may run
on any thread. So the owner decides whether the disk is quick enough to wait for it.

Life of a group: `append` … `write` … `begin_sync` → `LogSync.run` → `LogSync.finish`: everything
written before `begin_sync` is durable. What is written while the job runs belongs to the next one.

Zeros ahead: the first write to a block that was never written makes a sync carry metadata of the
file system. So the log is filled with zeros in small synced steps ahead of the writer, and the next
file is made before the roll. The bytes of a step in flight must not be written by anybody else:
while `fill_blocks_write` is true the owner waits for the step to finish before it calls `write`.

Space ahead: where nobody waits for a sync, a step only allocates space on the disk, which makes
writes cheaper. It changes no byte. A writer waits for it only if it makes the file that is written
next, and then also for the jobs before it on its thread.

The next file: where the fill has not made it, as it is off or the writer was faster, a job of its
own does (`begin_file`): to make a file waits for the disk several times.

Invariants

1. `synced` ≤ `written`; it moves only by a sync that succeeded.
2. After a sync that failed, it never moves again: what reached the disk is unknown.
3. At most one sync and one fill are in flight.
"""

from collections.abc import Callable

from msgspec import Struct

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, PendingSync, create_segment, segment_name
from sprocket.base.errors import DiskFailed, DiskRefused, StoreError, StoreFailed
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.log.commit_log import CommitLog, Range

FILL_STEP_BYTES = 256 * KIB
"""Zeros a fill writes and syncs at once; larger steps make the log's own syncs wait behind them."""

ROOM_STEP_BYTES = 16 * MIB
"""Room that is taken at once; costs some 50 µs on ext4."""

_ZEROS = bytes(FILL_STEP_BYTES)


class LogSync(Struct, frozen=True, eq=False):
    """One sync of the log.

    Attributes:
        ranges: What is to become durable.
        target: What is durable once it has run: where they end in the log.
    """

    ranges: list[Range]
    target: PhysicalOffset
    flusher: "Flusher"

    def start(self) -> PendingSync | None:
        """Have the system do by itself what `run` does; None where it cannot, or not in one go."""
        return self.ranges[0][0].start_sync() if len(self.ranges) == 1 else None

    def run(self) -> None:
        """Sync the files.

        Raises:
            DiskFailed: What reached the disk is unknown.
        Threads: any.
        """
        for file, _position, _size in self.ranges:
            file.sync()

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended: `synced` moves to the target, or never moves again.

        A sync that could not begin, as a file that it needs could not be opened, is none.
        """
        self.flusher._finish_sync(self, error)


class FillJob(Struct, eq=False, kw_only=True):
    """One step ahead of the writer, over the bytes from `start` to `end` of the log.

    If there are none it only makes the file that begins at `start`.

    Attributes:
        disk: Where the log lies.
        folder: Its folder there.
        segment_bytes: The size of its files.
        zeros: The bytes become zeros, and durable; if not, the disk has room for them.
        create: It makes the file that begins at `start`.
        is_made: It has made that file, and that is on the disk.
        is_syncing: The file's sync has begun and not succeeded.
    """

    disk: Disk
    folder: str
    segment_bytes: int
    start: int
    end: int
    zeros: bool
    create: bool
    flusher: "Flusher"
    is_made: bool = False
    is_syncing: bool = False

    def run(self) -> None:
        """Write and sync the zeros, or take the room, in a new file if the log needs one.

        Raises:
            DiskFull: There is not enough; the log itself is not touched by that.
            DiskFailed: The file refused.
        Threads: any.
        """
        disk, position = self.disk, self.start % self.segment_bytes
        path = f"{self.folder}/{segment_name(self.start - position)}"
        if self.create:
            disk.make_folder(self.folder, durable=True)
            create_segment(disk, path, self.segment_bytes, durable=True)
            self.is_made = True
        if self.start == self.end:
            return
        file = disk.open(path, write=True)
        try:
            size = self.end - self.start
            if self.zeros:
                file.write([memoryview(_ZEROS)[:size]], position)
                self.is_syncing = True
                file.sync()
                self.is_syncing = False
            else:
                file.allocate(position, size)
        finally:
            file.close()

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended; after an error the fill rests for a while.

        A sync that failed counts as one of the log's own: it may have been about its records.
        """
        self.flusher._finish_fill(self, error)


class Flusher:
    """Knows how far the log is durable and how far it is filled.

    Args:
        disk: Where the log lies.
        log: The log; what it holds now is durable already.
        settings: How far to fill ahead of the writer, and when an async sync is due.
        clock: For the latter.
        failed: Told why nothing becomes durable any more: when a sync has failed, and each time
            that somebody asks for another one after that.
    """

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        settings: StoreSettings,
        clock: Clock,
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._disk = disk
        self._log = log
        self._synced = log.written
        self._sync: LogSync | None = None
        self.failure: str | None = None
        self._failed = failed
        self._fill: FillJob | None = None
        self._fill_ahead_bytes = settings.fill_ahead_bytes
        self._settings = settings
        self._clock = clock
        self._sync_began = clock.monotonic()
        self._filled = 0
        self._step_bytes_max = max(512, log.files.segment_bytes // 8)

    @property
    def synced(self) -> PhysicalOffset:
        """Up to where the log is durable."""
        return self._synced

    @property
    def is_busy(self) -> bool:
        """Whether a sync is in flight."""
        return self._sync is not None

    def begin_at(self, start: PhysicalOffset) -> None:
        """Note that the log, which has no files, begins at a place; see `CommitLog.begin_at`."""
        self._synced = start

    def begin_sync(self) -> LogSync | None:
        """Return the job that makes all that is written durable; None if there is nothing to do.

        None also while another one is in flight: what was written since then needs the next.

        Raises:
            StoreFailed: A sync failed before.
        """
        if self.failure is not None:
            self._failed(self.failure)
            raise StoreFailed(self.failure)
        target = self._log.written
        if self._sync is not None or target == self._synced:
            return None
        self._sync_began = self._clock.monotonic()
        self._sync = LogSync(self._log.ranges(self._synced, target), target, self)
        return self._sync

    def begin_due_sync(self) -> LogSync | None:
        """Do what `begin_sync` does, if enough was written or enough time passed since the last.

        For async flush, every `flush_interval_ms`. A file that is full is always enough.

        Raises:
            StoreFailed: A sync failed before.
        """
        settings, segment_bytes = self._settings, self._log.files.segment_bytes
        written, synced = self._log.written, self._synced
        passed_ms = 1000 * (self._clock.monotonic() - self._sync_began)
        if (
            written - synced >= settings.flush_bytes_min
            or written // segment_bytes != synced // segment_bytes
            or passed_ms >= settings.flush_thorough_ms
        ):
            return self.begin_sync()
        return None

    def _finish_sync(self, job: LogSync, error: StoreError | None) -> None:
        assert job is self._sync
        self._sync = None
        if isinstance(error, DiskRefused):
            return
        if error is not None:
            self.fail(error)
            return
        assert self._synced <= job.target <= self._log.written
        if self.failure is None:
            self._synced = job.target

    def fail(self, error: BaseException) -> None:
        """Note that a sync failed: nothing becomes durable from now on."""
        self.failure = f"a sync of the log failed, reopen the store to go on: {error}"
        self._failed(self.failure)

    def sync(self) -> PhysicalOffset:
        """Make all that is written durable, here and now; return the new `synced`.

        Raises:
            StoreFailed: The sync failed, now or before.
            DiskRefused: It could not begin.
        """
        assert self._sync is None, "a sync is in flight"
        job = self.begin_sync()
        if job is not None:
            try:
                job.run()
            except DiskRefused as error:
                job.finish(error)
                raise
            except DiskFailed as error:
                job.finish(error)
                raise StoreFailed(self.failure) from error
            job.finish(None)
        return self._synced

    def begin_fill(self, *, zeros: bool) -> FillJob | None:
        """Return the next step, of zeros or room; None if far enough ahead, off, or one is out."""
        if not self._fill_ahead_bytes or self._fill is not None or self.failure is not None:
            return None
        end = self._log.end
        step = min(FILL_STEP_BYTES if zeros else ROOM_STEP_BYTES, self._step_bytes_max)
        if not zeros:
            step = min(step, self._fill_ahead_bytes)
        if self._filled < end:  # the start, or the writer was faster: zeros begin well ahead of it
            self._filled = -(-end // step) * step + (step if zeros else 0)
        start = self._filled
        if start >= end + self._fill_ahead_bytes:
            return None
        segment_bytes = self._log.files.segment_bytes
        first_missing = self._log.files.end_of_files
        if not len(self._log.files):
            return None
        if start > first_missing:
            start = first_missing
        rest = segment_bytes - start % segment_bytes
        return self._step(
            start, start + min(step, rest), zeros=zeros, create=start == first_missing
        )

    def begin_file(self) -> FillJob | None:
        """Return what makes the next file, if what was appended needs it and no fill is out.

        It is a step of the fill without bytes, and finished as one.
        """
        if not self._lacks_file or self._fill is not None or self.failure is not None:
            return None
        files = self._log.files
        start: int = files.end_of_files
        if not len(files):
            start = self._log.written - self._log.written % files.segment_bytes
        return self._step(start, start, zeros=False, create=True)

    def _step(self, start: int, end: int, *, zeros: bool, create: bool) -> FillJob:
        files = self._log.files
        self._fill = FillJob(
            disk=self._disk,
            folder=files.folder,
            segment_bytes=files.segment_bytes,
            start=start,
            end=end,
            zeros=zeros,
            create=create,
            flusher=self,
        )
        return self._fill

    @property
    def _lacks_file(self) -> bool:
        """Whether something was appended behind the last file."""
        log = self._log
        if log.end <= log.files.end_of_files:
            return False
        return len(log.files) > 0 or log.end > log.written

    def _finish_fill(self, job: FillJob, error: StoreError | None) -> None:
        assert job is self._fill
        self._fill = None
        if error is not None:
            if job.is_syncing:
                self.fail(error)
            elif job.is_made:
                self._log.files.adopt(job.start)
            # The next attempt comes when the writer has passed what was to be filled now.
            self._filled = job.end + self._fill_ahead_bytes
            return
        if job.create:
            self._log.files.adopt(job.start)
        self._filled = job.end

    def fill_blocks_write(self) -> bool:
        """Say whether a write now would touch bytes, or a file, that a fill in flight makes."""
        fill = self._fill
        if fill is not None and self._lacks_file:
            return True  # another job is to make it; one at a time
        if fill is None or not (fill.zeros or fill.create):
            return False
        return self._log.end > fill.start
