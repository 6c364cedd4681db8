"""What is worth another try, and the pauses between tries."""

import asyncio

from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.codec.codes import ResponseCode

BUSY = frozenset(
    (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY)
)
"""Refusals of a send that pass by themselves; only its deadline ends the tries."""
MAY_PASS = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    )
)
"""The other codes for which RocketMQ's producer tries again, `tries_when_refused` times in all."""
REFUSED_S = 0.1
"""Before a refused message goes out again."""
SLOWED_S = 0.02
"""Before the next pull, after a broker's FLOW_CONTROL, as RocketMQ's clients make it."""


class Backoff:
    """The pauses of one who tries to reach somebody: each twice the one before, up to a limit.

    Args:
        settings: The first pause, and the longest.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.next_ms = settings.reconnect_ms
        self._ms_max = settings.reconnect_ms_max

    async def pause(self) -> None:
        """Wait for `next_ms`."""
        pause_ms, self.next_ms = self.next_ms, min(2 * self.next_ms, self._ms_max)
        await asyncio.sleep(pause_ms / 1000)
