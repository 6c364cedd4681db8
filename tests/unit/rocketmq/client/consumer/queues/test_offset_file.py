"""Offsets in a file of this machine: whole after any crash, apart for each consumer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sprocket.base.disk import Disk, replace_file
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.consumer.queues import FileLedger
from sprocket.rocketmq.client.consumer.queues.offset_file import FILE_NAME
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.testing.disk import SimulatedDisk

ONE = MessageQueue("t", "b", 0)
TWO = MessageQueue("t", "b", 1)
FOLDER = "/offsets/10.0.0.9@DEFAULT/g"


def ledger(disk: Disk) -> FileLedger:
    """Return the ledger of group `g`."""
    return FileLedger(disk, "/offsets", "10.0.0.9@DEFAULT", "g", is_own_address=lambda _: True)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test; the thread that writes is a real one."""
    asyncio.run(main())


def test_what_was_written_is_read_in_the_next_life() -> None:
    """Also what an earlier life wrote of other queues, and after the power was cut."""

    async def main() -> None:
        disk = SimulatedDisk()
        for offsets in ({ONE: QueueOffset(5)}, {TWO: QueueOffset(7)}):
            one = ledger(disk)
            assert await one.write(offsets) == {}
            await one.close()
        last = ledger(disk.crash(lambda _: 0))
        assert [await last.read(queue) for queue in (ONE, TWO)] == [5, 7]
        await last.close()

    run(main)


def test_nothing_written_is_nothing_read() -> None:
    """A new consumer has no offsets."""

    async def main() -> None:
        one = ledger(SimulatedDisk())
        assert await one.read(ONE) is None
        await one.close()

    run(main)


def test_two_consumers_have_a_file_each() -> None:
    """The first free one; a third takes over what the first has left."""

    async def main() -> None:
        disk = SimulatedDisk()
        first, second = ledger(disk), ledger(disk)
        await first.write({ONE: QueueOffset(1)})
        await second.write({ONE: QueueOffset(2)})
        await first.close()
        third = ledger(disk)
        assert (await third.read(ONE), await second.read(ONE)) == (1, 2)
        await second.close()
        await third.close()

    run(main)


@pytest.mark.parametrize("name", ["offsets.json", "offsets.json.bak"])
def test_a_file_of_java_is_taken_over(name: str) -> None:
    """Unless there is one of ours."""

    async def main() -> None:
        disk = SimulatedDisk()
        disk.make_folder(FOLDER)
        key = b'{"brokerName":"b","queueId":0,"topic":"t"}'
        replace_file(disk, f"{FOLDER}/{name}", b'{"offsetTable":{' + key + b":42}}")
        one = ledger(disk)
        assert await one.read(ONE) == 42
        await one.write({ONE: QueueOffset(43)})
        await one.close()
        again = ledger(disk)
        assert await again.read(ONE) == 43
        await again.close()

    run(main)


JAVA_FILE = b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:%d}}'


@pytest.mark.parametrize("owner", ["127.0.0.1@DEFAULT", "10.0.0.9@DEFAULT"])
def test_javas_file_is_found_under_any_address_of_this_machine(owner: str) -> None:
    """Java names its folder after another address when the NameServer is given by name."""

    async def main() -> None:
        disk = SimulatedDisk()
        for ip, offset in (("192.168.7.1", 42), ("192.168.7.2", 99)):
            disk.make_folder(f"/offsets/{ip}@DEFAULT/g")
            replace_file(disk, f"/offsets/{ip}@DEFAULT/g/offsets.json", JAVA_FILE % offset)
        disk.make_folder("/offsets/192.168.7.1@DEFAULT/other")
        one = FileLedger(disk, "/offsets", owner, "g", is_own_address="192.168.7.1".__eq__)
        assert await one.read(ONE) == 42
        await one.close()

    run(main)


def test_of_javas_files_under_several_addresses_the_newest_counts() -> None:
    """The machine had another address before; a damaged one gives way to its backup."""

    async def main() -> None:
        disk = SimulatedDisk()
        for ip, offset in (("10.0.0.3", 42), ("10.0.0.1", 43), ("10.0.0.2", 41)):
            disk.now_ms += 1
            disk.make_folder(f"/offsets/{ip}@DEFAULT/g")
            replace_file(disk, f"/offsets/{ip}@DEFAULT/g/offsets.json", JAVA_FILE % offset)
            if offset == 41:
                replace_file(disk, f"/offsets/{ip}@DEFAULT/g/offsets.json.bak", JAVA_FILE % 40)
                replace_file(disk, f"/offsets/{ip}@DEFAULT/g/offsets.json", b"{{")
        one = ledger(disk)
        assert await one.read(ONE) == 40
        await one.close()

    run(main)


def test_javas_file_of_a_unit_is_the_one_of_that_unit() -> None:
    """Java's clients put the unit behind their name."""

    async def main() -> None:
        disk = SimulatedDisk()
        for name, offset in (("DEFAULT", 1), ("DEFAULT@u", 2)):
            disk.make_folder(f"/offsets/10.0.0.3@{name}/g")
            replace_file(disk, f"/offsets/10.0.0.3@{name}/g/offsets.json", JAVA_FILE % offset)
        one = FileLedger(
            disk, "/offsets", "127.0.0.1@DEFAULT", "g", unit="u", is_own_address=lambda _: True
        )
        assert await one.read(ONE) == 2
        await one.close()

    run(main)


def test_a_second_consumer_does_not_take_javas_file_of_another_folder() -> None:
    """One consumer moved here, and one goes on from its offsets; the next is a new one."""

    async def main() -> None:
        disk = SimulatedDisk()
        disk.make_folder("/offsets/10.0.0.3@DEFAULT/g")
        replace_file(disk, "/offsets/10.0.0.3@DEFAULT/g/offsets.json", JAVA_FILE % 1)
        first, second = ledger(disk), ledger(disk)
        assert (await first.read(ONE), await second.read(ONE)) == (1, None)
        await first.close()
        await second.close()

    run(main)


def test_a_large_file_of_java_is_read() -> None:
    """What is bounded for bodies from the network is not for a file of this machine."""

    async def main() -> None:
        disk = SimulatedDisk()
        disk.make_folder(FOLDER)
        replace_file(disk, f"{FOLDER}/offsets.json", b" " * 600_000 + JAVA_FILE % 42)
        one = ledger(disk)
        assert await one.read(ONE) == 42
        await one.close()

    run(main)


def test_a_damaged_file_gives_way_to_its_backup() -> None:
    """The last but one is better than nothing."""

    async def main() -> None:
        disk = SimulatedDisk()
        one = ledger(disk)
        await one.write({ONE: QueueOffset(1)})
        await one.write({ONE: QueueOffset(2)})
        await one.close()
        replace_file(disk, f"{FOLDER}/{FILE_NAME}", b'{"offsets": [')
        again = ledger(disk)
        assert await again.read(ONE) == 1
        await again.close()

    run(main)


def test_a_failed_write_is_told() -> None:
    """With the reason, for each queue; the next write has the offsets again."""

    async def main() -> None:
        disk = SimulatedDisk()
        one = ledger(disk)
        disk.fail("write")
        assert list(await one.write({ONE: QueueOffset(1)})) == [ONE]
        assert await one.write({ONE: QueueOffset(1)}) == {}
        await one.close()

    run(main)


def test_a_place_that_cannot_be_used_is_an_error() -> None:
    """It names the setting."""
    disk = SimulatedDisk()
    disk.fail("make_folder")
    with pytest.raises(ClientError, match="broadcast_folder"):
        ledger(disk)
