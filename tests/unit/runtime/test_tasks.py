"""Tasks that have an owner."""

import asyncio
import contextlib

import pytest
import structlog

from sprocket.base.errors import DiskFull
from sprocket.runtime import tasks
from sprocket.runtime.tasks import Tasks, is_set_within


def test_closing_cancels_and_awaits_every_task() -> None:
    """Their cleaning up is done when `close` returns; closing again does nothing."""

    async def main() -> None:
        ended = []

        async def work(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append(number)

        tasks = Tasks("owner")
        for number in range(3):
            tasks.spawn(work(number), f"work {number}")
        await asyncio.sleep(0)
        assert len(tasks) == 3
        await tasks.close()
        await tasks.close()
        assert sorted(ended) == [0, 1, 2]
        assert len(tasks) == 0

    asyncio.run(main())


@pytest.mark.parametrize("error", [DiskFull("no space"), ValueError("a bug")])
def test_a_round_that_fails_is_logged_and_others_follow(error: Exception) -> None:
    """Whether the disk refused something, or the code is wrong."""

    async def main() -> None:
        rounds = 0
        enough = asyncio.Event()

        def work() -> None:
            nonlocal rounds
            rounds += 1
            if rounds == 1:
                raise error
            enough.set()

        tasks = Tasks("owner")
        tasks.repeat(0, work, "rounds")
        await enough.wait()
        await tasks.close()

    with structlog.testing.capture_logs() as logged:
        asyncio.run(main())
    assert [(one["event"], one["round"]) for one in logged] == [
        ("a round of the broker failed; trying again", "rounds")
    ]


def test_a_failure_is_logged_with_its_names_and_the_others_go_on() -> None:
    """An error in a task is never silent."""

    async def main() -> None:
        async def fail() -> None:
            raise ValueError("a bug")

        tasks = Tasks("owner")
        other = tasks.spawn(asyncio.sleep(0, "fine"), "other")
        task = tasks.spawn(fail(), "fails")
        await asyncio.wait([task, other])
        assert other.result() == "fine"
        await tasks.close()

    with structlog.testing.capture_logs() as logs:
        asyncio.run(main())
    (entry,) = logs
    assert entry["task"] == "owner/fails"
    assert str(entry["exc_info"]) == "a bug"


def test_a_task_may_close_its_own_group() -> None:
    """It is not cancelled by that, nor waited for."""

    async def main() -> None:
        tasks = Tasks("owner")
        task = tasks.spawn(tasks.close(), "closer")
        await task
        assert not task.cancelled()

    asyncio.run(main())


def test_nothing_starts_in_a_closed_group() -> None:
    """The error names group and task."""

    async def main() -> None:
        tasks = Tasks("owner")
        await tasks.close()
        with pytest.raises(RuntimeError, match="owner is closed, late"):
            tasks.spawn(asyncio.sleep(0), "late")

    asyncio.run(main())


def test_an_event_is_waited_for_so_long() -> None:
    """Whether it is there, comes in time, or not."""

    async def main() -> None:
        event = asyncio.Event()
        assert not await is_set_within(0.0, event)
        asyncio.get_running_loop().call_soon(event.set)
        assert await is_set_within(60.0, event)
        assert await is_set_within(0.0, event)

    asyncio.run(main())


def test_work_goes_on_unless_an_event_comes() -> None:
    """What it returns is returned; what it raises is raised."""

    async def good() -> int:
        await asyncio.sleep(0)
        return 7

    async def bad() -> int:
        raise ValueError("bad")

    async def main() -> None:
        assert await tasks.unless(asyncio.Event(), good(), 1) == 7
        with pytest.raises(ValueError, match="bad"):
            await tasks.unless(asyncio.Event(), bad(), 1)

    asyncio.run(main())


def test_an_event_cancels_work() -> None:
    """It is awaited, and may refuse to end, which is told."""
    ended: list[str] = []

    async def good() -> bool:
        try:
            return await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("good")

    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    async def main() -> None:
        event = asyncio.Event()
        asyncio.get_running_loop().call_soon(event.set)
        assert await tasks.unless(event, good(), 1) is None
        assert ended == ["good"]
        with pytest.raises(tasks.NotEnded):
            await tasks.unless(event, stubborn(), 0)

    asyncio.run(main())
