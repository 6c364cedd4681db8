"""The processes that the interop tests and benches talk to: the real RocketMQ 5.3.3, and ours.

Each process is started with a folder of its own for everything it writes, listens on 127.0.0.1 on
free ports, is known by its pid and ended by it. Ports lie below 32768, outside the range from which
outgoing connections take theirs, since a broker must get its port back when it is started again.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol, Self

from tests.interop import link
from tests.waits import LONG_SECONDS

ROOT = Path(__file__).resolve().parents[2]
PREPARE = "make peers"
"""The one command that fetches what is missing."""

CLIENTS = {"5.3.3": "SPROCKET_ROCKETMQ_LIB", "4.9.8": "SPROCKET_ROCKETMQ_4_LIB"}
"""Versions of the Java client, and the variable that names the folder with a version's jars."""

SPRING = "2.3.1"
"""Version of `rocketmq-spring-boot-starter`, as `java/pom-spring.xml` names it."""

GO_CLIENT = "v2.1.2"
"""Version of `rocketmq-client-go/v2`, as `go/go.mod` names it."""
GO_PREPARE = "make peers-go"
"""The one command that builds the Go program."""

ADD_OPENS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
)
"""What RocketMQ's own start scripts open on Java 17."""

START_SECONDS_MAX = LONG_SECONDS
"""A quiet machine needs 7 to 16; one that runs other tests beside it, minutes."""
STOP_SECONDS_MAX = LONG_SECONDS


class PeerMissing(Exception):
    """A peer is not installed; the text says what is missing and the command that prepares it."""


class Broker(Protocol):
    """A NameServer and a broker that run, whoever wrote them."""

    nameserver: str
    address: str
    pid: int

    def stop(self) -> None:
        """End it cleanly."""

    def kill(self) -> None:
        """End it with SIGKILL."""


def library(version: str = "5.3.3") -> Path:
    """Return the folder with the jars of one version, 5.3.3 (broker and client) or 4.9.8 (client).

    The environment names it (see `CLIENTS`), or it is what `make peers` made.

    Raises:
        PeerMissing: The jars, `java` or `javac` are not there.
    """
    made = ROOT / f".peers/rocketmq-{version}/lib"
    folder = Path(os.environ.get(CLIENTS[version], made))
    part = "broker" if version == "5.3.3" else "client"
    if not (folder / f"rocketmq-{part}-{version}.jar").exists():
        raise PeerMissing(f"no RocketMQ {version} jars in {folder}; prepare them with: {PREPARE}")
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise PeerMissing(f"no {tool}: install a JDK of version 17, then: {PREPARE}")
    return folder


def signing_library(version: str) -> Path:
    """Return the folder of `library`, if the client can sign with what is there.

    Raises:
        PeerMissing: As `library`, or the jar with the hook that signs is missing.
    """
    folder = library(version)
    if version != "5.3.3" and not (folder / f"rocketmq-acl-{version}.jar").exists():
        raise PeerMissing(f"no rocketmq-acl-{version}.jar in {folder}; prepare it with: {PREPARE}")
    return folder


def spring_library() -> Path:
    """Return the folder with Spring's jars, as `library` does. Raises PeerMissing."""
    made = ROOT / f".peers/rocketmq-spring-{SPRING}/lib"
    folder = Path(os.environ.get("SPROCKET_ROCKETMQ_SPRING_LIB", made))
    jar = folder / f"rocketmq-spring-boot-starter-{SPRING}.jar"
    if not jar.exists() or shutil.which("java") is None:
        raise PeerMissing(f"no {jar.name} in {folder}, or no java; prepare them with: {PREPARE}")
    return folder


def go_program() -> Path:
    """Return the Go program, `SPROCKET_GO_PEER` or what `make peers-go` built.

    Raises:
        PeerMissing: It is not there, or older than its source.
    """
    made = os.environ.get("SPROCKET_GO_PEER")
    program = Path(made) if made else ROOT / ".peers/go/peer"
    if not program.exists():
        raise PeerMissing(
            f"no program with the Go client at {program}; build it with: {GO_PREPARE}"
        )
    sources = (Path(__file__).parent / "go").iterdir()
    if not made and max(file.stat().st_mtime for file in sources) > program.stat().st_mtime:
        raise PeerMissing(f"{program} is older than its source; build it with: {GO_PREPARE}")
    return program


JAVA = Path(__file__).parent / "java"
TOOLS_SOURCE = JAVA / "Mqadmin.java"
"""What needs RocketMQ's tools; the client 4.9.8 comes without."""
RESUME_SOURCE = JAVA / "Resume.java"
"""As that."""
POPPED_SOURCE = JAVA / "Popped.java"
"""As that."""
TIMED_SOURCE = JAVA / "Timed.java"
"""What needs a client that knows of times: 4.9.8 does not."""
SPRING_SOURCE = JAVA / "spring/Shop.java"
"""What needs Spring Boot."""
FILTER_SOURCE = JAVA / "SqlTable.java"
"""What needs the broker's filter, which clients come without too."""
SIGNED_SOURCE = JAVA / "Signed.java"
"""What needs the hook that signs: 4.9.8 has it in a jar of its own."""
SWITCH_SOURCE = JAVA / "AutoSwitch.java"
"""What needs the broker's store, which clients come without."""
CLIENT_SOURCES = tuple(
    sorted(
        {*JAVA.glob("*.java")}
        - {TOOLS_SOURCE, RESUME_SOURCE, POPPED_SOURCE, TIMED_SOURCE, FILTER_SOURCE, SIGNED_SOURCE}
        - {SWITCH_SOURCE}
    )
)
"""What uses the client alone, so that every version of it can be compiled against."""


def compile_java(jars: Path, folder: Path, sources: Sequence[Path] = CLIENT_SOURCES) -> Path:
    """Compile Java programs against `jars` and return the folder with the classes."""
    command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def free_port(around: Sequence[int] = (0,)) -> int:
    """Return a port below 32768 which is free, together with those at the distances `around`."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        if all(_is_free(port + distance) for distance in around):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_until(
    holds: Callable[[], bool], what: str, *, seconds: float = START_SECONDS_MAX, every: float = 0.1
) -> None:
    """Ask `holds` every `every` seconds until it says yes; `TimeoutError` naming `what` if never.

    Another process tells nobody when it is ready, so here, and only here, time is waited for.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)


def pause(seconds: float) -> None:
    """Let another process go on for a while, to kill it at a moment that it does not choose."""
    time.sleep(seconds)


class Process:
    """A child process with its output in a file."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None):
        self.log = log
        self._file: IO[bytes] = log.open("ab")
        self._start = log.stat().st_size
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env=None if env is None else {**os.environ, **env},
        )
        self.pid = self._child.pid

    def check(self) -> None:
        """Raise with the end of its output if it ended by itself."""
        if self._child.poll() is not None:
            raise RuntimeError(f"process ended with {self._child.returncode}:\n{self.tail()}")

    @property
    def is_over(self) -> bool:
        """Whether it has ended by itself."""
        return self._child.poll() is not None

    def said(self) -> str:
        """Return all it wrote since it started."""
        return self.log.read_bytes()[self._start :].decode(errors="replace")

    def tail(self) -> str:
        """Return the last 4,000 characters it wrote."""
        return self.said()[-4_000:]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal, wait for the end, by SIGKILL if it takes too long; return its code."""
        if self._child.poll() is None:
            self._child.send_signal(number)
            try:
                self._child.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._file.close()
        return self._child.returncode


@dataclass(kw_only=True)
class RocketMQ:
    """The real RocketMQ 5.3.3: a NameServer and, on the store folder `store`, a broker."""

    jars: Path
    folder: Path
    store: Path
    settings: Mapping[str, object] = field(default_factory=dict)
    heap: str = "512m"
    nameserver: str = ""
    address: str = ""
    pid: int = 0
    _processes: list[Process] = field(default_factory=list)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start both and wait until the NameServer knows the broker: 7 to 16 seconds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name_port, port = free_port(), free_port((-2, 0, 1))
        self.nameserver, self.address = f"127.0.0.1:{name_port}", f"127.0.0.1:{port}"
        self._run("namesrv.NamesrvStartup", "256m", {"listenPort": name_port})
        broker = self._run(
            "broker.BrokerStartup",
            self.heap,
            {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": 0,
                "brokerIP1": "127.0.0.1",
                "listenPort": port,
                "haListenPort": port + 1,
                "namesrvAddr": self.nameserver,
                "storePathRootDir": self.store,
                "storePathCommitLog": self.store / "commitlog",
                "flushDiskType": "SYNC_FLUSH",
                "diskMaxUsedSpaceRatio": 95,
                "waitTimeMillsInSendQueue": 5000,
                **self.settings,
            },
        )
        self.pid = broker.pid
        wait_until(self._is_ready, "the RocketMQ broker")
        return self

    def stop(self) -> None:
        """End broker and NameServer cleanly, in this order."""
        while self._processes:
            self._processes.pop().end()

    def kill(self) -> None:
        """End both with SIGKILL."""
        while self._processes:
            self._processes.pop().end(signal.SIGKILL)

    def _run(self, main: str, heap: str, settings: Mapping[str, object]) -> Process:
        name = main.partition(".")[0]
        configuration = self.folder / f"{name}.conf"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        process = Process(
            [
                *java(self.jars, home=self.folder, heap=heap),
                f"org.apache.rocketmq.{main}",
                "-c",
                str(configuration),
            ],
            self.folder / f"{name}.log",
        )
        self._processes.append(process)
        return process

    def _is_ready(self) -> bool:
        for process in self._processes:
            process.check()
        return _knows_broker(self.nameserver) and _answers(self.address)


class Sprocket:
    """`sprocket up` in a process of its own, on the data folder `store`.

    Args:
        folder: For its output.
        store: Its data folder.
        options: More of its options.
        source: The folder with the package that is run.
    """

    def __init__(
        self,
        folder: Path,
        store: Path,
        options: Sequence[str] = (),
        *,
        source: Path = ROOT / "src",
    ) -> None:
        self.source = source
        self.folder = folder
        self.store = store
        self.options = tuple(options)
        self.nameserver = ""
        self.address = ""
        self.pid = 0
        self._process: Process | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start it on free ports and wait for its line `ready nameserver=… broker=… data=…`."""
        process = self.launch()

        def is_ready() -> bool:
            process.check()
            for line in process.said().splitlines():
                if line.startswith("ready "):
                    said = dict(part.partition("=")[::2] for part in line.split()[1:])
                    self.nameserver, self.address = said["nameserver"], said["broker"]
                    return True
            return False

        try:
            wait_until(is_ready, "`sprocket up`", seconds=LONG_SECONDS, every=0.01)
        except BaseException:
            self.kill()
            raise
        return self

    def launch(self) -> Process:
        """Start the process and wait for nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "sprocket.cli.main", "up", "--data", str(self.store)]
        ports = ["--nameserver-port", "0", "--broker-port", "0"]
        if (self.source / "sprocket/node/rabbitmq.py").exists():  # an older tree has no AMQP
            ports.append("--no-amqp")
        self._process = Process(
            [*command, *ports, *self.options],
            self.folder / "sprocket.log",
            {"PYTHONPATH": str(self.source)},
        )
        self.pid = self._process.pid
        return self._process

    def stop(self) -> None:
        """End it with SIGTERM; it must end with code 0."""
        if self._process is not None:
            process, self._process = self._process, None
            code = process.end()
            assert code == 0, f"`sprocket up` ended with {code}:\n{process.tail()}"

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            process, self._process = self._process, None
            process.end(signal.SIGKILL)


def java(jars: Path, *, home: Path, heap: str = "256m", classes: Path | None = None) -> list[str]:
    """Return the command that runs a class of `jars`; logs and stores go below `home`."""
    path = f"{jars}/*" if classes is None else f"{classes}:{jars}/*"
    return [
        "java",
        f"-Xms{heap}",
        f"-Xmx{heap}",
        *ADD_OPENS,
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        "-cp",
        path,
    ]


def mqadmin(jars: Path, home: Path, nameserver: str, *arguments: str) -> str:
    """Run one `mqadmin` subcommand to its end; return what it printed, less its logger's talk."""
    command = [
        *java(jars, home=home),
        "org.apache.rocketmq.tools.command.MQAdminStartup",
        *arguments,
        "-n",
        nameserver,
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    said = "".join(line for line in done.stdout.splitlines(True) if " |-" not in line)
    assert done.returncode == 0, f"mqadmin {arguments}: {said}\n{done.stderr[-4000:]}"
    return said


def _knows_broker(nameserver: str) -> bool:
    try:
        with link.Link(nameserver, timeout=5) as connection:
            return b"broker-a" in connection.call(link.CLUSTER_INFO, {}).body
    except (OSError, link.Refused):
        return False


def _answers(broker: str) -> bool:
    try:
        with link.Link(broker, timeout=5) as connection:
            return connection.ask(link.BROKER_RUNTIME_INFO, {}).code == link.SUCCESS
    except OSError:
        return False
