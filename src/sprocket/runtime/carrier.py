"""What the connections of one event loop share: who has to write, who is slow, the sweep."""

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from sprocket.runtime.driver import Peer

SWEEP_SECONDS = 5.0
"""How often idle connections are looked for; they close at most this much late."""


class Carrier:
    """What the connections of one event loop share: who has something to write, and the sweep."""

    def __init__(self) -> None:
        self._dirty: list[Peer] = []
        self.peers: set[Peer] = set()
        """All connections of the loop."""
        self._slow: set[Peer] = set()
        self.slow_bytes = 0
        """What waits for peers that do not take their answers."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, peer: "Peer") -> None:
        """Begin to watch a connection."""
        self.peers.add(peer)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._swept)

    def remove(self, peer: "Peer") -> None:
        """Forget a connection that is gone."""
        self.peers.discard(peer)
        if not self.peers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add_dirty(self, peer: "Peer") -> None:
        """Promise that `peer` is flushed in this turn of the loop."""
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self.flush)
        self._dirty.append(peer)

    def flush(self) -> None:
        """Write what every connection has queued, one write for each."""
        dirty, self._dirty = self._dirty, []
        for peer in dirty:
            peer.flush()

    def count_slow(self, peer: "Peer", before: int, waiting: int) -> int:
        """Count what waits for a slow peer, 0 for one that is not slow any more; return it."""
        self.slow_bytes += waiting - before
        if waiting:
            self._slow.add(peer)
        elif before:
            self._slow.discard(peer)
        return waiting

    def cut_slow(self, bytes_max: int) -> None:
        """Cut off the peer for which most waits if all together are beyond `bytes_max`."""
        if self.slow_bytes > bytes_max:
            slowest = max(self._slow, key=lambda peer: peer.pending_bytes)
            count = len(self._slow)
            slowest.abort(f"{self.slow_bytes} bytes wait for {count} peers, most of all for it")

    def sweep(self, seconds: float) -> None:
        """Tell every connection that `seconds` have passed; O(connections)."""
        for peer in list(self.peers):
            peer.sweep(seconds)

    def abort_all(self, reason: str) -> None:
        """Close every connection at once and drop what is queued, as the end of a process does."""
        for peer in list(self.peers):
            peer.abort(reason)

    def _swept(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._swept)
        self.sweep(SWEEP_SECONDS)


_carriers: WeakKeyDictionary[asyncio.AbstractEventLoop, Carrier] = WeakKeyDictionary()


def carrier() -> Carrier:
    """Return what the connections of the running event loop share."""
    loop = asyncio.get_running_loop()
    found = _carriers.get(loop)
    if found is None:
        found = _carriers[loop] = Carrier()
    return found
