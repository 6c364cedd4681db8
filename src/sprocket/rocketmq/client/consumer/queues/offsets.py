"""How far a group is in each queue: noted here, and written down from time to time."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from sprocket.base import log
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.network import BrokerCalls
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue

_log = log.get_logger(__name__)


class Ledger(Protocol):
    """Where offsets are written down: at the brokers, or in a file of this machine."""

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        """Return the offset of a queue, or None if none was ever written.

        Raises:
            ClientError: It could not be asked for.
        """

    async def write(
        self, offsets: Mapping[MessageQueue, QueueOffset]
    ) -> Mapping[MessageQueue, str]:
        """Write offsets down; return why, for those that could not be."""


class BrokerLedger:
    """Offsets that the whole group shares, each at the broker that owns the queue."""

    def __init__(self, group: str, brokers: BrokerCalls) -> None:
        self._group = group
        self._brokers = brokers

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        """Ask the broker."""
        return await self._brokers.committed_offset(self._group, queue)

    async def write(
        self, offsets: Mapping[MessageQueue, QueueOffset]
    ) -> Mapping[MessageQueue, str]:
        """Tell the brokers, all at once."""
        failures: dict[MessageQueue, str] = {}

        async def tell(queue: MessageQueue, offset: QueueOffset) -> None:
            try:
                await self._brokers.commit_offset(self._group, queue, offset)
            except ClientError as error:
                failures[queue] = str(error)

        async with asyncio.TaskGroup() as calls:
            for queue, offset in offsets.items():
                calls.create_task(tell(queue, offset))
        return failures


class Offsets:
    """The offsets of one group, for the queues that this consumer holds.

    Durability: what was noted and not yet stored is lost with the process; the messages after the
    stored offset are then delivered once more.
    """

    def __init__(self, group: str, ledger: Ledger) -> None:
        self._group = group
        self._ledger = ledger
        self._noted: dict[MessageQueue, QueueOffset] = {}
        self._stored: dict[MessageQueue, QueueOffset] = {}
        self._moved: set[MessageQueue] = set()
        """Queues that have moved since the last write of their offsets began."""
        self._is_failing = False

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        """Return what was stored for a queue, or None if nothing ever was.

        Raises:
            ClientError: It could not be asked for.
        """
        return await self._ledger.read(queue)

    def note(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Remember that everything below `offset` is done; a lower one than before is ignored."""
        if offset > self._noted.get(queue, -1):
            self._noted[queue] = offset

    def overwrite(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Remember an offset that may be lower than the one before, as the queue has moved."""
        self._noted[queue] = offset

    def moved(self, queue: MessageQueue) -> None:
        """Note that somebody else may have written an offset down: the next `store` writes ours.

        Also if it is what we stored last, which has been read once more since.
        """
        self._stored.pop(queue, None)
        self._moved.add(queue)

    def get(self, queue: MessageQueue) -> QueueOffset | None:
        """Return what was noted."""
        return self._noted.get(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Drop a queue that somebody else reads now."""
        self._noted.pop(queue, None)
        self._stored.pop(queue, None)
        self._moved.discard(queue)

    async def store(self, *queues: MessageQueue) -> bool:
        """Store the offsets of these queues, or of all, that have changed; say if that went well.

        What fails is logged and tried at the next call.
        """
        changed = {
            queue: self._noted[queue]
            for queue in queues or self._noted
            if queue in self._noted and self._noted[queue] != self._stored.get(queue)
        }
        if not changed:
            return True
        self._moved.difference_update(changed)
        failures = await self._ledger.write(changed)
        for queue, offset in changed.items():
            if queue in self._noted and queue not in failures and queue not in self._moved:
                self._stored[queue] = offset
        if failures and not self._is_failing:
            queue, error = next(iter(failures.items()))
            _log.warning(
                "offsets not stored; trying on",
                group=self._group,
                queues=len(failures),
                queue=str(queue),
                offset=changed[queue],
                error=error,
            )
        self._is_failing = bool(failures)
        return not failures
