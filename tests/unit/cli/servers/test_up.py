"""`sprocket up` as a process: one ready line, one line for each error, a clean end on a signal."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.disk import RealDisk
from sprocket.base.errors import StoreLocked

pytestmark = pytest.mark.slow

READY = re.compile(
    r"ready nameserver=(127\.0\.0\.1:\d+) broker=(127\.0\.0\.1:\d+) data=(\S+)"
    r"(?: amqp=(\S+) amqp-http=\S+ amqp-metrics=\S+)?\n"
)
SECONDS_MAX = LONG_SECONDS

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts `sprocket up` on free ports; what still runs is ended."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sprocket.cli.main", "up", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if "SPROCKET" not in name},
        )
        running.append(process)
        return process

    yield lambda *more: begin(
        "--data",
        str(tmp_path / "s"),
        "--nameserver-port",
        "0",
        "--broker-port",
        "0",
        "--amqp-port",
        "0",
        *more,
    )
    for process in running:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> re.Match[str]:
    """Wait for the ready line."""
    assert process.stdout is not None
    found = READY.fullmatch(process.stdout.readline())
    assert found, process.stderr and process.stderr.read()
    return found


def test_it_reads_what_a_broker_reads(start: Start, tmp_path: Path) -> None:
    """RocketMQ's own broker.conf: its name counts, and what is not there is named."""
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerName=mine\nflushDiskType=ASYNC_FLUSH\nuseReentrantLockWhenPutMessage=1\n"
    )
    process = start("-c", str(conf))
    ready(process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, err
    assert "(mine)" in err
    assert "a power cut may lose" in " ".join(err.split())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ready_then_a_clean_stop(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    """The one line on stdout is true, stderr tells the rest, and the store is closed at the end."""
    process = start()
    line = ready(process)
    for address in line.group(1, 2):
        host, port = address.split(":")
        socket.create_connection((host, int(port)), timeout=LONG_SECONDS).close()
    assert line.group(3) == str(tmp_path / "s")
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    assert out == ""
    assert "acknowledged means" in err
    assert "on the disk" in err
    assert "recovery" in err
    assert "Traceback" not in err
    assert not (tmp_path / "s" / "abort").exists()


def test_a_second_one_on_the_same_folder_is_refused(start: Start) -> None:
    """One line and exit code 1, and the first goes on."""
    ready(start())
    second = start()
    out, err = second.communicate(timeout=SECONDS_MAX)
    assert (second.returncode, out) == (1, "")
    assert err.startswith("sprocket: ")
    assert len(err.splitlines()) == 1


def test_a_port_in_use_is_refused(start: Start) -> None:
    """The line names the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = start("--broker-port", str(port))
        _, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in err
    assert len(err.splitlines()) == 1


def test_a_kill_leaves_a_store_that_can_be_opened(start: Start, tmp_path: Path) -> None:
    """The next start says that it recovered."""
    process = start("--flush", "async")
    ready(process)
    process.kill()
    process.communicate(timeout=SECONDS_MAX)
    assert (tmp_path / "s" / "abort").exists()
    RealDisk().lock(str(tmp_path / "s" / "lock")).release()
    again = start()
    ready(again)
    again.terminate()
    again.communicate(timeout=SECONDS_MAX)
    assert again.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--set", "fluhs=async"], "did you mean flush?"),
        (["--set", "hold_ms_max=-1"], "pull.hold_ms_max"),
        (["--flush", "never"], "store.flush"),
        (["--broker-port", "70000"], "server.broker_port"),
        (["--config", "/nowhere/at/all.toml"], "/nowhere/at/all.toml"),
        (["--set", "advertised_host=a:b"], "a host name or an IP address"),
        (["--no-amqp"], "--no-amqp and --amqp-port were given"),
        (["--no-rocketmq"], "--no-rocketmq and --nameserver-port were given"),
    ],
)
def test_wrong_settings_are_one_line(start: Start, arguments: list[str], text: str) -> None:
    """Which says what is wrong; nothing is made on the disk."""
    process = start(*arguments)
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out) == (1, "")
    assert text in err
    assert len(err.splitlines()) == 1


def test_a_folder_of_somebody_else_is_refused(start: Start, tmp_path: Path) -> None:
    """And left as it was."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "letters.txt").write_text("dear")
    process = start()
    _, err = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 1
    assert "letters.txt" in err
    assert len(err.splitlines()) == 1
    assert os.listdir(tmp_path / "s") == ["letters.txt"]


def test_locking_is_seen_from_outside(start: Start, tmp_path: Path) -> None:
    """While it runs nobody else can take the store's lock."""
    ready(start())
    with pytest.raises(StoreLocked):
        RealDisk().lock(str(tmp_path / "s" / "lock"))


def test_a_process_that_stores_nothing_says_so_and_gives_up(start: Start) -> None:
    """In its ready line and to who asks; then it stops in order and ends with code 1."""
    much = "amqp.disk_free_bytes_min=9000000000000000000"
    options = ("--set", much, "--set", "health.refusing_seconds_max=0.001")
    process = start("--health-port", "0", *options)
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert re.search(r"^ready .* health=127\.0\.0\.1:\d+ stores=no$", out, re.MULTILINE)
    assert process.returncode == 1
    why = "AMQP: less than 9,000,000,000,000,000,000 bytes are free: who publishes is blocked"
    assert f"stores nothing {why}" in " ".join(err.split())
    assert re.search(rf"^sprocket: nothing was stored for \d+ s: {why}$", err, re.MULTILINE)
