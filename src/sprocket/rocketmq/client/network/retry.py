"""The pauses between tries."""

import asyncio

from sprocket.rocketmq.client.settings import ClientSettings


class Backoff:
    """The pauses of one who tries to reach somebody: each twice the one before, up to a limit."""

    def __init__(self, settings: ClientSettings) -> None:
        self.next_ms = settings.reconnect_ms
        self._ms_max = settings.reconnect_ms_max

    async def pause(self) -> None:
        """Wait for `next_ms`."""
        pause_ms, self.next_ms = self.next_ms, min(2 * self.next_ms, self._ms_max)
        await asyncio.sleep(pause_ms / 1000)
