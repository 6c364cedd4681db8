"""Kafka's broker in a process of its own, for benches; `make peers-kafka` fetches it."""

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Self

from tests.interop import peers

BROKER_VERSION = "4.3.1"
CONNECTOR_VERSION = "4.2.0"
PREPARE = "make peers-kafka"
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
_JVM = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""As Kafka's own start script has them."""


def connector() -> list[Path]:
    """Return the jars that make Spark read and write Kafka's topics.

    Raises:
        PeerMissing: They are not there.
    """
    folder = peers.ROOT / f".peers/spark-kafka-{CONNECTOR_VERSION}/lib"
    if not (folder / f"spark-sql-kafka-0-10_2.13-{CONNECTOR_VERSION}.jar").exists():
        raise peers.PeerMissing(f"no connector in {folder}; prepare it with: {PREPARE}")
    return sorted(folder.glob("*.jar"))


class Kafka:
    """One node that is broker and controller, with Kafka's defaults.

    Args:
        folder: For its settings, its log and its output.
        queues: Partitions of a topic that is made by its first use.
    """

    def __init__(self, folder: Path, queues: int) -> None:
        self._folder = folder
        self._queues = queues
        self._process: peers.Process | None = None
        self.address = ""
        self.pid = 0

    def __enter__(self) -> Self:
        jars = peers.ROOT / f".peers/kafka-{BROKER_VERSION}/lib"
        if not (jars / f"kafka_2.13-{BROKER_VERSION}.jar").exists():
            raise peers.PeerMissing(f"no Kafka in {jars}; prepare it with: {PREPARE}")
        if shutil.which("java") is None:
            raise peers.PeerMissing(f"no java: install a JDK of version 17, then: {PREPARE}")
        self._folder.mkdir(parents=True)
        port = peers.free_port((0, 1))
        self.address = f"127.0.0.1:{port}"
        controller = f"127.0.0.1:{port + 1}"
        listeners = f"PLAINTEXT://{self.address},CONTROLLER://{controller}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": self._folder / "log",
            "num.partitions": self._queues,
        }
        file = self._folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        java = ["java", *_JVM, "-cp", f"{jars}/*"]
        made = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(file)]
        subprocess.run([*java, *made], check=True, capture_output=True)
        log = self._folder / "kafka.log"
        self._process = peers.Process([*java, "kafka.Kafka", str(file)], log)
        self.pid = self._process.pid
        try:
            peers.wait_until(self._is_ready, "Kafka")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.end()

    def _is_ready(self) -> bool:
        assert self._process is not None
        self._process.check()
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0
