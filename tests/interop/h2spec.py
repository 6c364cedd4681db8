"""The conformance tests of `h2spec` at our HTTP/2: `make h2spec`.

They stand before a server that answers any request once it is whole, which lies on the codec and
the driver that gRPC has as well: the service itself refuses what is not gRPC at the first frame, so
that the tests of streams in other states would not get there.

    python -m tests.interop.h2spec PROGRAM        run it; exit code 0 if all tests pass
    python -m tests.interop.h2spec --serve PORT   the server
"""

import asyncio
import socket
import subprocess
import sys
import time

from tests.interop.peers import ROOT, free_port, wait_until

from sprocket.runtime import http2
from sprocket.runtime.driver import Peer, PortPolicy, bind, listen, run
from sprocket.runtime.http2 import (
    ConnectionFailed,
    DataReceived,
    Http2Connection,
    Octets,
    Stream,
    StreamBegun,
    StreamEnded,
)

HEAD = http2.response_block(200, [("content-type", "text/plain")])
TRAILERS = http2.trailers_block([("grpc-status", "0")])


def on_event(peer: Peer, event: object) -> None:
    """Answer what is whole."""
    connection = peer.connection
    assert isinstance(connection, Http2Connection)

    def answer(stream: Stream) -> None:
        peer.send(connection.answer(stream, HEAD, b"hello", TRAILERS))

    match event:
        case StreamBegun(stream, True) | DataReceived(stream, _, True) | StreamEnded(stream):
            answer(stream)
        case Octets(data):
            peer.send(data)
        case ConnectionFailed(last_words, _):
            peer.send([last_words])
            peer.close()


async def serve(port: int) -> None:
    """Serve until the process ends."""

    def connection() -> Http2Connection:
        return Http2Connection(http2.Limits(streams=100), time.monotonic)

    bound = await bind("127.0.0.1", port)
    await listen(bound, connection, on_event, policy=PortPolicy(reads_on_when_slow=True))
    await asyncio.Event().wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> int:
    """Run the tests and return the exit code, or serve."""
    if sys.argv[1] == "--serve":
        run(serve(int(sys.argv[2])))
        return 0
    port = free_port()
    command = [sys.executable, "-m", __spec__.name, "--serve", str(port)]
    with subprocess.Popen(command, cwd=ROOT) as server:
        try:
            wait_until(lambda: _listens(port), "the server")
            found = subprocess.run(
                [sys.argv[1], "--strict", "--host", "127.0.0.1", "--port", str(port)], check=False
            )
        finally:
            server.terminate()
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
