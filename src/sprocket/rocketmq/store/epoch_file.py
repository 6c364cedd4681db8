"""The epochs of a log, kept beside it, and the highest epoch that this member has promised.

`epochFileCheckpoint` is RocketMQ's. Its `.bak` is the same once more, and not what it was before,
as with other files: a list that lacks the newest epoch would give its bytes to the one before, and
two logs that differ would count as equal. The promise has a file of its own, since a log that is
cut loses epochs, and must not follow one of them any more that it knows to be over.

Invariants

1. What is returned from, or asked of, this object is on the disk, in both copies.
2. The epochs begin no later than the log does, and none begins after its end.
3. `promised` never falls.
"""

import os
from collections.abc import Callable
from typing import TypeVar

from sprocket.base import log
from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, remove_if_there, replace_file
from sprocket.base.errors import FileMissing, ForeignStore, WireError
from sprocket.base.tables import BACKUP
from sprocket.rocketmq.codec import epoch_file
from sprocket.rocketmq.model.epochs import NO_EPOCH, Epoch, Epochs
from sprocket.rocketmq.store.layout import StoreLayout

_log = log.get_logger(__name__)

T = TypeVar("T")


class EpochFile:
    """See the head of the module.

    Args:
        disk: Where the store lies.
        layout: Its paths.

    Attributes:
        epochs: Those of the log.
        promised: The highest that this member has followed or begun; `NO_EPOCH` for none.

    Raises:
        ForeignStore: A file is damaged, and so is its copy.

    Threads: one at a time.
    """

    def __init__(self, disk: Disk, layout: StoreLayout) -> None:
        self._disk = disk
        self._path, self._promise_path = layout.epochs, layout.promised_epoch
        self.epochs = _load(disk, self._path, epoch_file.decode) or Epochs()
        promised = _load(disk, self._promise_path, _decode_promise)
        self.promised = max(self.epochs.last, NO_EPOCH if promised is None else promised)

    def agree_with(self, first: int, end: int) -> None:
        """Compare the epochs with the log, once this is recovered.

        A log that lost its end, as after a loss of power, has lost the epochs that began there; and
        those are forgotten that ended before it begins, as its old files are deleted. Each change
        of role opens the store anew, so that there are never many of them.

        Args:
            first: Where the log begins.
            end: Where it ends; `first` if it is empty.

        Raises:
            ForeignStore: They do not say who wrote some of it, and nobody can guess that.
        """
        known = self.epochs.entries
        if end > first and (not known or known[0].start > first):
            raise ForeignStore(
                f"{self._path}: the log begins at {first} and ends at {end}, the epochs that say "
                f"who wrote it are {self.epochs}: without them it is not known which of it others "
                "have too"
            )
        kept = Epochs(tuple(one for one in known if one.start <= end)).from_first(first)
        if kept != self.epochs:
            if kept.last < self.epochs.last:
                _log.warning(
                    "epochs have begun where the log is lost",
                    end=end,
                    epochs=str(self.epochs),
                    left=str(kept),
                )
            self._keep_promise()
            self._replace(kept)

    def begin(self, epoch: Epoch) -> None:
        """Note the own epoch of a master, before any byte of it counts.

        Raises:
            ValueError: It is older than one that was promised, or begins before the last one.
            DiskFull, DiskFailed: It is not known whether it was noted; to be opened again.
        """
        if epoch.number < self.promised:
            raise ValueError(f"epoch {epoch} is older than {self.promised}, which was promised")
        self.follow(epoch)

    def follow(self, epoch: Epoch) -> None:
        """Note an epoch of a master's log, which may be older than the promise to it.

        Raises:
            ValueError: It is not newer than the last one, or begins before that.
            DiskFull, DiskFailed: As `begin`.
        """
        self._replace(self.epochs.begun(epoch))
        self.promised = max(self.promised, epoch.number)

    def promise(self, number: int) -> None:
        """Follow no epoch below a number from now on.

        Raises:
            DiskFull, DiskFailed: It is not known whether that was noted.
        """
        if number > self.promised:
            _replace_both(self._disk, self._promise_path, _encode_promise(number))
            self.promised = number

    def cut(self, end: int) -> None:
        """Forget the epochs that have no byte before `end`, where the log ends now.

        What was promised stays so.
        """
        self._keep_promise()
        self._replace(self.epochs.cut(end))

    def _keep_promise(self) -> None:
        if self.promised > NO_EPOCH:
            _replace_both(self._disk, self._promise_path, _encode_promise(self.promised))

    def _replace(self, epochs: Epochs) -> None:
        if epochs.entries:
            _replace_both(self._disk, self._path, epoch_file.encode(epochs))
        else:  # RocketMQ would go on to the backup of a file without entries
            remove_if_there(self._disk, self._path + BACKUP)
            remove_if_there(self._disk, self._path)
            self._disk.sync_folder(os.path.dirname(self._path))
        self.epochs = epochs


def _load(disk: Disk, path: str, decode: Callable[[bytes], T]) -> T | None:
    """Return what a file or its copy says, None if there is neither; both are the same then."""
    contents = [_read(disk, one) for one in (path, path + BACKUP)]
    damage = ""
    for content in contents:
        if not content:
            continue
        try:
            value = decode(content)
        except WireError as error:
            damage = str(error)
            _log.error("a file is damaged", path=path, why=damage)
            continue
        if contents != [content, content]:
            _replace_both(disk, path, content)
        return value
    if damage:
        raise ForeignStore(f"{path} and its copy are damaged: {damage}")
    return None


def _read(disk: Disk, path: str) -> bytes:
    try:
        return read_file(disk, path)
    except FileMissing:
        return b""


def _replace_both(disk: Disk, path: str, content: bytes) -> None:
    """Give a file and its copy a content: after a crash the file has the old one or the new one."""
    replace_file(disk, path, content)
    replace_file(disk, path + BACKUP, content)


def _encode_promise(number: int) -> bytes:
    text = b"%d" % number
    return b"%s %d\n" % (text, crc32(text))


def _decode_promise(content: bytes) -> int:
    text, _, crc = content.partition(b" ")
    if not text.isdigit() or crc != b"%d\n" % crc32(text):
        raise WireError(f"expected an epoch with its checksum, found {content[:30]!r}")
    return int(text)
