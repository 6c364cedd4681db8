"""What other systems lack is not asked for: tried with it taken away from this one.

Each test runs a program in a process of its own, in which modules cannot be imported and functions
of `os` are gone, as on the system that it stands for. It shows that nothing of ours asks for them;
what those systems do is theirs to show.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.waits import LONG_SECONDS

from sprocket.testing.local_broker import LocalBroker

TAKE_AWAY = """
import asyncio, os, ssl, subprocess, sys, tempfile  # Python's own are made for this system
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ImportError(f"no module {name} here")
sys.meta_path.insert(0, Gone())
for name in MODULES:
    sys.modules.pop(name, None)
for name in NAMES:
    if hasattr(os, name):
        delattr(os, name)
"""
LINUX_ONLY = [
    *("fdatasync", "posix_fadvise", "posix_fallocate", "RWF_NOWAIT", "SEEK_DATA", "SEEK_HOLE"),
    "sched_getaffinity",
]
WINDOWS = (
    ["fcntl", "resource", "uvloop", "lz4", "termios", "pwd", "grp"],
    [
        *(*LINUX_ONLY, "pread", "pwrite", "preadv", "pwritev", "statvfs", "O_DIRECTORY"),
        *("O_CLOEXEC", "getuid", "fork", "fchmod", "sysconf"),
    ],
)
MSVCRT = """
import types
msvcrt = sys.modules["msvcrt"] = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, locked = 2, []
msvcrt.locking = lambda *given: locked.append(given)
"""
WINDOWS_CLIENT = """
import queue
from sprocket.cli import main
from sprocket.rocketmq.client import ConsumerSettings, Message, Producer, blocking

main.app()
where, folder = sys.argv[1:]
got = queue.Queue()
with blocking.Producer(where, group="p") as producer:
    producer.send(Message("t", b"one"))
for expected in (b"one", b"two"):
    with blocking.PushConsumer(
        where, group="c", listener=got.put, start="first", broadcast=True,
        settings=ConsumerSettings(broadcast_folder=folder),
    ) as consumer:
        consumer.subscribe("t")
        assert [one.body for one in got.get(timeout=300)] == [expected]
    with blocking.Producer(where, group="p") as producer:
        producer.send(Message("t", b"two"))
assert locked
"""
MACOS = """
import fcntl
fcntl.F_FULLFSYNC, asked = 51, []
system_fcntl = fcntl.fcntl
def fake(descriptor, request, *more):
    if request != 51:
        return system_fcntl(descriptor, request, *more)
    asked.append(descriptor)
    return os.fsync(descriptor)
fcntl.fcntl = fake
"""
MACOS_BROKER = """
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.client import Message, Producer
from sprocket.rocketmq.settings import ServerSettings
from sprocket.runtime import driver
from sprocket.testing.local_broker import small_settings
from dataclasses import replace

async def main():
    ports = ServerSettings(nameserver_port=0, broker_port=0, vip_port=False)
    settings = replace(small_settings(), server=ports)
    for count in (0, 1):
        node = await Node.start(settings, sys.argv[1], geometry=settings.geometry)
        assert node.report.end == 0 if count == 0 else node.report.clean
        async with Producer(node.addresses.nameserver, group="p") as producer:
            before = len(asked)
            sent = await producer.send(Message("t", b"x"), queue=None)
            assert len(asked) > before, "a send was answered without asking the drive"
        await node.stop()

driver.run(main())
"""


def run(taken: tuple[list[str], list[str]], program: str, *arguments: str) -> None:
    """Run a program where modules and functions of `os` are taken away."""
    modules, names = taken
    text = f"MODULES, NAMES = {modules!r}, {names!r}\n{TAKE_AWAY}\n{program}"
    ended = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_the_client_works_without_what_windows_lacks(tmp_path: Path) -> None:
    """Producer, consumer and the file of its offsets; the command can be imported."""
    with LocalBroker() as broker:
        run(WINDOWS, MSVCRT + WINDOWS_CLIENT, broker.nameserver, str(tmp_path))


@pytest.mark.slow
def test_a_broker_works_without_what_macos_lacks(tmp_path: Path) -> None:
    """Durable means that the drive was asked, with F_FULLFSYNC: `fsync` does not do that there."""
    run((["uvloop", "lz4"], LINUX_ONLY), MACOS + MACOS_BROKER, str(tmp_path / "store"))
