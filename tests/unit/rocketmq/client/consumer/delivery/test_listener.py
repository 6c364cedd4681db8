"""What a listener raises decides what becomes of its messages."""

import asyncio
import contextlib
from typing import Any

import pytest

from sprocket.rocketmq.client import ReceivedMessage
from sprocket.rocketmq.client.consumer.delivery import DeadLetter, DeliverLater
from sprocket.rocketmq.client.consumer.delivery import listener as listeners
from sprocket.rocketmq.client.consumer.delivery.listener import (
    DEAD_LETTER_LEVEL,
    Failure,
    Withdrawn,
)
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.route import MessageQueue


def messages(count: int) -> list[ReceivedMessage]:
    """Return so many messages of one queue."""
    return [
        ReceivedMessage(
            StoredMessage("t", 0, n, 0, 9, 0, 0, "", 0, "", 0, 0, 0, 0, 0, {}, b""),
            MessageQueue("t", "b", 0),
        )
        for n in range(count)
    ]


def outcome(error: BaseException | None, count: int = 4, *, waits: bool = False) -> Failure | None:
    """Call a listener that raises `error`."""

    def plain(_: Any) -> None:
        if error is not None:
            raise error

    async def waiting(got: Any) -> None:
        await asyncio.sleep(0)
        plain(got)

    return asyncio.run(listeners.call(waiting if waits else plain, messages(count)))


@pytest.mark.parametrize("waits", [False, True])
def test_returning_means_done(waits: bool) -> None:
    """Of plain and of async listeners."""
    assert outcome(None, waits=waits) is None


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("error", "rest", "level", "pause_ms"),
    [
        (ValueError("no"), 4, 0, None),
        (DeliverLater("later"), 4, 0, None),
        (DeliverLater(level=7, done=3), 1, 7, None),
        (DeliverLater(pause_ms=70, done=-1), 4, 0, 70),
        (DeadLetter("poison", done=2), 2, DEAD_LETTER_LEVEL, None),
    ],
)
def test_raising_says_what_is_not_done(
    error: Exception, rest: int, level: int, pause_ms: int | None, waits: bool
) -> None:
    """The last messages of a call, and when to deliver them again."""
    failure = outcome(error, waits=waits)
    assert failure is not None
    assert [one.queue_offset for one in failure.rest] == list(range(4))[4 - rest :]
    assert (failure.level, failure.pause_ms, failure.error) == (level, pause_ms, error)
    assert not failure.is_withdrawn


def test_raising_with_everything_done_is_done() -> None:
    """There is nothing to deliver again."""
    assert outcome(DeliverLater(done=4)) is None


def test_withdrawing_decides_nothing() -> None:
    """Neither done nor failed."""
    failure = outcome(Withdrawn())
    assert failure is not None
    assert failure.is_withdrawn


ANYTHING = (
    asyncio.CancelledError("not asked for"),
    StopIteration(1),
    StopAsyncIteration(),
    GeneratorExit(),
    KeyboardInterrupt(),
    SystemExit(1),
    BaseException("bare"),
    BaseExceptionGroup("several", [SystemExit(1), ValueError("no")]),
)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("error", ANYTHING, ids=repr)
def test_anything_at_all_that_is_raised_is_a_failure(error: BaseException, waits: bool) -> None:
    """Whatever its class: the messages of the call are not done, and the caller goes on."""
    failure = outcome(error, waits=waits)
    assert failure is not None
    assert len(failure.rest) == 4
    assert error in (failure.error, failure.error.__cause__)


def test_a_cancellation_of_the_caller_passes() -> None:
    """Who closes a consumer ends the listener's call, and nothing is decided."""

    async def hang(_: Any) -> None:
        await asyncio.sleep(3600)

    async def main() -> None:
        task = asyncio.ensure_future(listeners.call(hang, messages(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_listener_that_keeps_a_cancellation_to_itself_does_not_hold_up_the_end() -> None:
    """The call ends as cancelled, though the listener returned as if nothing were."""

    async def stubborn(_: Any) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

    async def main() -> None:
        task = asyncio.ensure_future(listeners.call(stubborn, messages(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [{"level": "3"}, {"done": None}, {"pause_ms": 1.5}], ids=str)
def test_numbers_that_are_none_are_refused_where_they_are_given(wrong: dict[str, Any]) -> None:
    """So that what a listener raises never breaks who handles it."""
    with pytest.raises(ValueError, match="expected an integer"):
        DeliverLater(**wrong)
