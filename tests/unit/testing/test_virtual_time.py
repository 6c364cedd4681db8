"""Time passes at once, in order, and a test that would hang says so."""

import asyncio
import time

import pytest
from tests import virtual_time
from tests.virtual_time import LoopClock, Stuck
from tests.waits import LONG_SECONDS


def test_an_hour_passes_at_once() -> None:
    """A sleep of an hour returns after an hour of the loop's time and none of ours."""

    async def main() -> tuple[float, int]:
        clock = LoopClock()
        began = clock.now_ms()
        await asyncio.sleep(3600)
        return clock.monotonic(), clock.now_ms() - began

    began = time.monotonic()
    assert virtual_time.run(main()) == (3600.0, 3_600_000)
    assert time.monotonic() - began < LONG_SECONDS


def test_timers_fire_in_their_order() -> None:
    """What is due earlier happens earlier, whatever was asked for first."""
    seen = []

    async def note(after: float) -> None:
        await asyncio.sleep(after)
        seen.append(after)

    async def main() -> None:
        await asyncio.gather(note(3), note(1), note(2))

    virtual_time.run(main())
    assert seen == [1, 2, 3]


def test_waiting_for_nothing_is_an_error() -> None:
    """A future that nobody will resolve ends the test instead of hanging it."""

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        virtual_time.run(main())
