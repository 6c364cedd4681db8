"""What docs/guides/running.md and its neighbours say is so."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base import settings as loader
from sprocket.node.host import settings_of
from sprocket.node.products import PRODUCTS
from sprocket.rocketmq.client import Message, blocking
from sprocket.testing.local_broker import LocalBroker

ROOT = Path(__file__).resolve().parents[3]
GUIDES = ROOT / "docs" / "guides"
RUNNING = (GUIDES / "running.md").read_text(encoding="utf-8")
PAGES = [RUNNING] + [
    (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    for name in ("security", "coming-from-rocketmq", "not-there")
]
SPROCKET = [sys.executable, "-c", "from sprocket.cli.main import main; main()"]


def block(language: str) -> str:
    """Return the one fenced block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", RUNNING, re.MULTILINE | re.DOTALL)
    return str(found)


def unit() -> configparser.ConfigParser:
    """Return the unit for systemd."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(block("ini"))
    return parser


def environment() -> dict[str, str]:
    """Return an environment in which a new process finds the package."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.slow
def test_what_the_unit_starts_serves_and_stops_as_it_says(tmp_path: Path) -> None:
    """Its command, on other ports and another folder; its signal ends it well, in its time."""
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "sprocket"
    words[words.index("--data") + 1] = str(tmp_path / "store")
    names = ("nameserver", "broker", "amqp", "health")
    free = [word for name in names for word in (f"--{name}-port", "0")]
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(LONG_SECONDS)
    process = subprocess.Popen(
        [*SPROCKET, *words, *free],
        env={
            **environment(),
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": service["WatchdogSec"] + "000000",
        },
        umask=int(service["UMask"], 8),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        url = f"http://{ready['health']}"
        asked = subprocess.run([*SPROCKET, "health", "--url", url], env=environment(), check=False)
        assert asked.returncode == 0
        assert service["Type"] == "notify"
        for wanted in ("READY=1\nSTATUS=serves", "WATCHDOG=1"):
            while manager.recv(1000).decode() != wanted:
                pass
        assert (tmp_path / "store" / "commitlog").stat().st_mode & 0o077 == 0
    finally:
        process.send_signal(getattr(signal, service["KillSignal"]))
        process.communicate(timeout=float(service["TimeoutStopSec"]))
    assert process.returncode == 0
    while manager.recv(1000).decode() != "STOPPING=1\nSTATUS=stops":
        pass
    manager.close()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """With a program that is there in the place of one that need not be."""
    program = shlex.split(unit()["Service"]["ExecStart"])[0]
    path = tmp_path / "sprocket.service"
    text = block("ini").replace(program, sys.executable).replace("User=sprocket", "User=root")
    path.write_text(text, encoding="utf-8")
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in ended.stderr.splitlines() if "sprocket.service" in line]
    assert complaints == []


@pytest.mark.slow
def test_a_backup_of_a_running_broker_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    """The commands of the page, while somebody sends; consumers would go on where they were."""
    sent: list[bytes] = []
    stop = threading.Event()
    with LocalBroker(str(tmp_path / "store")) as broker:

        def send() -> None:
            with blocking.Producer(broker.nameserver, group="p") as producer:
                while not stop.is_set():
                    body = b"%d" % len(sent)
                    producer.send(Message("t", body, keys=["k"]))
                    sent.append(body)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            while len(sent) < 200:
                stop.wait(0.01)
            certain = list(sent)
            commands = re.findall(r"^\$ sprocket (backup|check) .*", RUNNING, re.MULTILINE)
            assert commands == ["backup", "check"]
            for words in (["backup", "store", "backup"], ["check", "backup"]):
                ended = subprocess.run(
                    [*SPROCKET, *words],
                    cwd=tmp_path,
                    env=environment(),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert ended.returncode == 0, ended.stderr
        finally:
            stop.set()
            sender.join()
    with LocalBroker(str(tmp_path / "backup")) as restored:
        found = {message.body for message in restored.messages("t")}
    assert set(certain) <= found <= set(sent)


def test_the_settings_that_are_named_are_settings() -> None:
    """By their full names."""
    known = {one.full_name for one in loader.declarations(settings_of(PRODUCTS))}
    groups = {name.partition(".")[0] for name in known}
    named = {
        name
        for page in PAGES
        for name in re.findall(r"`([a-z]+\.[a-z_]+)\b[^`/]*`", page)
        if name.partition(".")[0] in groups and not name.endswith((".md", ".py", ".conf"))
    }
    assert named
    assert named <= known


def test_the_lines_to_watch_for_are_logged() -> None:
    """Somewhere in the source stands each text that an alert would look for."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    (table,) = re.findall(r"## What to watch\n(.*?)\n## ", RUNNING, re.DOTALL)
    rows = re.findall(r"^\| log: (.*?) \|", table, re.MULTILINE)
    texts = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(texts) >= 4
    for text in texts:
        assert text in source


def test_the_figures_to_watch_are_told() -> None:
    """By the broker, under the names of the page."""
    (table,) = re.findall(r"## What to watch\n(.*?)\n## ", RUNNING, re.DOTALL)
    names = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert len(names) >= 5
    with LocalBroker() as broker, blocking.Admin(broker.nameserver) as admin:
        told = admin.broker.status("broker-a").values
    assert set(names) <= set(told)
