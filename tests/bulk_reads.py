"""What a reader makes of bytes that come in one buffer, each read over the one before."""

from collections.abc import Iterable
from typing import Any


def received(reader: Any, pieces: Iterable[bytes]) -> list[Any]:
    """Return all that a reader gives of pieces, as they come by `runtime.driver.bulk`."""
    found: list[Any] = []
    for piece in pieces:
        buffer = bytearray(piece)
        found += reader.receive(memoryview(buffer))
        buffer[:] = b"\xee" * len(buffer)
    return found
