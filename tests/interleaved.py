"""A disk for somebody who copies: between two calls others go on."""

from collections.abc import Callable
from typing import Any

CALLS = frozenset(("open", "list", "sizes", "folders", "size", "next_data", "exists"))
"""Calls between which something happens; those that only the copy changes need no such thing."""


class InterleavedDisk:
    """A disk of which each look, also into a file, comes after something else has happened.

    Args:
        disk: The disk, of whatever kind.
        meanwhile: What happens.
    """

    def __init__(self, disk: Any, meanwhile: Callable[[], None]) -> None:
        self._disk = disk
        self._meanwhile = meanwhile

    def read(self, position: int, size: int) -> bytes:
        """Read a file, of which something else is written meanwhile: before, and in the middle."""
        self._meanwhile()
        data: bytes = self._disk.read(position, size // 2)
        self._meanwhile()
        end: bytes = self._disk.read(position + size // 2, size - size // 2)
        return data + end

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._disk, name)
        if name not in CALLS:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._meanwhile()
            returned = found(*arguments, **options)
            is_read = name == "open" and not options.get("write")
            return InterleavedDisk(returned, self._meanwhile) if is_read else returned

        return call
