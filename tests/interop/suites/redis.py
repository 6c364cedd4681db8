"""Redis 7 of Debian 12, in which Celery's tests count what their tasks did.

It is unpacked beside the repository by `make peers-amqp`, listens on a free port of 127.0.0.1 and
writes nothing.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.interop import peers
from tests.interop.peers import Process


@contextlib.contextmanager
def running(root: Path, folder: Path) -> Iterator[int]:
    """Run it, and give its port.

    Args:
        root: What Debian's packages were unpacked into.
        folder: For what it prints.
    """
    port = peers.free_port()
    command = [str(root / "usr/bin/redis-server"), "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--save", "", "--dir", str(folder)]
    libraries = ":".join(str(path) for path in (root / "usr/lib").glob("*-linux-gnu*"))
    process = Process(command, folder / "redis.log", {"LD_LIBRARY_PATH": libraries})

    def is_ready() -> bool:
        process.check()
        return "Ready to accept connections" in process.said()

    try:
        peers.wait_until(is_ready, "Redis", every=0.05)
        yield port
    finally:
        process.end()
