"""The whole folder is backed up, open or closed, and a backup is there whole or not at all."""

import asyncio
from contextlib import suppress

import aio_pika
import pytest
from tests.unit.node.test_health import given, publish, send

from sprocket.base.errors import DiskFull, ForeignStore, StoreLocked
from sprocket.node.backup import Backup, back_up
from sprocket.node.host import Host
from sprocket.node.products import PRODUCTS
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.reading import vhost_folders
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.runtime import driver
from sprocket.testing.disk import SimulatedDisk


async def with_messages(disk: SimulatedDisk) -> Host:
    """Start everything on a disk, with a message of each product."""
    host = await Host.start(PRODUCTS, given(), "/s", disk=disk)
    await publish(host)
    assert await send(host) == 0
    return host


async def backed_up(disk: SimulatedDisk) -> Backup:
    """Make a backup; on this disk nobody waits for a lock that upkeep has at this moment."""
    while True:
        try:
            return await asyncio.to_thread(back_up, disk, "/s", "/n")
        except StoreLocked:
            await asyncio.sleep(0)


async def messages_in(disk: SimulatedDisk, folder: str) -> int:
    """Return how many messages AMQP's queue has when everything is started on a folder."""
    host = await Host.start(PRODUCTS, given(), folder, disk=disk)
    try:
        url = f"amqp://guest:guest@{host.running['amqp'].ready['amqp']}/"
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("q", passive=True)
            found = int(queue.declaration_result.message_count or 0)
        assert host.running["broker"].ready["broker"]
    finally:
        await host.stop()
    return found


@pytest.mark.parametrize("is_open", [True, False])
def test_a_backup_can_be_started_on(is_open: bool) -> None:
    """It is a folder as after a clean stop; the first one is as it was."""

    async def main() -> None:
        disk = SimulatedDisk()
        host = await with_messages(disk)
        if not is_open:
            await host.stop()
        done = await backed_up(disk)
        assert done.was_open == (["store", "rabbitmq"] if is_open else [])
        assert [one.messages for one in done.vhosts.values()] == [1] * is_open
        assert (done.store is not None) == is_open
        if done.store is not None:
            assert done.store.damage == []
        if is_open:
            await host.stop()
        assert not disk.exists(StoreLayout("/n").abort)
        (folder,) = vhost_folders(disk, "/n")
        assert disk.exists(VhostLayout(folder).clean)
        for folder in ("/n", "/s"):
            assert await messages_in(disk, folder) == 1

    driver.run(main())


def test_a_backup_that_fails_leaves_nothing() -> None:
    """The disk is full at some call; the name is free for another try."""

    async def main() -> None:
        disk = SimulatedDisk()
        host = await with_messages(disk)
        await host.stop()
        for number in (1, 5, 20):
            disk.fail("write", number, 28)
            with pytest.raises(DiskFull):
                back_up(disk, "/s", "/n")
            assert not disk.exists("/n")
            assert not disk.exists("/n.part")
            disk.heal()
        back_up(disk, "/s", "/n")
        assert await messages_in(disk, "/n") == 1

    driver.run(main())


def test_what_cannot_be_a_backup_is_refused() -> None:
    """Of nothing, over something, inside the folder itself, and two at once."""
    disk = SimulatedDisk()
    disk.make_folder("/none")
    disk.make_folder("/s/commitlog")
    disk.make_folder("/there")
    disk.make_folder("/half.part")
    left = "is left of a backup that did not end; remove it, or choose another name"
    for source, target, why in (
        ("/none", "/n", "neither a folder commitlog nor rabbitmq"),
        ("/s", "/there", "/there is there already"),
        ("/s", "/half", f"^/half.part {left}$"),
        ("/s", "/half.part", f"^/half.part {left}$"),
        ("/s", "/s/n", "outside of /s"),
    ):
        with pytest.raises(ForeignStore, match=why):
            back_up(disk, source, target)
    assert disk.list("/half.part") == []


def test_nobody_starts_on_what_is_copied_closed() -> None:
    """A broker that did would be given back files under its hands."""
    disk = SimulatedDisk()
    disk.make_folder("/s/commitlog")
    disk.make_folder("/s/rabbitmq")
    locked = []

    def before(call: str, path: str) -> None:
        if call == "list" and path == "/s":
            for name in ("lock", "rabbitmq/sprocket.lock"):
                with suppress(StoreLocked):
                    disk.lock(f"/s/{name}").release()
                    locked.append(name)

    disk.before = before
    back_up(disk, "/s", "/n")
    assert locked == []
    assert not {*disk.list("/n")} & {"lock"}
