"""The offsets of a broadcasting consumer, in a file of this machine.

The file is JSON: `{"offsets": [{"topic": …, "brokerName": …, "queueId": …, "offset": …}, …]}`. A
Java client has its own file, `offsets.json`, which is not quite JSON. If our file is missing that
one is read, so that a consumer which moved from Java continues where it was. It is in the same
folder if Java named the folder after the same address of this machine. If not, as happens when the
NameServer is given by name or as 127.0.0.1, it is searched for under the machine's other addresses.

Source: RocketMQ `LocalFileOffsetStore`, `ClientConfig.buildMQClientId`.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping

from sprocket.base import log
from sprocket.base.disk import Disk, Lock, read_file, replace_file
from sprocket.base.errors import ClientError, FileMissing, StoreError, StoreLocked, WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import OffsetList
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.offload import DiskThread

FILE_NAME = "sprocket-offsets.json"
_LOCK_NAME = "sprocket.lock"
_FOLDERS_MAX = 1_000
_JAVA_NAMES = ("offsets.json", "offsets.json.bak")
_JAVA_INSTANCE = "DEFAULT"
"""How Java's broadcasting consumers call themselves behind the address, unless they are told."""

_log = log.get_logger(__name__)


def is_own_address(ip: str) -> bool:
    """Return whether an IP address is one of this machine's: only these can be bound to."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((ip, 0))
    except OSError:
        return False
    return True


class FileLedger:
    """Offsets in a file; a damaged one is an error in the log, and the next best one is read.

    Consumers of one group on one machine have a folder each below `root`: the first that is free.
    `owner` is `<ip>@DEFAULT`, as Java's clients name themselves; they put their `unit` behind it.

    Raises:
        ClientError: No folder can be made or locked.
    Durability: what `write` has returned from is on the disk.
    """

    def __init__(
        self,
        disk: Disk,
        root: str,
        owner: str,
        group: str,
        *,
        unit: str = "",
        is_own_address: Callable[[str], bool] = is_own_address,
    ) -> None:
        self._disk = disk
        self._root = root
        self._group = group
        self._java_owner = f"@{_JAVA_INSTANCE}@{unit}" if unit else f"@{_JAVA_INSTANCE}"
        self._is_own_address = is_own_address
        self._folder, self._lock = _claim(disk, root, owner, group)
        self._is_first = self._folder == os.path.join(root, owner, group)
        self._thread = DiskThread("sprocket-offsets")
        self._offsets: dict[MessageQueue, QueueOffset] | None = None

    async def close(self) -> None:
        """Let writes end, and leave the folder to others."""
        await self._thread.stop()
        self._lock.release()

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        """Look it up; the file is read once."""
        return self._loaded().get(queue)

    async def write(
        self, offsets: Mapping[MessageQueue, QueueOffset]
    ) -> Mapping[MessageQueue, str]:
        """Replace the file, with the offsets of other queues that were in it."""
        loaded = self._loaded()
        loaded.update(offsets)
        data = bodies.encode(OffsetList(dict(sorted(loaded.items()))))
        ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        def written(_: None, error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(None if error is None else str(error))

        self._thread.submit(lambda: self._replace(data), written)
        error = await ended
        return {} if error is None else dict.fromkeys(offsets, error)

    def _replace(self, data: bytes) -> None:
        path = os.path.join(self._folder, FILE_NAME)
        replace_file(self._disk, path, data, keep_backup=True)

    def _loaded(self) -> dict[MessageQueue, QueueOffset]:
        if self._offsets is None:
            self._offsets = self._load()
        return self._offsets

    def _load(self) -> dict[MessageQueue, QueueOffset]:
        """Return what the best file says that can be read."""
        for path in self._candidates():
            is_java = os.path.basename(path) in _JAVA_NAMES
            try:
                data = read_file(self._disk, path)
                if is_java:
                    found = bodies.decode_offsets(data)
                else:
                    found = bodies.decode_request(OffsetList, data).offsets
            except FileMissing:
                continue
            except (StoreError, WireError) as error:
                _log.error("file of offsets not read", path=path, error=str(error))
                continue
            if is_java:
                _log.info("going on from the offsets of a Java client", path=path)
            return {queue: QueueOffset(offset) for queue, offset in found.items()}
        return {}

    def _candidates(self) -> Iterator[str]:
        """Return the files to try, best first; one of Java is for one consumer only."""
        for name in (FILE_NAME, FILE_NAME + ".bak", *_JAVA_NAMES):
            yield os.path.join(self._folder, name)
        if self._is_first:
            for folder in self._java_folders():
                for name in _JAVA_NAMES:
                    yield os.path.join(folder, name)

    def _java_folders(self) -> list[str]:
        """Return where Java has offsets of this group under this machine's addresses, newest first.

        Those of other machines may lie beside them, in a home that several machines share.
        """
        found: list[tuple[int, str]] = []
        try:
            for name in self._disk.list(self._root):
                folder = os.path.join(self._root, name, self._group)
                ip = name.removesuffix(self._java_owner)
                if ip == name or folder == self._folder or not self._is_own_address(ip):
                    continue
                paths = [os.path.join(folder, one) for one in _JAVA_NAMES]
                times = [self._disk.modified_at_ms(p) for p in paths if self._disk.exists(p)]
                if times:
                    found.append((max(times), folder))
        except StoreError as error:
            _log.error("offsets of Java not looked for", path=self._root, error=str(error))
        return [folder for _, folder in sorted(found, reverse=True)]


def _claim(disk: Disk, root: str, owner: str, group: str) -> tuple[str, Lock]:
    """Return the first folder of a group that no other consumer has, and the lock on it."""
    for number in range(1, _FOLDERS_MAX + 1):
        name = owner if number == 1 else f"{owner}-{number}"
        folder = os.path.join(root, name, group)
        try:
            disk.make_folder(folder)
            return folder, disk.lock(os.path.join(folder, _LOCK_NAME))
        except StoreLocked:
            continue
        except StoreError as error:
            raise ClientError(
                f"offsets of group {group} cannot be kept: {error}; see broadcast_folder"
            ) from error
    raise ClientError(f"{_FOLDERS_MAX} consumers of group {group} broadcast on this machine")
