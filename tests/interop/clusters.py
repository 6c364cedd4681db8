"""NameServers and brokers one by one, ours and the real ones, for clusters of any shape."""

import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop import link, peers
from tests.interop.peers import ROOT, Process
from tests.waits import LONG_SECONDS

READY_SECONDS_MAX = LONG_SECONDS
PROGRAM = ("-m", "sprocket.cli.main")
"""What Python runs for the command `sprocket`."""


@dataclass(frozen=True)
class Run:
    """How a command of ours is run.

    Attributes:
        program: What Python runs for `sprocket`.
        wrapper: What the command begins with, before Python.
    """

    program: Sequence[str] = PROGRAM
    wrapper: Sequence[str] = ()


PLAIN = Run()


class Cluster:
    """The processes of one cluster; each is known by its address.

    Args:
        folder: Holds a folder of each process.
        jars: Of RocketMQ; needed for the real ones only.
        source: The folder with the package of ours that is run.
    """

    def __init__(
        self, folder: Path, jars: Path | None = None, *, source: Path = ROOT / "src"
    ) -> None:
        self.folder = folder
        self._jars = jars
        self._source = source
        self._processes: dict[str, Process] = {}
        self._count = 0

    def nameserver(self, *options: str, address: str = "") -> str:
        """Start `sprocket nameserver`, on a free port unless one is given; return its address."""
        port = address.rpartition(":")[2] or str(peers.free_port())
        found = self._ours("nameserver", "--port", port, *options)
        return found["nameserver"]

    def broker(
        self,
        name: str,
        nameservers: Sequence[str],
        *options: str,
        port: int | None = None,
        store: str = "",
        run: Run = PLAIN,
    ) -> str:
        """Start `sprocket broker` and return its address; its store is named like it by default.

        Args:
            name: The broker's.
            nameservers: Where it registers.
            options: More of its options.
            port: Where it listens; any by default.
            store: Another name of its folder.
            run: How it is run.
        """
        port = port or peers.free_port((-2, 0, 1))
        names = ["-n", ";".join(nameservers)] if nameservers else []
        given = ["--port", str(port), *names, "--set", f"broker.name={name}", *options]
        data = self.folder / (store or name)
        return self._ours("broker", *given, data=data, run=run)["broker"]

    def real_nameserver(self, settings: Mapping[str, object] | None = None) -> str:
        """Start the NameServer of RocketMQ 5.3.3 and return its address."""
        port = peers.free_port()
        address = f"127.0.0.1:{port}"
        given = {"listenPort": port, "bindAddress": "127.0.0.1", **(settings or {})}
        self._real("namesrv.NamesrvStartup", address, given, heap="256m")
        peers.wait_until(lambda: is_answered(address, link.CLUSTER_INFO), "the NameServer")
        return address

    def real_broker(
        self,
        name: str,
        nameservers: Sequence[str],
        settings: Mapping[str, object] | None = None,
        *,
        store: str = "",
        port: int | None = None,
        heap: str = "512m",
    ) -> str:
        """Start the broker of RocketMQ 5.3.3, by default as a master, and return its address."""
        port = port or peers.free_port((-2, 0, 1))
        address = f"127.0.0.1:{port}"
        root = self.folder / (store or name)
        given = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "haListenPort": port + 1,
            "namesrvAddr": ";".join(nameservers),
            "storePathRootDir": root,
            "storePathCommitLog": root / "commitlog",
            "mappedFileSizeCommitLog": 64 << 20,
            "diskMaxUsedSpaceRatio": 95,
            **(settings or {}),
        }
        self._real("broker.BrokerStartup", address, given, heap=heap)
        peers.wait_until(
            lambda: is_answered(address, link.BROKER_RUNTIME_INFO), "the RocketMQ broker"
        )
        return address

    def kill(self, address: str) -> None:
        """End one process with SIGKILL."""
        self._processes.pop(address).end(signal.SIGKILL)

    def stop(self, address: str) -> int:
        """End one process cleanly and return its code."""
        return self._processes.pop(address).end()

    def pid(self, address: str) -> int:
        """Return the process behind an address."""
        return self._processes[address].pid

    def close(self) -> None:
        """End what still runs, the latest first."""
        for address in reversed(list(self._processes)):
            self._processes.pop(address).end(signal.SIGKILL)

    def is_over(self, address: str) -> bool:
        """Say whether a process has ended by itself."""
        return self._processes[address].is_over

    def _ours(
        self,
        command: str,
        *options: str,
        data: Path | None = None,
        run: Run = PLAIN,
    ) -> dict[str, str]:
        self._count += 1
        folder = self.folder / f"{command}-{self._count}"
        folder.mkdir(parents=True)
        process = Process(
            [
                *(*run.wrapper, sys.executable, *run.program, command),
                *("--data", str(data or folder / "data"), *options),
            ],
            folder / "log",
            {"PYTHONPATH": f"{self._source}:{ROOT}"},
        )
        found: dict[str, str] = {}

        def is_ready() -> bool:
            process.check()
            line = re.search(r"^ready (.*)$", process.said(), re.MULTILINE)
            if line is not None:
                found.update(part.partition("=")[::2] for part in line.group(1).split())
            return line is not None

        try:
            peers.wait_until(
                is_ready, f"`sprocket {command}`", seconds=READY_SECONDS_MAX, every=0.01
            )
        except BaseException:
            process.end(signal.SIGKILL)
            raise
        self._processes[found.get(command, "")] = process
        return found

    def _real(self, main: str, address: str, settings: Mapping[str, object], heap: str) -> None:
        assert self._jars is not None, "the jars of RocketMQ are needed"
        self._count += 1
        folder = self.folder / f"real-{self._count}"
        folder.mkdir(parents=True)
        configuration = folder / "given.conf"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [*peers.java(self._jars, home=folder, heap=heap), f"org.apache.rocketmq.{main}"]
        self._processes[address] = Process([*command, "-c", str(configuration)], folder / "log")


def is_answered(address: str, code: int) -> bool:
    """Say whether a server answers a request with success."""
    try:
        with link.Link(address, timeout=5) as connection:
            return connection.ask(code, {}).code == link.SUCCESS
    except OSError:
        return False
