"""Why a peer is not read: each reason by itself, and all of them at once, taken back in any order.

The transport is one that notes what it is told; `tests/contract/test_drivers.py` has real ones.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations

import pytest
from tests.timers import FakeTimers

from sprocket.base.errors import WireError
from sprocket.runtime.driver import (
    Buffer,
    ConnectionSettings,
    Peer,
    PeerState,
    PortPolicy,
    ReadHold,
    carrier,
)
from sprocket.runtime.driver.peer import LARGE_READ_BYTES
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.settings import ClientLimits
from sprocket.runtime.turns import TURN_WORK, Turns
from sprocket.testing.clock import FakeClock


class Octets:
    """Makes an event of each octet."""

    broken: WireError | None = None

    def receive(self, data: bytes) -> Sequence[int]:
        """Return them."""
        return list(data)


class NotedTransport(asyncio.Transport):
    """A socket whose other side takes what the test lets it.

    Attributes:
        is_read: Whether the peer wants to be told of what comes.
        written: What it was given.
    """

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.is_read = True
        self.written: list[Buffer] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the test says when it is full."""

    def get_write_buffer_size(self) -> int:
        """Return little."""
        return 1

    def pause_reading(self) -> None:
        """See `is_read`."""
        self.is_read = False

    def resume_reading(self) -> None:
        """See `is_read`."""
        self.is_read = True

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Keep it."""
        self.written += list_of_data

    def close(self) -> None:
        """Do nothing: the test says when it is lost."""

    def abort(self) -> None:
        """Do nothing either."""


class Scene:
    """A peer of a port, and all that may have a reason against its being read."""

    def __init__(
        self,
        *,
        reads_on_when_slow: bool = False,
        withheld: Callable[[object], int] | None = None,
    ) -> None:
        self.pressure = Pressure(100, 1)
        self.timers = FakeTimers(FakeClock())
        self.turns = Turns(self.timers)
        self.handled = 0
        self.work = 0
        """What each event is."""
        policy = PortPolicy(
            pressure=self.pressure,
            turns=self.turns,
            reads_on_when_slow=reads_on_when_slow,
            withheld=withheld,
        )
        limits = ClientLimits(answer_bytes_high=1000)
        peers: set[Peer] = set()
        self.peer = Peer(Octets(), self._handle, ConnectionSettings(limits=limits), peers, policy)
        self.transport = NotedTransport()
        self.peer.connection_made(self.transport)

    def _handle(self, *_: object) -> None:
        self.handled += 1
        self.turns.work_left -= self.work

    def begin(self, why: ReadHold) -> None:
        """Give a reason not to read it."""
        match why:
            case ReadHold.SLOW:
                self.peer.pause_writing()
            case ReadHold.STOPPED:
                self.peer.stop_reading()
            case ReadHold.TURN_OVER:
                self.turns.work_left = 0
                self.peer.data_received(bytes(LARGE_READ_BYTES))
            case ReadHold.PRESSURE:
                self.pressure.weigh(99)
                self.peer.data_received(b"xx")

    def end(self, why: ReadHold) -> None:
        """Take it back."""
        match why:
            case ReadHold.SLOW:
                self.peer.resume_writing()
            case ReadHold.STOPPED:
                self.peer.start_reading()
            case ReadHold.TURN_OVER:
                self.timers.drain()
            case ReadHold.PRESSURE:
                self.pressure.weigh(0)


REASONS = (ReadHold.TURN_OVER, ReadHold.PRESSURE, ReadHold.STOPPED, ReadHold.SLOW)
"""In an order in which all of them can be given: one that is held is not read any more."""


@pytest.mark.parametrize("why", REASONS)
def test_each_reason_is_enough_and_goes_by_itself(why: ReadHold) -> None:
    """What comes in spite of it is kept, and handled first."""

    async def main() -> None:
        scene = Scene()
        scene.begin(why)
        assert (scene.peer.holds, scene.transport.is_read) == (why, False)
        handled = scene.handled
        scene.peer.data_received(b"kept")
        assert scene.handled == handled
        scene.end(why)
        assert (scene.peer.holds, scene.transport.is_read) == (0, True)
        assert scene.handled == handled + 4 + (LARGE_READ_BYTES if why is ReadHold.TURN_OVER else 0)

    asyncio.run(main())


@pytest.mark.parametrize("order", list(permutations(REASONS)))
def test_a_peer_is_read_after_the_last_reason_and_not_before(order: Sequence[ReadHold]) -> None:
    """Whatever is taken back first; when it takes its answers, what was kept may be handled."""

    async def main() -> None:
        scene = Scene()
        scene.work = TURN_WORK
        scene.begin(ReadHold.PRESSURE)
        scene.work = 0
        for why in (ReadHold.STOPPED, ReadHold.SLOW):
            scene.begin(why)
        assert (scene.peer.holds, scene.handled) == (sum(REASONS), 1)
        scene.peer.data_received(b"kept")
        for why in order:
            assert not scene.transport.is_read
            assert scene.handled == 1 or scene.peer.holds == ReadHold.PRESSURE
            scene.end(why)
        assert (scene.peer.holds, scene.transport.is_read, scene.handled) == (0, True, 6)

    asyncio.run(main())


def test_what_is_not_written_yet_is_a_reason_too() -> None:
    """Who is let go in the middle of its answers waits for the end of the turn."""

    async def main() -> None:
        scene = Scene()
        scene.peer.stop_reading()
        scene.peer.send([b"answer"])
        scene.peer.start_reading()
        assert (scene.peer.holds, scene.transport.written) == (ReadHold.SLOW, [])
        scene.peer.flush()
        assert (scene.peer.holds, scene.transport.written) == (0, [b"answer"])
        assert scene.transport.is_read

    asyncio.run(main())


def test_who_may_be_slow_is_never_held_for_it() -> None:
    """Neither by much that waits nor when it is let go in the middle of it."""

    async def main() -> None:
        scene = Scene(reads_on_when_slow=True)
        scene.peer.pause_writing()
        scene.peer.send([bytes(2000)])
        assert scene.peer.holds == 0
        scene.peer.stop_reading()
        scene.peer.start_reading()
        assert (scene.peer.holds, scene.transport.is_read) == (0, True)

    asyncio.run(main())


def test_who_is_stopped_may_be_read_ahead() -> None:
    """So far, and somebody may look at it; then nothing more is read."""

    async def main() -> None:
        scene = Scene()
        looked: list[int] = []
        scene.peer.stop_reading(ahead_bytes=5, on_kept=lambda: looked.append(scene.handled))
        assert (scene.peer.holds, scene.transport.is_read) == (ReadHold.STOPPED, True)
        scene.peer.data_received(b"abc")
        assert scene.transport.is_read
        scene.peer.data_received(b"abc")
        assert (scene.transport.is_read, looked) == (False, [0, 0])
        scene.peer.start_reading()
        assert scene.handled == 6

    asyncio.run(main())


def test_a_closed_peer_is_never_read_again() -> None:
    """Whoever takes a reason back afterwards changes nothing."""

    async def main() -> None:
        scene = Scene()
        for why in (ReadHold.PRESSURE, ReadHold.STOPPED, ReadHold.SLOW):
            scene.begin(why)
        scene.peer.close()
        for why in REASONS:
            scene.end(why)
        assert scene.peer.holds & ReadHold.ENDED
        assert (scene.handled, scene.transport.is_read) == (2, False)

    asyncio.run(main())


def test_a_connection_has_its_states_in_order() -> None:
    """Closed twice it is closed once; what cannot happen is an error that names both."""

    async def main() -> None:
        scene = Scene()
        peer = scene.peer
        assert (peer.state, peer.is_open) == (PeerState.OPEN, True)
        peer.close()
        peer.close()
        assert (peer.state, peer.is_open) == (PeerState.CLOSING, False)
        peer.abort("a test")
        peer.connection_lost(None)
        assert peer.state is PeerState.GONE
        peer.abort("late")
        assert peer.state is PeerState.GONE
        with pytest.raises(KeyError, match=r"PeerState.GONE.*LOST"):
            peer.connection_lost(None)

    asyncio.run(main())


def test_what_a_protocol_withholds_counts_as_of_a_slow_peer() -> None:
    """Beside what the socket does not take; and whoever keeps most is cut off for it."""

    async def main() -> None:
        withheld: dict[object, int] = {}
        scenes = [Scene(withheld=lambda one: withheld.get(one, 0)) for _ in range(2)]
        peers = [scene.peer for scene in scenes]
        slow = carrier()

        def keep(number: int, size: int) -> None:
            withheld[peers[number].connection] = size
            peers[number].data_received(b"x")

        keep(0, 500)
        keep(1, 700)
        assert (slow.slow_bytes, peers[0].pending_bytes) == (1_200, 501)
        peers[0].pause_writing()
        assert slow.slow_bytes == 1_201
        keep(0, 0)
        peers[0].resume_writing()
        assert slow.slow_bytes == 700
        keep(1, ClientLimits().all_answer_bytes_max)
        keep(0, 1)
        assert [peer.is_open for peer in peers] == [True, False]
        assert slow.slow_bytes == 1

    asyncio.run(main())
