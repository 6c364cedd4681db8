"""The disk stalls, and whoever does not need it is answered all the same."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.rocketmq.server.conftest import LOG, SEND_EXT, until

from sprocket.rocketmq.settings import StoreSettings
from sprocket.testing.disk import SimulatedDisk

HEARTBEAT = b'{"clientID":"c1","consumerDataSet":[],"producerDataSet":[{"groupName":"p"}]}'


class StallingDisk(SimulatedDisk):
    """A disk on which a sync of the log takes until the test lets it end.

    Attributes:
        threads: Who synced while it stalled.
        is_syncing: A sync has begun.
        go_on: Syncs wait for it, but on the event loop, where nobody could let them go on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []
        self.is_syncing, self.go_on = threading.Event(), threading.Event()

    def stall(self) -> None:
        """From now on."""
        self.before = self._note

    def _note(self, call: str, path: str) -> None:
        if call == "sync" and path == LOG:
            self.threads.append(threading.current_thread().name)
            self.is_syncing.set()
            assert threading.current_thread() is threading.main_thread() or self.go_on.wait(10)


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_heartbeats_and_the_nameserver_go_on_while_a_sync_stalls(
    on_node: Callable[..., None], flush: Any
) -> None:
    """Of a disk that was quick until then, so that the loop used to wait for it."""
    disk = StallingDisk()

    async def scenario(lab: Any) -> None:
        for _ in range(20):
            await lab.broker.call(310, SEND_EXT, b"quick")
        disk.stall()
        waiting = lab.broker.send(310, SEND_EXT, b"slow")
        await until(disk.is_syncing.is_set)
        other = await lab.connect()
        assert (await other.call(34, {}, HEARTBEAT)).code == 0
        assert (await other.call(11, PULL_EXT)).code == 0
        assert (await lab.names.call(105, {"topic": "T"})).code == 0
        assert waiting.done() is (flush == "async")
        disk.go_on.set()
        assert (await asyncio.wait_for(waiting, 5)).code == 0
        assert set(disk.threads) == {"sprocket-sync"}

    settings = StoreSettings(
        fill_ahead_bytes=0, flush=flush, flush_interval_ms=10, flush_bytes_min=0
    )
    on_node(scenario, disk=disk, store=settings)


PULL_EXT = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": 0,
    "queueOffset": 0,
    "maxMsgNums": 32,
    "sysFlag": 4,
    "commitOffset": 0,
    "suspendTimeoutMillis": 0,
    "subVersion": 0,
    "subscription": "*",
}
