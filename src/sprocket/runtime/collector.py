"""Python's cycle collector in a process that serves: it looks rarely, and at little in one go.

A message makes a few tracked objects and no cycle, so the default of a look for each 700 of them
finds nothing again and again; under load that took a seventh of the time. But while the collector
looks, the event loop stands still, some 80 ns for each object that is looked at: 8 ms for 100,000
new ones, and 200 ms for tables that have grown to millions.

So a look comes with each `YOUNG_OBJECTS` more that are there than at the last one. After each look
that is not only at the newest, what is left is never looked at again (`gc.freeze`): it was there
at two looks, so it is what tables hold, or what serves a connection. It still goes at once when
nothing refers to it any more, as nearly everything does; only cycles of it are never found. A
connection that ends leaves none (under uvloop; asyncio's own transports do).
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS = 10_000
"""More objects than at the last look; about 0.8 ms, and 3 MiB of garbage at the worst."""
_LOOKS_BETWEEN = 4
"""Looks at the newest objects alone before one at all that came since the last such."""
LOOK_OBJECTS_MAX = (_LOOKS_BETWEEN + 3) * YOUNG_OBJECTS
"""The most that one look is at; about 5 ms."""


@contextmanager
def rare() -> Iterator[None]:
    """Have the collector look so; at the end it is as it was. What is there is not looked at."""
    before = gc.get_threshold()
    frozen_before = gc.get_freeze_count()
    keep()
    gc.set_threshold(YOUNG_OBJECTS, _LOOKS_BETWEEN, _LOOKS_BETWEEN)
    gc.callbacks.append(_looked)
    try:
        yield
    finally:
        gc.callbacks.remove(_looked)
        gc.set_threshold(*before)
        if not frozen_before:
            gc.unfreeze()


def keep() -> None:
    """Have nothing looked at any more that is there now: for what was made by a start."""
    gc.freeze()


def _looked(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()
