"""The locks of orderly consumers: which client alone may consume a queue.

A lock belongs to (group, queue) and one client. It lasts 60 s from its last renewal (RocketMQ's
`rocketmq.broker.rebalance.lockMaxLiveTime`); clients renew every 20 s. Locks live in memory:
after a restart clients take them again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sprocket.base.clock import Clock
from sprocket.rocketmq.model.route import MessageQueue

LOCK_SECONDS = 60.0
"""A lock that was not renewed for so long is free to anyone."""


@dataclass(slots=True)
class _Owner:
    client_id: str
    deadline: float


class QueueLocks:
    """The locks of all groups."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[MessageQueue, _Owner]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> list[MessageQueue]:
        """Take or renew each lock that is free, expired or the client's own.

        Returns:
            The queues that the client holds now; the others belong to somebody else.
        """
        now = self._clock.monotonic()
        owners = self._groups.setdefault(group, {})
        held = []
        for queue in queues:
            owner = owners.get(queue)
            if owner is not None and owner.client_id != client_id and now < owner.deadline:
                continue
            owners[queue] = _Owner(client_id, now + LOCK_SECONDS)
            held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up those of the locks that the client holds."""
        owners = self._groups.get(group, {})
        for queue in queues:
            owner = owners.get(queue)
            if owner is not None and owner.client_id == client_id:
                del owners[queue]
        if not owners:
            self._groups.pop(group, None)

    def is_held(self, group: str) -> bool:
        """Tell whether any member of the group holds a lock that has not expired."""
        now = self._clock.monotonic()
        return any(now < owner.deadline for owner in self._groups.get(group, {}).values())

    def expire(self) -> None:
        """Forget locks that have run out, so that groups that left take no memory."""
        now = self._clock.monotonic()
        for group, owners in list(self._groups.items()):
            for queue in [queue for queue, owner in owners.items() if owner.deadline <= now]:
                del owners[queue]
            if not owners:
                del self._groups[group]
