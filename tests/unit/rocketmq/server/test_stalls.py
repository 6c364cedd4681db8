"""The disk stalls, and whoever does not need it is answered all the same."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.rocketmq.server.conftest import LOG, SEND_EXT, until
from tests.waits import LONG_SECONDS

from sprocket.base.units import KIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.testing.disk import SimulatedDisk

SECOND_LOG = "/store/commitlog/" + f"{256 * KIB:020d}"
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
        self.before, self.is_slow = self._note, True

    def _note(self, call: str, path: str) -> None:
        if call == "sync" and path == LOG:
            self.threads.append(threading.current_thread().name)
            self.is_syncing.set()
            assert threading.current_thread() is threading.main_thread() or self.go_on.wait(
                LONG_SECONDS
            )


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
        assert (await asyncio.wait_for(waiting, LONG_SECONDS)).code == 0
        assert set(disk.threads) == {"sprocket-sync"}

    settings = StoreSettings(
        fill_ahead_bytes=0, flush=flush, flush_interval_ms=10, flush_bytes_min=0
    )
    on_node(scenario, disk=disk, store=settings)


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("fill_ahead_bytes", [0, 64 * KIB])
@pytest.mark.parametrize("call", ["create", "sync", "sync_folder"])
def test_heartbeats_go_on_while_the_disk_stalls_over_a_new_log_file(
    on_node: Callable[..., None], flush: Any, fill_ahead_bytes: int, call: str
) -> None:
    """Whichever call it is that stalls; who sends waits, and is answered when the file is there."""
    disk = FileStallingDisk(call)

    async def scenario(lab: Any) -> None:
        assert (await lab.broker.call(310, SEND_EXT, b"first")).code == 0
        waiting = [lab.broker.send(310, SEND_EXT, bytes(30 * KIB)) for _ in range(12)]
        await until(disk.is_stalling.is_set)
        other = await lab.connect()
        assert (await other.call(34, {}, HEARTBEAT)).code == 0
        assert (await other.call(11, PULL_EXT)).code == 0
        assert not all(one.done() for one in waiting)
        disk.go_on.set()
        for one in waiting:
            assert (await asyncio.wait_for(one, LONG_SECONDS)).code == 0
        assert disk.threads == {"sprocket-disk"}

    on_node(
        scenario, disk=disk, store=StoreSettings(flush=flush, fill_ahead_bytes=fill_ahead_bytes)
    )


class FileStallingDisk(SimulatedDisk):
    """A disk on which a call for the second log file takes until the test lets it end.

    Attributes:
        threads: Who made such a call.
        is_stalling: The call has begun.
        go_on: It waits for it, but on the event loop, where nobody could let it go on.
    """

    def __init__(self, call: str) -> None:
        super().__init__()
        self.threads: set[str] = set()
        self.is_stalling, self.go_on = threading.Event(), threading.Event()
        self._call = call
        self.before = self._note

    def _note(self, call: str, path: str) -> None:
        if call == "sync_folder":
            is_about = path == SECOND_LOG.rpartition("/")[0] and self.exists(SECOND_LOG)
        else:
            is_about = path == SECOND_LOG and not self.go_on.is_set()
        if call == self._call and is_about:
            self.threads.add(threading.current_thread().name)
            self.is_stalling.set()
            assert threading.current_thread() is threading.main_thread() or self.go_on.wait(
                LONG_SECONDS
            )


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
