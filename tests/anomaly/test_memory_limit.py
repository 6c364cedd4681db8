"""A fast publisher in a small container: it is blocked, and the broker is not killed."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.amqp import LOGIN, handshake, message, method
from tests.waits import LONG_SECONDS

from sprocket.base import memory
from sprocket.base.units import KIB, MIB
from sprocket.rabbitmq.codec.amqp import methods
from sprocket.rabbitmq.model.fields import NO_FIELDS, Field, FieldKind, FieldTable
from sprocket.rabbitmq.server.connection import WireLimits

pytestmark = pytest.mark.slow

LIMIT_BYTES = 256 * MIB
MESSAGES = 2118
BODY_BYTES = 100 * KIB
BLOCKED = method(0, methods.ConnectionBlocked("low on memory"))


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group beside what this process is in, that may take little; gone afterwards."""
    there = [Path(one) for one in memory.limit_paths() if os.path.exists(one)]
    if not there:
        pytest.skip("NOT RUN: this system limits no process's memory by control groups")
    of_own = max(there, key=lambda path: len(path.parts))
    made = of_own.parent / f"sprocket-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"NOT RUN: no control group can be made: {error}")
    try:
        (made / of_own.name).write_text(str(LIMIT_BYTES))
    except OSError as error:
        made.rmdir()
        pytest.skip(f"NOT RUN: the memory of a control group cannot be limited: {error}")
    yield made
    made.rmdir()


def test_a_fast_publisher_is_blocked_in_time(tmp_path: Path, group: Path) -> None:
    """What came between two looks of the alarm was not bounded, and not counted."""
    command = [sys.executable, "-m", "sprocket.cli.main", "up", "--no-rocketmq"]
    command += [f"--data={tmp_path}/s", "--amqp-port=0", "--amqp-http-port=0"]
    enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    process = subprocess.Popen(
        ["sh", "-c", enter, "sh", *command], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        ready = dict(word.split("=") for word in words if "=" in word)
        assert flood(int(ready["amqp"].rpartition(":")[2]))
        with contextlib.suppress(urllib.error.HTTPError):  # it asks who we are
            urllib.request.urlopen(f"http://{ready['amqp-http']}/api/whoami", timeout=LONG_SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()


def flood(port: int) -> bool:
    """Publish as fast as the system takes it; say whether the broker said that it is short."""
    able = FieldTable((("connection.blocked", Field(FieldKind.BOOL, True)),))
    told = FieldTable((("capabilities", Field(FieldKind.TABLE, able)),))
    login = method(0, methods.ConnectionStartOk(told, "PLAIN", b"\0guest\0guest", "en_US"))
    opening = handshake(WireLimits(heartbeat_seconds=0)).replace(LOGIN, login)
    opening += method(1, methods.ChannelOpen())
    opening += method(1, methods.QueueDeclare(0, "q", False, False, False, False, False, NO_FIELDS))
    one = message(1, bytes(BODY_BYTES), "q", exchange="")
    heard = b""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(opening)
        client.setblocking(False)
        rest = memoryview(one)
        left = MESSAGES
        while left and BLOCKED not in heard:
            with contextlib.suppress(BlockingIOError):
                heard += client.recv(64 * KIB)
            try:
                rest = rest[client.send(rest) :]
            except BlockingIOError:
                continue
            if not rest:
                rest, left = memoryview(one), left - 1
        client.setblocking(True)
        client.settimeout(LONG_SECONDS)
        while BLOCKED not in heard and (more := client.recv(64 * KIB)):
            heard += more
    return BLOCKED in heard
