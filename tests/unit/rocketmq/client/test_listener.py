"""What a listener raises decides what becomes of its messages."""

import asyncio
from typing import Any

import pytest

from sprocket.rocketmq.client import listener as listeners
from sprocket.rocketmq.client.listener import (
    DEAD_LETTER_LEVEL,
    DeadLetter,
    DeliverLater,
    Failure,
    Withdrawn,
)
from sprocket.rocketmq.client.received import ReceivedMessage
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


def outcome(error: Exception | None, count: int = 4, *, waits: bool = False) -> Failure | None:
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
