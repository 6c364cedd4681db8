"""The official SDKs of RocketMQ 5, at Sprocket and at the real proxy: `make interop-grpc`.

    python -m tests.interop.sdk_runs [--sdk NAME …] [--scenario NAME …] [--sprocket-alone]

Each SDK has a program in `sdks` that plays scenarios and says what it was told. The same program
plays them at both servers, one after the other, and must be told the same: what passes at the proxy
passes here.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tests.interop import peers
from tests.interop.peers import ROOT, Process, Sprocket, free_port, java, wait_until

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import blocking
from sprocket.rocketmq.model.group import SubscriptionGroup

SDKS: Final = Path(__file__).parent / "sdks"
PROXY_LIB: Final = "SPROCKET_ROCKETMQ_PROXY_LIB"
"""Names the folder with the jars of the proxy 5.3.3 and all that it needs."""
PREFIX: Final = "Sdk"
TYPES: Final[Mapping[str, str]] = {
    "normal": "NORMAL",
    "push": "NORMAL",
    "fifo": "FIFO",
    "delay": "DELAY",
    "transaction": "TRANSACTION",
    "orphan": "TRANSACTION",
    "nack": "NORMAL",
    "forward": "FIFO",
    "tags": "NORMAL",
    "sql": "NORMAL",
    "recall": "DELAY",
    "refused": "NORMAL",
    "reconnect": "NORMAL",
}
"""The kind of messages of each scenario's topic."""
RIGHT: Final[Mapping[str, Any]] = {
    "push": [f"m{number}" for number in range(10)],
    "fifo": {group: [f"{group}{number}" for number in range(10)] for group in ("a", "b")},
    "delay": {"bodies": ["later"], "is_in_time": True},
    "transaction": ["yes"],
    "orphan": ["orphan"],
    "nack": [["again", 1], ["again", 2]],
    "forward": ["bad", "bad", "good"],
    "tags": ["b", "c"],
    "sql": ["m2", "m3"],
    "recall": {"bodies": ["second"], "is_id": True},
    "reconnect": {"acknowledged": 60, "missing": []},
}
"""What an SDK is to be told, where that does not depend on the SDK. The proxy gives a message twice
whose transaction is committed while it is asked about, and after a kill some consumers get nothing
from it for a while."""
IN_ORDER: Final = frozenset({"fifo", "forward"})
"""Scenarios whose group consumes in order."""
ATTEMPTS: Final = {"forward": 1}
"""How often a message comes again, in scenarios that wait for the end of that."""
_NOT_CALLED: Final = frozenset({"push", "fifo", "forward", "recall", "reconnect"})
LACKS: Final = {
    "go": _NOT_CALLED,
    "rust": frozenset({"push", "nack", "forward", "recall"}),
}
"""What SDKs have not: those for Go (5.1.2) and Rust (5.0.0) have no consumer that is called, and no
recall; that for Rust cannot change an invisible time."""
SCENARIO_SECONDS: Final = 150.0


class Served(Protocol):
    """A broker that serves SDKs, whoever wrote it."""

    nameserver: str
    grpc: str

    @property
    def pid(self) -> int:
        """The process that answers gRPC."""

    def start(self) -> None:
        """Start it, again on its ports if it ran before."""

    def stop(self) -> None:
        """End it cleanly."""

    def kill(self) -> None:
        """End it with SIGKILL."""


class SprocketServed:
    """`sprocket up`, which asks soon about transactions."""

    name = "sprocket"

    def __init__(self, folder: Path, more: Sequence[str] = ()) -> None:
        nameserver, broker, grpc = (free_port() for _ in range(3))
        self.nameserver, self.grpc = f"127.0.0.1:{nameserver}", f"127.0.0.1:{grpc}"
        options = [
            *("--nameserver-port", str(nameserver), "--broker-port", str(broker)),
            *("--grpc-port", str(grpc), "--set", "server.vip_port=false"),
            *("--set", "transactions.timeout_ms=1000"),
            *("--set", "transactions.check_interval_ms=2000"),
            *more,
        ]
        self._process = Sprocket(folder, folder / "data", options)

    @property
    def pid(self) -> int:
        """See `Served`."""
        return self._process.pid

    def start(self) -> None:
        """See `Served`."""
        self._process.start()

    def stop(self) -> None:
        """See `Served`."""
        self._process.stop()

    def kill(self) -> None:
        """See `Served`."""
        self._process.kill()


class ProxyServed:
    """The real proxy 5.3.3 in local mode, with a broker in its process, and a NameServer."""

    name = "proxy"

    def __init__(self, folder: Path) -> None:
        self._jars = proxy_library()
        self._folder = folder
        self._grpc, self._remoting, self._name = free_port(), free_port(), free_port()
        self._broker = free_port((-2, 0, 1))
        self.nameserver, self.grpc = f"127.0.0.1:{self._name}", f"127.0.0.1:{self._grpc}"
        self._processes: list[Process] = []

    @property
    def pid(self) -> int:
        """See `Served`."""
        return self._processes[-1].pid

    def start(self) -> None:
        """See `Served`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._run(
            "namesrv.NamesrvStartup",
            "256m",
            [
                "-c",
                self._file(
                    "namesrv.conf",
                    {
                        "listenPort": self._name,
                    },
                ),
            ],
        )
        store = self._folder / "store"
        broker = self._file(
            "broker.conf",
            {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": 0,
                "brokerIP1": "127.0.0.1",
                "listenPort": self._broker,
                "haListenPort": self._broker + 1,
                "namesrvAddr": self.nameserver,
                "storePathRootDir": store,
                "storePathCommitLog": store / "commitlog",
                "diskMaxUsedSpaceRatio": 95,
                "transactionTimeOut": 1000,
                "transactionCheckInterval": 2000,
                "recallMessageEnable": True,
                "enablePropertyFilter": True,
                "timerWheelEnable": True,
                "autoCreateTopicEnable": False,
            },
        )
        proxy = self._folder / "rmq-proxy.json"
        proxy.write_text(
            json.dumps(
                {
                    "rocketMQClusterName": "DefaultCluster",
                    "namesrvAddr": self.nameserver,
                    "grpcServerPort": self._grpc,
                    "remotingListenPort": self._remoting,
                    "localServeAddr": "127.0.0.1",
                }
            )
        )
        arguments = ["-pm", "local", "-bc", broker, "-pc", str(proxy), "-n", self.nameserver]
        self._run("proxy.ProxyStartup", "768m", arguments)
        wait_until(self._is_ready, "the proxy")

    def stop(self) -> None:
        """See `Served`."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """See `Served`."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        while self._processes:
            self._processes.pop().end(number)

    def _file(self, name: str, settings: Mapping[str, object]) -> str:
        path = self._folder / name
        texts = {
            key: str(value).lower() if isinstance(value, bool) else value
            for key, value in settings.items()
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in texts.items()))
        return str(path)

    def _run(self, main: str, heap: str, arguments: Sequence[str]) -> None:
        command = [
            *java(self._jars, home=self._folder, heap=heap),
            f"org.apache.rocketmq.{main}",
            *arguments,
        ]
        name = main.partition(".")[0]
        self._processes.append(Process(command, self._folder / f"{name}.log"))

    def _is_ready(self) -> bool:
        for process in self._processes:
            process.check()
        try:
            with blocking.Admin(self.nameserver) as admin:
                return bool(admin.route("SELF_TEST_TOPIC").brokers)
        except ClientError:
            return False


def proxy_library() -> Path:
    """Return the folder with the jars of the proxy. Raises PeerMissing."""
    folder = Path(os.environ.get(PROXY_LIB, ROOT / ".peers/rocketmq-proxy-5.3.3/lib"))
    if not (folder / "rocketmq-proxy-5.3.3.jar").exists():
        raise peers.PeerMissing(f"no proxy 5.3.3 in {folder}; prepare it with: make peers-sdks")
    return folder


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """An SDK and the program that uses it.

    Attributes:
        name: Its language.
        command: Starts the program; arguments follow.
        lacks: Scenarios that the SDK cannot play.
    """

    name: str
    command: Sequence[str]
    lacks: frozenset[str] = field(default_factory=frozenset)


def sdks(folder: Path) -> list[Sdk]:
    """Return the SDKs that are prepared, which `make peers-sdks` does.

    Args:
        folder: For what is compiled.
    """
    found = []
    python = Path(os.environ.get("SPROCKET_SDK_PYTHON", f"{sdk_folder('python')}/bin/python"))
    if python.exists():
        found.append(Sdk(name="python", command=[str(python), str(SDKS / "python/peer.py")]))
    if Path(sdk_folder("node"), "node_modules/rocketmq-client-nodejs").exists():
        found.append(Sdk(name="node", command=["node", str(SDKS / "node/peer.js")]))
    jars = Path(sdk_folder("java"), "lib")
    if jars.exists():
        classes = peers.compile_java(jars, folder, [SDKS / "java/Peer.java"])
        found.append(Sdk(name="java", command=["java", "-cp", f"{classes}:{jars}/*", "Peer"]))
    for name, lacks in LACKS.items():
        program = Path(sdk_folder(name), "peer")
        if program.exists():
            found.append(Sdk(name=name, command=[str(program)], lacks=lacks))
    return found


def sdk_folder(name: str) -> str:
    """Return where an SDK is installed."""
    made = str(ROOT / f".peers/sdks/{name}")
    return os.environ.get(f"SPROCKET_SDK_{name.upper()}", made)


def prepare(served: Served, names: Sequence[str]) -> None:
    """Make topics and groups of scenarios."""
    with blocking.Admin(served.nameserver) as admin:
        for name in names:
            topic = PREFIX + name
            attributes = {"+message.type": TYPES[name]}
            admin.topic.create(topic, 4, attributes=attributes)
            admin.group.create(
                SubscriptionGroup(
                    name=f"{topic}-group",
                    consume_message_orderly=name in IN_ORDER,
                    retry_times_max=ATTEMPTS.get(name, 16),
                )
            )


def play(sdk: Sdk, served: Served, names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return what an SDK was told in each scenario."""
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {}
    with (folder / "said.log").open("w") as log:
        child = subprocess.Popen(
            [*sdk.command, served.grpc, PREFIX, *names],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "HOME": str(folder), "SPROCKET_SDK_NODE": sdk_folder("node")},
        )
        assert child.stdout is not None
        try:
            for line in child.stdout:
                log.write(line)
                if not line.startswith("{"):
                    continue
                said = json.loads(line)
                if "begun" in said:
                    served.kill()
                    served.start()
                elif "scenario" in said:
                    told[said["scenario"]] = said["told"]
                    print(
                        f"  {sdk.name} {said['scenario']}: {json.dumps(said['told'])}", flush=True
                    )
            child.wait(SCENARIO_SECONDS)
        finally:
            child.kill()
            child.wait()
    return told


def run(
    make: Callable[[Path], Served], chosen: Sequence[Sdk], names: Sequence[str], folder: Path
) -> dict[str, dict[str, Any]]:
    """Return what each SDK was told by one server."""
    found = {}
    for sdk in chosen:
        served = make(folder / sdk.name)
        served.start()
        try:
            own = [name for name in names if name not in sdk.lacks]
            prepare(served, own)
            found[sdk.name] = play(sdk, served, own, folder / sdk.name / "client")
        finally:
            served.stop()
    return found


def main() -> int:
    """Play all that is asked for, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sdk", action="append", default=[])
    parser.add_argument("--scenario", action="append", default=[])
    parser.add_argument("--sprocket-alone", action="store_true")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sprocket-sdks-"))
    chosen = [one for one in sdks(folder) if not asked.sdk or one.name in asked.sdk]
    missing = {*(asked.sdk or ("python", "node", "java", *LACKS))} - {one.name for one in chosen}
    if missing:
        print(f"not prepared: {', '.join(sorted(missing))}; see make peers-sdks", file=sys.stderr)
        return 2
    names = asked.scenario or [*TYPES]
    told = {"sprocket": run(SprocketServed, chosen, names, folder / "sprocket")}
    if not asked.sprocket_alone:
        told["proxy"] = run(ProxyServed, chosen, names, folder / "proxy")
    shutil.rmtree(folder)
    return report(told)


def report(told: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> int:
    """Say what passed, and return how the process ends."""
    differs = 0
    ours, theirs = told["sprocket"], told.get("proxy", {})
    for sdk, scenarios in ours.items():
        for name, what in scenarios.items():
            other = theirs.get(sdk, {}).get(name, what)
            if other == what:
                continue
            if RIGHT.get(name) == what:
                print(f"{sdk} {name}: right here, at the proxy {other}")
                continue
            differs += 1
            print(f"DIFFERS {sdk} {name}\n  sprocket {what}\n  proxy    {other}")
    print(f"{sum(map(len, ours.values()))} scenarios, {differs} differ")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
