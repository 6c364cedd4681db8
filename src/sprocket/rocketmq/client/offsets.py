"""How far a group is done with each queue: kept here, stored at the broker now and then."""

from sprocket.base import log
from sprocket.base.errors import ClientError
from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client.brokers import Brokers
from sprocket.rocketmq.model.route import MessageQueue

_log = log.get_logger(__name__)


class Offsets:
    """The offsets of one group, for the queues that this consumer holds.

    Args:
        group: The consumer group.
        brokers: Store them.

    Durability: what was noted and not yet stored is lost with the process; the messages after the
    stored offset are then delivered once more.
    """

    def __init__(self, group: str, brokers: Brokers) -> None:
        self._group = group
        self._brokers = brokers
        self._noted: dict[MessageQueue, QueueOffset] = {}
        self._stored: dict[MessageQueue, QueueOffset] = {}
        self._is_failing = False

    def note(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Remember that everything below `offset` is done; a lower one than before is ignored."""
        if offset > self._noted.get(queue, -1):
            self._noted[queue] = offset

    def overwrite(self, queue: MessageQueue, offset: QueueOffset) -> None:
        """Remember an offset that may be lower than the one before, as the queue has moved."""
        self._noted[queue] = offset

    def get(self, queue: MessageQueue) -> QueueOffset | None:
        """Return what was noted."""
        return self._noted.get(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Drop a queue that somebody else reads now."""
        self._noted.pop(queue, None)
        self._stored.pop(queue, None)

    async def store(self, queue: MessageQueue) -> bool:
        """Store the offset of one queue, if it has changed; say whether that went well."""
        offset = self._noted.get(queue)
        if offset is None or offset == self._stored.get(queue):
            return True
        try:
            await self._brokers.commit_offset(self._group, queue, offset)
        except ClientError as error:
            if not self._is_failing:
                self._is_failing = True
                _log.warning(
                    "offset not stored; trying on",
                    group=self._group,
                    queue=str(queue),
                    offset=offset,
                    error=str(error),
                )
            return False
        self._is_failing = False
        if queue in self._noted:
            self._stored[queue] = offset
        return True

    async def store_all(self) -> None:
        """Store every offset that has changed; failures are logged and tried at the next call."""
        for queue in list(self._noted):
            await self.store(queue)
