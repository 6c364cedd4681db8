"""A TCP forwarder whose connections are cut when a test says so."""

import contextlib
import random
import socket
import threading
import time
from dataclasses import dataclass

_PIECE = 64 * 1024


@dataclass(frozen=True, eq=False)
class Carried:
    """One connection that is carried: both its halves."""

    source: socket.socket
    target: socket.socket

    def cut(self) -> None:
        """End it at once, wherever it is in what it carries."""
        for one in (self.source, self.target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Forwarder:
    """Carries connections from one port of this machine to another, both ways.

    Args:
        target: Where to, a port of 127.0.0.1.
        host: Where it listens.
        port: The same; 0 for any.

    Attributes:
        port: Where it listens.
        open: What it carries now.
    """

    def __init__(self, target: int, host: str = "127.0.0.1", port: int = 0) -> None:
        self._target = target
        self._listener = socket.create_server((host, port))
        self.port: int = self._listener.getsockname()[1]
        self.open: list[Carried] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections, and end those that there are."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or it would take one more
        self._listener.close()
        for one in list(self.open):
            one.cut()

    def _accept(self) -> None:
        while True:
            try:
                source, _ = self._listener.accept()
            except OSError:
                return
            try:
                target = socket.create_connection(("127.0.0.1", self._target), 5)
            except OSError:
                source.close()
                continue
            for one in (source, target):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                one.settimeout(None)
            made = Carried(source, target)
            self.open.append(made)  # it may be cut from now on
            for one, other in ((source, target), (target, source)):
                threading.Thread(target=self._carry, args=(made, one, other), daemon=True).start()

    def _carry(self, made: Carried, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                target.sendall(data)
        made.cut()
        with contextlib.suppress(ValueError):
            self.open.remove(made)


def cut_at_random(forwarder: Forwarder, count: int, seed: int) -> None:
    """Cut so many connections, each at some instant within a second after it was made."""
    instants = random.Random(seed)
    due: dict[Carried, float] = {}
    while count:
        now = time.monotonic()
        for one in list(forwarder.open):
            if one not in due:
                due[one] = now + instants.choice((0.0, 0.01, instants.random()))
            elif due[one] <= now and count:
                one.cut()
                due[one] = now + 3600
                count -= 1
        time.sleep(0.005)
