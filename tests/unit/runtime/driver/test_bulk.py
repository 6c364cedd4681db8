"""A connection that brings much is read in large pieces, and ends as any other."""

import asyncio
from typing import cast

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import WireError
from sprocket.base.units import MIB
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.runtime.driver.bulk import BulkReader


class Pieces:
    """Gives what comes as it comes, copied as it is kept."""

    def __init__(self) -> None:
        self.broken: WireError | None = None

    def receive(self, data: bytes) -> list[bytes]:
        """Return the piece."""
        return [bytes(data)]


def test_all_comes_in_its_order_in_pieces_of_the_size_that_was_asked_for() -> None:
    """More than the event loop reads at once by itself; then the end is told."""
    data = bytes(range(256)) * (24 * MIB // 256)
    found: list[bytes] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    def receive(_: Peer, piece: bytes) -> None:
        found.append(piece)

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        ended = asyncio.Event()
        peer = await driver.connect(Pieces, receive, "127.0.0.1", port, read_bytes=MIB)
        peer.when_closed(lambda _: ended.set())
        async with asyncio.timeout(LONG_SECONDS):
            await ended.wait()
        assert peer.read_bytes == len(data)
        server.close()

    driver.run(main())
    assert b"".join(found) == data
    assert 256 * 1024 < max(map(len, found)) <= MIB


class Kept:
    """A peer that keeps what it is given."""

    def __init__(self) -> None:
        self.pieces: list[int] = []
        self.is_over = False

    def data_received(self, data: bytes) -> None:
        """Note how much that is."""
        assert not self.is_over
        self.pieces.append(len(data))

    def connection_lost(self, _: Exception | None) -> None:
        """End."""
        self.is_over = True


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([[2], [2], [2], []], [6]),  # as long as each turn brings more
        ([[2], [], [], [2], []], [2, 2]),
        ([[2], [3], [4], []], [9]),
        ([[2], [6.5], [2], []], [8.5, 2]),  # the next one has no room
        ([[2], [0.5], []], [2.5]),  # that was the end of it
        ([[0.5], [0.5]], [0.5, 0.5]),  # nothing small waits
    ],
)
def test_pieces_that_come_turn_by_turn_are_put_together(
    turns: list[list[float]], expected: list[float]
) -> None:
    """Of a MiB or more, for as long as there is room for another."""
    kept = Kept()

    async def main() -> None:
        reader = BulkReader(cast("Peer", kept), 9 * MIB)
        for pieces in turns:
            for piece in pieces:
                assert len(reader.get_buffer(-1)) >= piece * MIB
                reader.buffer_updated(int(piece * MIB))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reader.connection_lost(None)

    driver.run(main())
    assert kept.pieces == [int(one * MIB) for one in expected]
    assert kept.is_over


def test_what_waits_for_more_is_handed_on_at_the_end() -> None:
    """Before the end itself."""
    kept = Kept()

    async def main() -> None:
        reader = BulkReader(cast("Peer", kept), 9 * MIB)
        reader.buffer_updated(2 * MIB)
        reader.connection_lost(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    driver.run(main())
    assert kept.pieces == [2 * MIB]
    assert kept.is_over
