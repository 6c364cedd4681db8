"""Requests whose answers are about everything there is; see `runtime.slices`."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from sprocket.base.errors import RequestRefused
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import FRAME_BYTES_MAX
from sprocket.rocketmq.remoting import Answer, Handler, answer, failed
from sprocket.runtime.driver import Peer
from sprocket.runtime.slices import Sliced, Slices

SlicedHandler: TypeAlias = Callable[[Peer, Command], Sliced[Answer]]
"""Handles one request, in slices."""

BODY_BYTES_MAX = FRAME_BYTES_MAX - 64 * KIB
"""The longest body that a frame takes with any header."""


def slicing(handlers: Mapping[int, SlicedHandler], slices: Slices) -> dict[int, Handler]:
    """Return handlers that do the work of these on the loop, in slices.

    Args:
        handlers: By code.
        slices: Does it.
    """
    return {code: _Slicing(handler, slices) for code, handler in handlers.items()}


class Body:
    """A body in the making.

    Attributes:
        pieces: What it is made of so far.
    """

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._bytes = 0

    def add(self, piece: bytes) -> None:
        """Add a piece.

        Raises:
            RequestRefused: No frame takes so much, so no client could read it.
        """
        self.pieces.append(piece)
        self._bytes += len(piece)
        if self._bytes > BODY_BYTES_MAX:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"the answer is longer than the {FRAME_BYTES_MAX} bytes that a frame may have; "
                "ask about one topic or group at a time",
            )


def body(pieces: Iterator[bytes]) -> Sliced[list[bytes]]:
    """Make a body of pieces, of which each is one call.

    Raises:
        RequestRefused: No frame takes it.
    """
    made = Body()
    while (piece := (yield partial(next, pieces, None))) is not None:
        made.add(piece)
    return made.pieces


class _Slicing:
    """A handler that works in slices."""

    def __init__(self, handler: SlicedHandler, slices: Slices) -> None:
        self._handler = handler
        self._slices = slices

    def __call__(self, peer: Peer, request: Command) -> None:
        self._slices.run(
            self._handler(peer, request),
            lambda what: answer(peer, request, what),
            lambda error: answer(peer, request, failed(peer, request, error)),
        )
