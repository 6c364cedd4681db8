"""A connection that brings much is read in large pieces, and ends as any other."""

import asyncio

from tests.waits import LONG_SECONDS

from sprocket.base.errors import WireError
from sprocket.base.units import MIB
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer


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
