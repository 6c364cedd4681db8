"""A broker that is killed and started again at the same place, for whoever must find it again."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.interop import peers


class Broker:
    """`sprocket up` in a process of its own, on ports that it keeps.

    Args:
        folder: Its data folder.
        settings: Of its settings, as `log.segment_bytes=262144`.
    """

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        self.folder = folder
        self.nameserver = f"127.0.0.1:{peers.free_port()}"
        self._port = peers.free_port((-2, 0, 1))
        self._settings = [part for setting in settings for part in ("--set", setting)]
        self.start()

    def start(self) -> None:
        """Start it, and return when it is ready."""
        names = self.nameserver.rpartition(":")[2]
        command = [
            sys.executable,
            "-m",
            "sprocket.cli.main",
            "up",
            "--data",
            str(self.folder),
            "--no-amqp",
        ]
        command += ["--nameserver-port", names, "--broker-port", str(self._port), *self._settings]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert re.match(r"ready nameserver=", ready), f"the broker did not come up: {ready!r}"

    def kill(self) -> None:
        """Kill it with -9."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
