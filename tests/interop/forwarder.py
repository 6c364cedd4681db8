"""A TCP forwarder whose connections are cut, or say nothing more, when a test says so."""

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

_PIECE = 64 * 1024
_REQUEST_BYTES_MAX = 16 * 1024


class Way(Enum):
    """Which way bytes go."""

    THERE = auto()
    """To the port that is forwarded to."""
    BACK = auto()


class Fate(Enum):
    """What becomes of a request that was looked at."""

    CARRIED = auto()
    UNANSWERED = auto()
    """It arrives, and nothing comes back on its connection any more."""
    LOST = auto()
    """It does not arrive, and nothing comes back either."""


Look = Callable[[bytes], Fate]
"""Given what a connection has carried lately, up to its newest bytes."""


@dataclass(eq=False)
class Carried:
    """One connection that is carried: both its halves."""

    source: socket.socket
    target: socket.socket
    is_mute: bool = False
    """Nothing comes back on it."""
    lately: bytearray = field(default_factory=bytearray)
    """What it has carried last, for whoever looks at it."""

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
        is_closed: Whether it takes no more.
        look: Decides what becomes of what is carried there; None: all of it arrives.
    """

    def __init__(self, target: int, host: str = "127.0.0.1", port: int = 0) -> None:
        self._target = target
        self._host = host
        self.is_closed = False
        self._listener = socket.create_server((host, port))
        self.port: int = self._listener.getsockname()[1]
        self.open: list[Carried] = []
        self.look: Look | None = None
        self._goes = {way: threading.Event() for way in Way}
        self.go_on()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections, and end those that there are."""
        self.is_closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or it would take one more
        self._listener.close()
        for one in list(self.open):
            one.cut()
        self.go_on()

    def again(self) -> "Forwarder":
        """Return another one in the place of this one, which is closed."""
        return Forwarder(self._target, self._host, self.port)

    def stop(self, *ways: Way) -> None:
        """Carry nothing these ways, although all connections stay, and new ones are taken."""
        for way in ways:
            self._goes[way].clear()

    def go_on(self) -> None:
        """Carry what was held back, and all that comes."""
        for one in self._goes.values():
            one.set()

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
            for way, one, other in ((Way.THERE, source, target), (Way.BACK, target, source)):
                ends = (made, way, one, other)
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, made: Carried, way: Way, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                self._goes[way].wait()
                if self._arrives(made, way, data):
                    target.sendall(data)
        made.cut()
        with contextlib.suppress(ValueError):
            self.open.remove(made)

    def _arrives(self, made: Carried, way: Way, data: bytes) -> bool:
        """Say whether bytes arrive that a connection has brought."""
        look = self.look
        if way is Way.BACK:
            return not made.is_mute
        if look is None:
            return True
        made.lately += data
        del made.lately[:-_REQUEST_BYTES_MAX]
        fate = look(bytes(made.lately))
        made.is_mute |= fate is not Fate.CARRIED
        return fate is not Fate.LOST


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
