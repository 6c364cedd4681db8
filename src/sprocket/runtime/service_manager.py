"""Notifies the service manager that has started this process: systemd with `Type=notify`.

A datagram to the socket that it names has lines `NAME=VALUE`. Without such a socket nothing is
sent.

Source: sd_notify(3), sd_watchdog_enabled(3); their protocol is promised to stay.
"""

import os
import socket
from collections.abc import Mapping

from sprocket.base import log

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
"""The variables by which it says where, how often and who."""

_log = log.get_limited_logger(__name__)


class ServiceManager:
    """Tells it how this process is.

    Args:
        environment: Of the process.

    Threads: any, one at a time.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        path = environment.get(SOCKET, "")
        # An `@` stands for the zero byte before the name of a socket that is not a file.
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self._socket: socket.socket | None = None
        self.watchdog_seconds = _watchdog_seconds(environment) if path else None
        """The process is taken for stuck if it is not heard of for this long; None is never."""

    def tell(self, **values: str) -> None:
        """Send some lines; one that cannot be sent now is left out, and that is logged.

        Args:
            values: Such as `READY="1"`, `STATUS` with a line for people, or `WATCHDOG="1"`.
        """
        if not self._address:
            return
        lines = "\n".join(f"{name}={' '.join(text.split())}" for name, text in values.items())
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            self._socket.sendto(lines.encode(), self._address)
        except OSError as error:
            _log.warning("the service manager cannot be told", lines=lines, why=str(error))

    def close(self) -> None:
        """Tell nothing more."""
        self._address = ""
        if self._socket is not None:
            self._socket.close()


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Return how often this process, and no other, has to be heard of."""
    text = environment.get(WATCHDOG_US, "")
    if environment.get(WATCHDOG_PID, str(os.getpid())) != str(os.getpid()):
        return None
    return int(text) / 1e6 if text.isdecimal() and int(text) else None
