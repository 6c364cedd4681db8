"""What connections share; who carries what is in tests/contract/test_drivers.py."""

import asyncio
import gc
import weakref

from sprocket.runtime.driver import Carrier, carrier


def test_what_connections_share_goes_with_their_loop() -> None:
    """A process that makes many loops, as tests do, does not keep them."""

    async def main() -> "weakref.ref[Carrier]":
        assert carrier() is carrier()
        return weakref.ref(carrier())

    found = asyncio.run(main())
    gc.collect()
    assert found() is None


class Slow:
    """A peer that does not read."""

    def __init__(self, shared: Carrier, waiting: int) -> None:
        self.pending_bytes = waiting
        self.reason = ""
        self._shared = shared
        self._counted = shared.count_slow(self, 0, waiting)  # type: ignore[arg-type]

    def abort(self, reason: str) -> None:
        """End it, as `Peer` does."""
        self.reason = reason
        self._counted = self._shared.count_slow(self, self._counted, 0)  # type: ignore[arg-type]


def test_one_is_cut_off_at_a_time() -> None:
    """The slowest, and no more once that was enough."""
    shared = Carrier()
    peers = [Slow(shared, waiting) for waiting in (10, 30, 20)]
    shared.cut_slow(60)
    assert [peer.reason for peer in peers] == ["", "", ""]
    shared.cut_slow(59)
    shared.cut_slow(59)
    assert [bool(peer.reason) for peer in peers] == [False, True, False]
    assert "60 bytes wait for 3 peers" in peers[1].reason
    assert shared.slow_bytes == 30
