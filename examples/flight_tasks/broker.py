"""The broker of the job: `sprocket up` with AMQP alone, killed and started again at its place."""

import sys
from pathlib import Path

from examples.flights.processes import LOG_LINE, Child, Children, first_ready, free_port

READY_SECONDS_MAX = 60.0


class Broker:
    """One `sprocket up` on a port and a folder that it keeps.

    Args:
        held: Ends it with the job.
        data: Its folder.
        log: What it says goes there.
    """

    def __init__(self, held: Children, data: Path, log: Path) -> None:
        self._held = held
        self._data = data
        self._log = log
        self._port = free_port(5672)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Where Celery goes; the virtual host is `/`."""
        return f"amqp://guest:guest@127.0.0.1:{self._port}//"

    def start(self) -> list[str]:
        """Start it, wait until it is ready, and return how it introduced itself.

        Raises:
            Failed: It was not ready in time.
        """
        command = [str(Path(sys.executable).with_name("sprocket")), "up", "--no-rocketmq"]
        command += ["--data", str(self._data), "--amqp-port", str(self._port)]
        # Nobody asks for it here, and its usual port may be another broker's.
        command += ["--amqp-http-port", "off", "--set", "amqp_http.metrics_port=off"]
        self._child = self._held.start("the broker", command, self._log)
        self._child.wait_for(first_ready, READY_SECONDS_MAX)
        return [line for line in self._child.lines() if not LOG_LINE.match(line)]

    def kill(self) -> None:
        """Kill it with -9."""
        assert self._child is not None, "it was started"
        self._child.kill()

    def stop(self) -> None:
        """Stop it cleanly."""
        assert self._child is not None, "it was started"
        self._child.stop()
