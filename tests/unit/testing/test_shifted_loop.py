"""Timers that are made due before their time."""

import asyncio
import time

from tests.waits import LONG_SECONDS

from sprocket.testing.shifted_loop import ShiftedLoop


def test_a_jump_makes_timers_due() -> None:
    """A sleep of an hour ends at once when the hour is jumped, and not before."""
    began = time.monotonic()
    with asyncio.Runner(loop_factory=ShiftedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, ShiftedLoop)

        async def main() -> list[bool]:
            sleeping = asyncio.ensure_future(asyncio.sleep(3600))
            seen = []
            for _ in range(3):
                await asyncio.sleep(0)
            seen.append(sleeping.done())
            loop.jump(3600)
            for _ in range(3):
                await asyncio.sleep(0)
            seen.append(sleeping.done())
            return seen

        assert runner.run(main()) == [False, True]
    assert time.monotonic() - began < LONG_SECONDS


def test_time_goes_on_by_itself() -> None:
    """Without a jump a short pause ends too."""
    with asyncio.Runner(loop_factory=ShiftedLoop) as runner:
        runner.run(asyncio.sleep(0.001))
