"""A TCP forwarder whose connections are cut when a test says so."""

import contextlib
import socket
import threading

_PIECE = 64 * 1024


class Forwarder:
    """Carries connections to another port, both ways, until they are cut.

    Args:
        target: The port of this machine that it carries them to.
        port: Where it listens; 0 for any.

    Attributes:
        port: Where it listens.
        carried: How many bytes it has carried.
    """

    def __init__(self, target: int, port: int = 0) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.carried = 0
        self._open: list[socket.socket] = []
        self._is_cut = False
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def count(self) -> int:
        """How many connections it carries."""
        return len(self._open) // 2

    def cut(self, *, heals: bool = True) -> None:
        """End every connection at once, wherever it is in what it carries.

        Args:
            heals: Whether new ones are taken; if not, until `heal`.
        """
        with self._lock:
            self._is_cut = not heals
            ended, self._open = self._open, []
        for one in ended:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def heal(self) -> None:
        """Take new connections again."""
        self._is_cut = False

    def close(self) -> None:
        """Take no more connections, and end those that there are."""
        self._listener.close()
        self.cut(heals=False)

    def _accept(self) -> None:
        while True:
            try:
                source, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._is_cut:
                    raise OSError("cut")
                target = socket.create_connection(("127.0.0.1", self._target), 5)
            except OSError:
                source.close()
                continue
            with self._lock:
                self._open += [source, target]
            for one, other in ((source, target), (target, source)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            source.settimeout(None)
            while data := source.recv(_PIECE):
                target.sendall(data)
                self.carried += len(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        with self._lock:
            self._open = [one for one in self._open if one not in (source, target)]
