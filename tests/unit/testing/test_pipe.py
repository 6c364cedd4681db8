"""The in-memory network, beyond what all carriers keep (tests/contract/test_drivers.py)."""

import asyncio

import pytest
from tests.pipe import PipeNetwork, PipeTransport

from sprocket.rocketmq.remoting import Connection


def test_networks_know_nothing_of_each_other() -> None:
    """The same address can be listened on in two of them, but once in each."""

    async def main() -> None:
        one, two = PipeNetwork(), PipeNetwork()
        first = await one.serve(Connection, lambda *_: None, "h", 5)
        second = await two.serve(Connection, lambda *_: None, "h", 5)
        with pytest.raises(OSError, match="h:5"):
            await one.serve(Connection, lambda *_: None, "h", 5)
        await first.close()
        again = await one.serve(Connection, lambda *_: None, "h", 5)
        for server in (second, again):
            await server.close()

    asyncio.run(main())


class Recorder(asyncio.Protocol):
    """Notes what an event loop would tell it."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def data_received(self, data: bytes) -> None:
        """Note the piece."""
        self.told.append(data.decode())

    def pause_writing(self) -> None:
        """Note it."""
        self.told.append("pause")

    def resume_writing(self) -> None:
        """Note it."""
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note it."""
        self.told.append("lost" if exc is None else str(exc))


async def settle() -> None:
    """Let everything that is scheduled happen."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_water_marks_pieces_and_the_end() -> None:
    """Pause above the mark, resume at a quarter, everything before the end, the end on both."""

    async def main() -> None:
        near, far = Recorder(), Recorder()
        here = PipeTransport(near, ("10.0.0.1", 1), ("10.0.0.2", 2), 2)
        there = PipeTransport(far, ("10.0.0.2", 2), ("10.0.0.1", 1), 2)
        here.other, there.other = there, here
        here.set_write_buffer_limits(high=4)
        there.pause_reading()
        here.write(b"abc")
        here.writelines([b"d", b"ef"])
        here.close()
        here.write(b"dropped")
        await settle()
        assert (here.get_write_buffer_size(), near.told) == (6, ["pause"])
        there.resume_reading()
        await settle()
        assert far.told == ["ab", "c", "de", "f", "lost"]
        assert near.told == ["pause", "resume", "lost"]
        assert here.is_closing()
        assert there.is_closing()

    asyncio.run(main())
