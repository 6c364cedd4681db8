"""What `sprocket up` writes never holds it, whoever reads stdout and stderr, or does not."""

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from tests.waits import LONG_SECONDS

from sprocket.testing.local_process import free_port

pytestmark = pytest.mark.slow

FLOOD = 600
"""Requests that RocketMQ's port does not understand; a line of each would fill a pipe."""
LOGINS = 50
Start = Callable[..., "Running"]


class Running:
    """A process, its ready line, and what a client sees of it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        self.first = process.stdout.readline()
        words = self.first.removeprefix("ready ").split()
        told: dict[str, str] = (
            json.loads(self.first)
            if self.first.startswith("{")
            else {name: text for name, _, text in (word.partition("=") for word in words)}
        )
        self.ports = {name: port_of(text) for name, text in told.items()}

    def flood(self) -> None:
        """Have strangers say what no remoting client says, one after the other."""
        for _ in range(FLOOD):
            with socket.create_connection(("127.0.0.1", self.ports["broker"])) as one:
                one.sendall(b"GET / HTTP/1.1\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    assert one.recv(1) == b""

    def log_in(self) -> None:
        """Come in over AMQP and leave."""
        where = pika.ConnectionParameters("127.0.0.1", self.ports["amqp"])
        pika.BlockingConnection(where).close()

    def put_vhost(self, name: str) -> int:
        """Make a virtual host over HTTP; return the status of the answer."""
        return put_vhost(self.ports["amqp-http"], name)

    def end(self) -> None:
        """Stop it as a service manager does; it ends well."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LONG_SECONDS) == 0


def port_of(text: str) -> int:
    """The port of an address; 0 for anything else."""
    found = text.rpartition(":")[2]
    return int(found) if found.isdecimal() else 0


def put_vhost(port: int, name: str) -> int:
    """Make a virtual host; return the status of the answer."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_SECONDS)
    login = base64.b64encode(b"guest:guest").decode()
    asked.request("PUT", f"/api/vhosts/{name}", headers={"authorization": f"Basic {login}"})
    status = asked.getresponse().status
    asked.close()
    return status


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts it with some stderr; what still runs is killed."""
    processes: list[subprocess.Popen[str]] = []

    def begin(stderr: int, *more: str) -> Running:
        free = [f"--{name}-port=0" for name in ("nameserver", "broker", "amqp", "amqp-http")]
        process = subprocess.Popen(
            [sys.executable, "-m", "sprocket.cli.main", "up", f"--data={tmp_path}/s", *free, *more],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        processes.append(process)
        return Running(process)

    yield begin
    for one in processes:
        one.kill()
        one.communicate()


def test_a_pipe_that_nobody_reads_holds_nobody(start: Start) -> None:
    """Strangers filled it with 600 requests, and every port was silent; SIGTERM was not heard."""
    source, target = os.pipe()
    os.set_blocking(target, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(target, bytes(4096))
    os.set_blocking(target, True)
    try:
        running = start(target)
        running.flood()
        running.log_in()
        assert running.put_vhost("made") == 201
        running.end()
    finally:
        os.close(source)
        os.close(target)


@pytest.mark.parametrize("kind", ["on a full disk", "whose reader has gone"])
def test_a_stderr_that_takes_nothing_is_nobodys_error(start: Start, kind: str) -> None:
    """It was raised into handlers: logins failed, and what an HTTP call did was not answered."""
    if kind == "on a full disk":
        target = os.open("/dev/full", os.O_WRONLY)
    else:
        source, target = os.pipe()
        os.close(source)
    try:
        running = start(target)
        for _ in range(LOGINS):
            running.log_in()
        assert [running.put_vhost(f"v{number}") for number in range(3)] == [201] * 3
        running.end()
    finally:
        os.close(target)


def test_json_is_every_line_and_a_flood_is_few(start: Start) -> None:
    """Of both streams, from the ready line to the stop; what was left out is counted."""
    running = start(subprocess.PIPE, "--log-format", "json")
    running.flood()
    running.process.send_signal(signal.SIGTERM)
    out, err = running.process.communicate(timeout=LONG_SECONDS)
    assert running.process.returncode == 0
    assert json.loads(running.first)["event"] == "ready"
    assert out == ""
    told = [json.loads(line) for line in err.splitlines()]
    assert all(one.keys() >= {"event", "level", "timestamp"} for one in told)
    events = [one["event"] for one in told]
    assert any(one.startswith("stopping") for one in events)
    assert events[-1].startswith("stopped")
    assert "serving" in events
    broken = [one for one in told if one["event"].endswith("the peer broke the protocol")]
    assert sum(1 + one.get("suppressed", 0) for one in broken) == FLOOD
    assert len(broken) < FLOOD // 10


@pytest.mark.parametrize("command", ["up", "--version", "settings"])
def test_closed_streams_are_no_abort(tmp_path: Path, command: str) -> None:
    """Of a process that was started with `<&- >&- 2>&-`; the event loop ended it with SIGABRT."""
    port = free_port("127.0.0.1")
    words = [sys.executable, "-m", "sprocket.cli.main", command]
    if command == "up":
        words += [f"--data={tmp_path}/s", "--no-rocketmq", "--amqp-port=0"]
        words += [f"--amqp-http-port={port}"]
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words])
    try:
        if command == "up":
            assert put_vhost_once_it_serves(process, port) == 201
            process.terminate()
        assert process.wait(LONG_SECONDS) == 0
    finally:
        process.kill()
        process.wait()


def put_vhost_once_it_serves(process: "subprocess.Popen[bytes]", port: int) -> int:
    """Try until somebody answers; nothing else says that it is ready."""
    while True:
        assert process.poll() is None
        try:
            return put_vhost(port, "made")
        except ConnectionRefusedError:
            time.sleep(0.05)
