"""A log of lines, the smallest that group commit can write."""

from sprocket.base.disk import Disk, File, PendingSync, try_room
from sprocket.base.errors import DiskRefused, StoreError, StoreFailed
from sprocket.runtime.group_commit import Job, Sync


class LineSync:
    """Makes durable what an `EchoLog` has written."""

    def __init__(self, log: "EchoLog") -> None:
        self._log = log
        self._target = log.written

    def start(self) -> PendingSync | None:
        """Have the system sync the file by itself, unless it is not to begin."""
        return None if self._log.refusals else self._log.file.start_sync()

    def run(self) -> None:
        """Sync the file, if it can be opened."""
        self._log.refuse()
        self._log.file.sync()

    def finish(self, error: StoreError | None) -> None:
        """Note how far that is, or that nobody knows."""
        if not isinstance(error, DiskRefused):
            self._log.failure = error
        if error is None:
            self._log.synced = self._target


class EchoLog:
    """Lines in one file.

    Attributes:
        refusals: How many syncs are to come for which the file cannot be opened.
        refuses_at_begin: That is found when they are begun, not when they are run.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk, self._folder = disk, folder
        disk.make_folder(folder)
        path = f"{folder}/log"
        self.file: File = disk.open(path, write=True, create=True)
        disk.sync_folder(folder)
        self.written = self.synced = disk.size(path)
        self.failure: StoreError | None = None
        self.refusals, self.refuses_at_begin = 0, False
        self._lines: list[bytes] = []

    def append(self, line: bytes) -> None:
        """Take a line up."""
        self._lines.append(line + b"\n")

    def write(self) -> int:
        """Write the lines, or lose them."""
        lines, self._lines = self._lines, []
        self.file.write(lines, self.written)
        self.written += sum(map(len, lines))
        return self.written

    def give_up_unwritten(self) -> None:
        """Forget them."""
        self._lines = []

    def begin_sync(self) -> Sync | None:
        """Sync what is written."""
        if self.failure is not None:
            raise StoreFailed("a sync failed before")
        if self.refuses_at_begin and not self.is_synced:
            self.refuse()
        return None if self.is_synced else LineSync(self)

    begin_due_sync = begin_sync

    def refuse(self) -> None:
        """Find that the file cannot be opened, if that is to happen."""
        if self.refusals:
            self.refusals -= 1
            raise DiskRefused("open /echo/log: Too many open files")

    @property
    def is_synced(self) -> bool:
        """Whether the disk has all that was written."""
        return self.synced == self.written

    @property
    def waiting_bytes(self) -> int:
        """How much it lacks."""
        return self.written + sum(map(len, self._lines)) - self.synced

    def try_room(self) -> None:
        """Find out whether the disk takes something."""
        try_room(self._disk, f"{self._folder}/room")

    def begin_fill(self) -> Job | None:
        """Do without zeros."""
        return None

    def begin_file(self) -> Job | None:
        """Do with one file."""
        return None

    def fill_blocks_write(self) -> bool:
        """Let nothing wait for either."""
        return False

    def close(self) -> None:
        """Give the file up."""
        self.file.close()
