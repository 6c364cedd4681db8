"""The two brokers that speak AMQP in the benches: `sprocket up`, and the real RabbitMQ 3.10.8."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop import peers, rabbitmq_node

START_SECONDS_MAX = 120.0
COMPILED = {
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(peers.ROOT / "build/bytecode"),
}
"""An installed package is compiled, and so is RabbitMQ: what a start takes is not to compile."""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker that runs: its port for AMQP, and the process that does the work."""

    port: int
    pid: int


class SprocketAmqp:
    """`sprocket up` with AMQP, on a data folder; without RocketMQ unless options say otherwise.

    `source` is the folder of the package that runs.
    """

    def __init__(
        self,
        folder: Path,
        options: Sequence[str] = ("--no-rocketmq",),
        source: Path = peers.ROOT / "src",
    ) -> None:
        self.folder = folder
        self._options = options
        self._source = source
        self._process: peers.Process | None = None

    def start(self) -> Node:
        """Start it and wait until it serves."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = str(self.folder / "data")
        command = [sys.executable, "-m", "sprocket.cli.main", "up", "--data", data]
        process = self._process = peers.Process(
            [*command, "--amqp-port", "0", *self._options],
            self.folder / "sprocket.log",
            {"PYTHONPATH": str(self._source), **COMPILED},
        )
        port = 0

        def is_ready() -> bool:
            nonlocal port
            process.check()
            for line in process.said().splitlines():
                if line.startswith("ready "):
                    said = dict(part.partition("=")[::2] for part in line.split()[1:])
                    port = int(said["amqp"].rpartition(":")[2])
            return port > 0

        peers.wait_until(is_ready, "`sprocket up`", seconds=START_SECONDS_MAX, every=0.005)
        return Node(port, process.pid)

    def stop(self) -> None:
        """Stop it cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.end(number)


@contextmanager
def ours(
    folder: Path,
    options: Sequence[str] = ("--no-rocketmq",),
    source: Path = peers.ROOT / "src",
) -> Iterator[Node]:
    """Run ours for a while."""
    runs = SprocketAmqp(folder, options, source)
    try:
        yield runs.start()
    finally:
        runs.kill()


@contextmanager
def theirs(folder: Path) -> Iterator[Node]:
    """Run RabbitMQ for a while. Raises PeerMissing."""
    with rabbitmq_node.RabbitNode(rabbitmq_node.installed(), folder) as node:
        node.start()
        yield Node(node.port, node.beam_pid)
