"""A product that the package has never heard of is served like RocketMQ.

It is a protocol of some lines: each line that comes in is written to a log, by group commit, and
sent back once it is safe. It has a port, a group of settings and files of its own. Nothing of it is
in the package.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta
from tests.contract.echo_log import EchoLog
from tests.waits import LONG_SECONDS

from sprocket.base import settings
from sprocket.base.clock import Clock
from sprocket.base.disk import read_file
from sprocket.base.errors import DiskFailed, SettingsError, StoreError, StoreLocked, WireError
from sprocket.base.progress import Step
from sprocket.base.settings import Loaded
from sprocket.cli.servers import settings as cli_settings
from sprocket.cli.servers.config_file import GivenSettings
from sprocket.node import products
from sprocket.node.host import Host, Product, Running, Serve, Site, metrics_port, settings_of
from sprocket.node.rocketmq import BROKER, NAMESERVER
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.runtime.group_commit import FlushMode, GroupCommit, Machine
from sprocket.runtime.http import HttpRequest, HttpResponse, HttpServer, MetricsText
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.slices import Slicer
from sprocket.runtime.turns import Turns
from sprocket.testing.disk import SimulatedDisk

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class EchoSettings:
    """How lines come back."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 7
    """Port; 0 is any free one."""
    line_bytes_max: Annotated[int, Meta(ge=1)] = 80
    """Longest line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EchoRoot:
    """The groups of this product."""

    echo: EchoSettings = field(default_factory=EchoSettings)


class Lines:
    """The codec: bytes in, lines out."""

    def __init__(self, bytes_max: int) -> None:
        self.broken: WireError | None = None
        self._bytes_max = bytes_max
        self._rest = b""

    def receive(self, data: bytes) -> list[bytes]:
        """Take bytes and return the lines that they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._bytes_max:
            self.broken = WireError("too long a line")
            raise self.broken
        return lines


class EchoService:
    """Writes what comes, and sends it back when it is safe; its own responder and follower."""

    def __init__(self, log: EchoLog, clock: Clock) -> None:
        self._log = log
        self._threads = [DiskThread("echo"), DiskThread("echo-sync")]
        self._commit: GroupCommit[EchoedLine, None] = GroupCommit(
            log,
            self,
            Machine(asyncio.get_running_loop(), clock, self._threads[0], self._threads[1]),
            FlushMode(is_sync=True, wait_seconds_max=1, timeout_seconds=5, look_seconds=1),
            Pressure(1 << 20, 1 << 20),
        )
        self._commit.start()

    def on_line(self, peer: Peer, line: bytes) -> None:
        """Take a line up."""
        self._log.append(line)
        self._commit.wait(EchoedLine(peer, line))

    async def stop(self) -> None:
        """Answer what waits, and end."""
        await self._commit.settle()
        self._commit.close()
        for thread in self._threads:
            await thread.stop()

    def ready(self, group: "Sequence[EchoedLine]", error: StoreError | None) -> None:
        """Echo what is safe, and cut off whoever would wait for what is not."""
        for line in group:
            if error is None:
                line.peer.send([line.text, b"\n"])
            else:
                line.peer.abort(str(error))

    def send(self, _: None, /) -> None:
        """Do nothing: it is sent."""

    def refuse(self, group: "Sequence[EchoedLine]", error: StoreError) -> None:
        """See `ready`."""
        self.ready(group, error)


@dataclass(frozen=True, slots=True)
class EchoedLine:
    """A line that somebody waits for."""

    peer: Peer
    text: bytes

    @property
    def records(self) -> int:
        """One."""
        return 1

    waiting_count = records


async def open_echo(site: Site) -> Serve:
    """Open the log."""
    given, place = site.given.of(EchoRoot).echo, site.place

    def opened(step: Step) -> EchoLog:
        step("lines", 0)
        return EchoLog(place.disk, place.folder)

    log = await site.open(opened)

    async def serve() -> Running:
        service = EchoService(log, place.clock)
        site.parts.push_async_callback(service.stop)
        await site.listen("echo", lambda: Lines(given.line_bytes_max), service.on_line)
        address = f"127.0.0.1:{site.ports['echo']}"
        return Running(ready={"echo": address}, rows=[("echo", address)])

    return serve


ECHO = Product(
    name="echo",
    settings=EchoRoot,
    ports=lambda given: {"echo": given.of(EchoRoot).echo.port},
    open=open_echo,
    folder="echo",
)
FREE = ("echo.port=0", "nameserver_port=0", "broker_port=0", "segment_bytes=1048576")


def given(*chosen: Product, overrides: tuple[str, ...] = FREE) -> Loaded[object]:
    """Return settings with free ports."""
    root = settings_of(chosen)
    names = {name for one in settings.declarations(root) for name in (one.name, one.full_name)}
    mine = [one for one in overrides if one.partition("=")[0] in names]
    return settings.load(root, overrides=mine)


async def say(address: str, text: bytes) -> bytes:
    """Send some bytes and return the line that comes back, nothing if the connection ends."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(text)
    line = await reader.readline()
    writer.close()
    return line


def test_it_is_served_alone() -> None:
    """With its own port, settings and folder; what it keeps is there at the next start."""
    disk = SimulatedDisk()

    async def main() -> None:
        for line in (b"hello", b"again"):
            host = await Host.start([ECHO], given(ECHO), "/e", disk=disk)
            address = host.running["echo"].ready["echo"]
            assert await say(address, line + b"\n") == line + b"\n"
            assert read_file(disk.crash(lambda _: 0), "/e/log").endswith(line + b"\n")
            assert await say(address, 81 * b"x") == b""
            await host.stop()
            with pytest.raises(ConnectionRefusedError):
                await say(address, b"")

    driver.run(main())
    assert read_file(disk.crash(lambda _: 0), "/e/log") == b"hello\nagain\n"


def test_it_is_served_beside_rocketmq() -> None:
    """In one process and one folder; neither takes the other's files for foreign."""
    disk = SimulatedDisk()
    every = [ECHO, NAMESERVER, BROKER]

    async def main() -> None:
        for _ in range(2):
            host = await Host.start(every, given(*every), "/s", disk=disk)
            ready = {name: at for one in host.running.values() for name, at in one.ready.items()}
            assert list(ready) == ["echo", "nameserver", "broker", "data"]
            assert await say(ready["echo"], b"hello\n") == b"hello\n"
            await host.stop()

    driver.run(main())
    assert read_file(disk, "/s/echo/log") == b"hello\nhello\n"


async def open_measured_echo(site: Site) -> Serve:
    """Open the log of a product that has metrics, too."""
    serve_echo = await open_echo(site)
    clock = site.place.clock

    async def scraped(_: HttpRequest, peer: Peer) -> HttpResponse:
        peer.admit()
        text = MetricsText(site, Slicer(Turns(asyncio.get_running_loop()), clock))
        text.add_one("echo_ports", "Ports of the process", len(site.ports))
        return text.response()

    async def serve() -> Running:
        metrics = HttpServer(scraped, lambda _: 0, lambda *_: False, clock)
        return replace(await serve_echo(), metrics=metrics)

    return serve


def test_its_metrics_are_served_by_the_host() -> None:
    """At the port that it has for them, until the host stops."""
    port = metrics_port("echo")
    found: dict[str, int] = {}

    async def opened(site: Site) -> Serve:
        found.update(site.ports)
        return await open_measured_echo(site)

    measured = replace(ECHO, ports=lambda given: {**ECHO.ports(given), port: 0}, open=opened)

    async def main() -> None:
        host = await Host.start([measured], given(measured), "/e", disk=SimulatedDisk())
        reader, writer = await asyncio.open_connection("127.0.0.1", found[port])
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"\necho_ports 2\n")
        writer.close()
        await host.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", found[port])

    driver.run(main())


def test_if_one_cannot_be_opened_none_is_served() -> None:
    """What was opened is closed, so that the next start finds nothing locked."""
    disk = SimulatedDisk()
    every = [NAMESERVER, BROKER, ECHO]

    async def main() -> None:
        disk.before = lambda _call, path: fail() if path.endswith("/log") else None
        with pytest.raises(DiskFailed, match="no log"):
            await Host.start(every, given(*every), "/s", disk=disk)
        disk.before = None
        host = await Host.start(every, given(*every), "/s", disk=disk)
        with pytest.raises(StoreLocked):
            await Host.start(every, given(*every), "/s", disk=disk)
        await host.stop()

    driver.run(main())


def fail() -> None:
    """Refuse a call."""
    raise DiskFailed("no log")


def test_its_settings_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed, checked and suggested like all others."""
    monkeypatch.setattr(products, "PRODUCTS", (*products.PRODUCTS, ECHO))
    assert "| `line_bytes_max` | integer | `80` | from 1 | Longest line. |" in cli_settings.page()
    loaded = cli_settings.load(
        products.PRODUCTS, GivenSettings(), ["echo.port=8", "line_bytes_max=9"]
    )
    assert loaded.of(EchoRoot).echo == EchoSettings(port=8, line_bytes_max=9)
    with pytest.raises(SettingsError, match=r"did you mean echo\.port"):
        cli_settings.load(products.PRODUCTS, GivenSettings(), ["echo.prot=8"])
    with pytest.raises(SettingsError, match="expected a whole number, 0 to 65535"):
        cli_settings.load(products.PRODUCTS, GivenSettings(), ["echo.port=70000"])


UP = """
from tests.contract.test_a_second_product import ECHO
from sprocket.cli.main import main
from sprocket.node import products

products.PRODUCTS = (*products.PRODUCTS, ECHO)
main()
"""


@pytest.mark.slow
def test_sprocket_up_serves_it(tmp_path: Path) -> None:
    """The ready line names it, and a signal ends it like the others."""
    process = subprocess.Popen(
        [sys.executable, "-c", UP, "up", "--data", str(tmp_path / "s")]
        + [word for one in (*FREE[:3], "amqp.port=0") for word in ("--set", one)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(
            r"ready nameserver=\S+ broker=\S+ data=\S+ amqp=\S+ amqp-http=\S+ "
            r"amqp-metrics=\S+ echo=(\S+)\n",
            line,
        )
        assert found, line
        assert asyncio.run(say(found[1], b"hello\n")) == b"hello\n"
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=LONG_SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, told
    assert found[1] in told
    assert (tmp_path / "s" / "echo" / "log").read_bytes() == b"hello\n"
