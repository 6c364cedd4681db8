"""A disk for somebody who copies: between two calls others go on, a little or a lot."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from sprocket.testing.disk import SimulatedDisk

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


class Load(Protocol):
    """What works on a disk while it is copied."""

    disk: SimulatedDisk

    def work(self) -> None:
        """Do one thing."""


T = TypeVar("T", bound=Load)


def work(load: Load, count: int) -> None:
    """Do so many things."""
    for _ in range(count):
        load.work()


def now_and_then(load: Load, rng: random.Random) -> Callable[[], None]:
    """Return what is done between any two looks: something now and then, or a lot."""
    every = rng.choice((0.2, 1.0, 3.0))
    return lambda: work(load, int(every) + (rng.random() < every % 1))


class AtLook:
    """Has something happen between two looks, and nothing between any others.

    Args:
        number: Before which look, from 1.
        happens: What.

    Attributes:
        looks: How many there were.
    """

    def __init__(self, number: int, happens: Callable[[], None]) -> None:
        self.looks = 0
        self._number = number
        self._happens = happens

    def __call__(self) -> None:
        """Look."""
        self.looks += 1
        if self.looks == self._number:
            self._happens()


def require_any_look(
    made: Callable[[random.Random], T],
    check: Callable[[T, Callable[[], None]], None],
    *,
    count: int,
    every: int = 1,
) -> None:
    """Check copies of which each has much done at another look.

    Args:
        made: Makes what works.
        check: Copies its disk while something is done, and compares.
        count: How many things are done, before the copy and at the look.
        every: At every how manieth look.
    """
    number = looks = 0
    while number <= looks:
        load = made(random.Random(number))
        work(load, count)
        at = AtLook(number, partial(work, load, count))
        check(load, at)
        looks = at.looks
        number += every
    assert looks > 50
