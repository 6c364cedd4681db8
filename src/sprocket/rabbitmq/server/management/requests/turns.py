"""Work on many objects, done some at a time, so that everybody else is served in between.

What is made of each of 10,000 queues or connections takes a quarter of a second, and belongs to the
loop, since it reads what the loop changes. What lies between two pieces sees the world as it is
then: a function that iterates over something that changes meanwhile needs a list of it.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count, islice
from typing import Final, TypeVar

from sprocket.rabbitmq.server.management.requests.answers import encode
from sprocket.runtime.slices import Sliced, Slicer

_PIECE_ENTRIES: Final = 32
"""Made between two readings of the clock; a view of a queue takes 20 µs."""
_RUN_ENTRIES: Final = 512
"""What is sorted at once, in half a millisecond."""

T = TypeVar("T")
R = TypeVar("R")


async def in_turns(
    items: Iterable[T],
    make: Callable[[list[T]], R],
    slicer: Slicer,
    *,
    at_once: int = _PIECE_ENTRIES,
) -> list[R]:
    """Return what is made of some items at once, letting others be served now and then.

    Args:
        items: All of them, in their order.
        make: Called with this many of them at a time.
        slicer: Does the work.
        at_once: How many; together they take a millisecond at most.
    """

    def work() -> Sliced[list[R]]:
        found: list[R] = []
        source = iter(items)
        while some := list(islice(source, at_once)):
            found.append((yield partial(make, some)))
        return found

    return await slicer.run(work())


async def made_of_each(items: Iterable[T], make: Callable[[T], R], slicer: Slicer) -> list[R]:
    """Return what is made of each."""
    found: list[R] = []
    await in_turns(items, lambda some: found.extend([make(one) for one in some]), slicer)
    return found


async def in_order(
    items: Sequence[T], key: Callable[[T], tuple[object, ...]], slicer: Slicer
) -> list[T]:
    """Return items sorted by a key; those whose keys are equal stay as they are."""
    keys = await made_of_each(items, key, slicer)
    runs = await in_turns(zip(keys, count(), strict=False), sorted, slicer, at_once=_RUN_ENTRIES)
    if len(runs) == 1:
        return [items[at] for _, at in runs[0]]
    return await made_of_each(heapq.merge(*runs), lambda one: items[one[1]], slicer)


async def json_array(
    items: Iterable[T],
    view: Callable[[T], object | None],
    slicer: Slicer,
    *,
    write: Callable[[object], bytes] = encode,
) -> list[bytes]:
    """Return a JSON array of views, in pieces: no more than a few views are there at a time.

    Args:
        items: What is shown of.
        view: Makes the view of one; None if it no longer exists.
        slicer: Does the work.
        write: Makes the JSON of some views.
    """
    start = b"["

    def piece(some: list[T]) -> bytes:
        nonlocal start
        views = [one for one in map(view, some) if one is not None]
        if not views:
            return b""
        before, start = start, b","
        return before + write(views)[1:-1]

    found = await in_turns(items, piece, slicer)
    return [*found, b"]"] if start == b"," else [b"[]"]
