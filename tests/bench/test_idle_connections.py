"""Ten thousand idle connections cost a node at most 25 KB each (measured, not computed)."""

import re
import resource
import socket
from pathlib import Path

import pytest
from tests.interop import link
from tests.interop.peers import Sprocket, wait_until
from tests.waits import LONG_SECONDS

COUNT = 10_000
BYTES_MAX = 25_000
SPARE_FILES = 200


@pytest.mark.slow
def test_ten_thousand_idle_connections(tmp_path: Path) -> None:
    """Each has said one thing, so that whatever is made at the first request is there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < COUNT + SPARE_FILES:
        pytest.skip(f"NOT RUN: this process may open {hard} files, {COUNT + SPARE_FILES} needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections: list[socket.socket] = []
    try:
        with Sprocket(tmp_path, tmp_path / "store", ["--flush", "async"]) as node:
            host, _, port = node.address.rpartition(":")
            ask(host, int(port))
            before = resident_bytes(node.pid)
            for _ in range(COUNT):
                connections.append(ask(host, int(port)))
            wait_until(
                lambda: open_sockets(node.pid) >= COUNT, "every connection", seconds=LONG_SECONDS
            )
            each = (resident_bytes(node.pid) - before) / COUNT
            print(f"{COUNT:,} idle connections: {each:,.0f} bytes of memory each")
            with link.Link(node.address) as late:
                assert late.ask(30, {"topic": "TBW102", "queueId": 0}).code == 0
            assert each < BYTES_MAX
            for connection in connections:
                connection.close()
            wait_until(
                lambda: open_sockets(node.pid) < SPARE_FILES, "all to be gone", seconds=LONG_SECONDS
            )
    finally:
        for connection in connections:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask(host: str, port: int) -> socket.socket:
    """Open a connection, ask something on it and return it open."""
    connection = socket.create_connection((host, port))
    connection.sendall(link.encode(30, 1, {"topic": "TBW102", "queueId": 0}))
    assert connection.recv(4096)
    return connection


def resident_bytes(pid: int) -> int:
    """Return the memory that a process has to itself."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) * 1024


def open_sockets(pid: int) -> int:
    """Return how many files a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
