"""A service manager gets what it is told as a datagram; without one nothing happens."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sprocket.runtime.service_manager import ServiceManager

NAMES = ["a file", "an abstract name"]


@pytest.fixture(params=NAMES)
def named(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """Return a socket as systemd has one, and what it calls it in the environment."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if request.param == "a file":
        told = str(tmp_path / "notify")
        one.bind(told)
    else:
        told = f"@sprocket-test-{os.getpid()}"
        one.bind("\0" + told[1:])
    with one:
        one.setblocking(False)
        yield one, told


def test_lines_are_one_datagram(named: tuple[socket.socket, str]) -> None:
    """Each is one line, whatever its text has; after the end nothing is told."""
    taken, path = named
    manager = ServiceManager({"NOTIFY_SOCKET": path})
    manager.tell(READY="1", STATUS="stores nothing:\nREADY=0")
    manager.tell(WATCHDOG="1")
    assert taken.recv(1000) == b"READY=1\nSTATUS=stores nothing: READY=0"
    assert taken.recv(1000) == b"WATCHDOG=1"
    manager.close()
    manager.tell(WATCHDOG="1")
    with pytest.raises(BlockingIOError):
        taken.recv(1000)


def test_a_manager_that_has_gone_is_told_of_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And whoever serves goes on; so it does if nobody has started it."""
    ServiceManager({}).tell(READY="1")
    assert caplog.messages == []
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    manager.tell(READY="1")
    manager.close()
    assert "the service manager cannot be told" in caplog.messages[0]


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
    ids=["not at all", "for anybody", "for this process", "for another", "never", "what"],
)
def test_how_often_it_wants_to_hear(variables: dict[str, str], seconds: float | None) -> None:
    """If it is meant, and not a parent of this process; never without a socket."""
    assert ServiceManager({"NOTIFY_SOCKET": "@s", **variables}).watchdog_seconds == seconds
    assert ServiceManager(variables).watchdog_seconds is None
