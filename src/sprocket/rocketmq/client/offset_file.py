"""The offsets of a broadcasting consumer, which concern nobody else, in a file of this machine.

The file is JSON: `{"offsets": [{"topic": …, "brokerName": …, "queueId": …, "offset": …}, …]}`. A
Java client keeps its own beside it under the name `offsets.json`, in a dialect that is no JSON;
where ours is missing, that one is read, so a consumer that moved from Java goes on where it was.
"""

import asyncio
import os
from collections.abc import Mapping

from sprocket.base import log
from sprocket.base.disk import Disk, Lock
from sprocket.base.errors import ClientError, FileMissing, StoreError, StoreLocked, WireError
from sprocket.base.files import read_file, replace_file
from sprocket.base.units import QueueOffset
from sprocket.rocketmq.codec import body_parts, consumer_bodies, values
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.offload import DiskThread

FILE_NAME = "sprocket-offsets.json"
_LOCK_NAME = "sprocket.lock"
_FOLDERS_MAX = 1_000
_JAVA_NAMES = ("offsets.json", "offsets.json.bak")

_log = log.get_logger(__name__)


class FileLedger:
    """Offsets in a file; a damaged one is an error in the log, and the next best one is read.

    Consumers of one group on one machine have a folder each: the first that is free.

    Args:
        disk: Holds it.
        root: Below which the folders are.
        owner: Whose they are, `<ip>@DEFAULT` as Java's clients name themselves.
        group: The consumer group.

    Raises:
        ClientError: No folder can be made or locked.
    Durability: what `write` has returned from is on the disk.
    """

    def __init__(self, disk: Disk, root: str, owner: str, group: str) -> None:
        self._disk = disk
        self._folder, self._lock = _claim(disk, root, owner, group)
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
        data = _encode(loaded)
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
        for name in (FILE_NAME, FILE_NAME + ".bak", *_JAVA_NAMES):
            path = os.path.join(self._folder, name)
            decode = consumer_bodies.decode_offsets if name in _JAVA_NAMES else _decode
            try:
                found = decode(read_file(self._disk, path))
            except FileMissing:
                continue
            except (StoreError, WireError) as error:
                _log.error("file of offsets not read", path=path, error=str(error))
                continue
            return {queue: QueueOffset(offset) for queue, offset in found.items()}
        return {}


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


def _encode(offsets: Mapping[MessageQueue, int]) -> bytes:
    entries = [
        {**body_parts.message_queue_json(queue), "offset": offset}
        for queue, offset in sorted(offsets.items())
    ]
    return body_parts.encode({"offsets": entries})


def _decode(data: bytes) -> dict[MessageQueue, int]:
    table = body_parts.read_object(data, "offsets").get("offsets")
    entries = [values.mapping(one, "an offset") for one in values.sequence(table, "offsets")]
    return {body_parts.message_queue(one): values.member(one, "offset", 0) for one in entries}
