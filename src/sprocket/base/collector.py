"""Python's garbage collector, kept out of work that makes very much that stays."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector from looking again and again through what is made to stay.

    It would take a sixth of the time that 100,000 queues take.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
