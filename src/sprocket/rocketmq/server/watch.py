"""Notices when a connection closes for which something was kept."""

from collections.abc import Callable

from sprocket.runtime.driver import Peer


class Watch:
    """Calls `left` once for each connection that was watched and has closed.

    Threads: event loop only.
    """

    def __init__(self, left: Callable[[Peer], None]) -> None:
        self._left = left
        self._watched: set[Peer] = set()

    def __call__(self, peer: Peer) -> None:
        """Watch a connection; any number of times counts once."""
        if peer not in self._watched:
            self._watched.add(peer)
            peer.on_close.append(self._closed)

    def _closed(self, peer: Peer) -> None:
        self._watched.discard(peer)
        self._left(peer)
