"""The function that users give to handle messages, and what it may return or raise."""

import asyncio
import inspect
from collections.abc import Sequence

from msgspec import Struct

from sprocket.base import log
from sprocket.rocketmq.client.consumer.plan import Listener
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.runtime.tasks import is_end_of

DEAD_LETTER_LEVEL = -1
"""The delay level that stands for the dead letters."""

_log = log.get_logger(__name__)


class DeliverLater(Exception):
    """Raised by a listener: deliver messages again, in another way than any other error does.

        async def listener(messages: list[ReceivedMessage]) -> None:
            for number, message in enumerate(messages):
                if not await shop.is_open():
                    raise DeliverLater("the shop is closed", level=14, done=number)
                await shop.order(message.body)

    Args:
        reason: For the log.
        level: Delay level of the broker, 1 to 18 unless it has others; 0 lets the broker choose,
            longer each time. An orderly consumer, which delivers again in place, ignores it.
        pause_ms: How long an orderly consumer pauses its queue; by default `suspend_ms`.
        done: How many of the messages, from the first on, are done anyway.
    """

    def __init__(
        self, reason: str = "", *, level: int = 0, pause_ms: int | None = None, done: int = 0
    ) -> None:
        for name, number in (("level", level), ("done", done), ("pause_ms", pause_ms or 0)):
            if not isinstance(number, int):
                raise ValueError(f"{name}={number!r} of a listener's error: expected an integer")
        super().__init__(reason)
        self.level = level
        self.pause_ms = pause_ms
        self.done = done


class DeadLetter(DeliverLater):
    """Raised by a listener: never deliver messages again; move them to the dead letters now.

    Args:
        reason: For the log.
        done: How many of the messages, from the first on, are done anyway.
    """

    def __init__(self, reason: str = "", *, done: int = 0) -> None:
        super().__init__(reason, level=DEAD_LETTER_LEVEL, done=done)


class Withdrawn(Exception):
    """Raised in place of a listener that will not look at messages any more: nothing is decided."""


class Failure(Struct, frozen=True):
    """Why messages of one call are not done.

    Attributes:
        rest: Those of the call that are not done.
        level: Delay level to give them back with.
        pause_ms: Pause of an orderly queue, None for the usual one.
        error: What was raised.
    """

    rest: Sequence[ReceivedMessage]
    level: int
    pause_ms: int | None
    error: BaseException

    @property
    def is_withdrawn(self) -> bool:
        """Whether nothing was decided: the messages stay as they are."""
        return isinstance(self.error, Withdrawn)


async def call(listener: Listener, messages: Sequence[ReceivedMessage]) -> Failure | None:
    """Call the listener once; return what is not done, None if everything is.

    Raises:
        CancelledError: The task that calls was cancelled, and the listener with it.
    """
    task = asyncio.current_task()
    try:
        result = listener(list(messages))
        if result is not None and inspect.isawaitable(result):
            await result
    except DeliverLater as later:
        rest = messages[max(later.done, 0) :]
        return Failure(rest, later.level, later.pause_ms, later) if rest else None
    except BaseException as error:  # whatever a user's code raises: the messages come again
        if is_end_of(task, error):
            raise
        return Failure(messages, 0, None, error)
    if task is not None and task.cancelling():  # the listener kept to itself that it shall end
        raise asyncio.CancelledError
    return None


def report(failure: Failure) -> None:
    """Log why messages are not done, with their place."""
    if failure.is_withdrawn:
        return
    first = failure.rest[0]
    place = {
        "queue": str(first.queue),
        "offset": first.queue_offset,
        "messages": len(failure.rest),
        "message_id": first.message_id,
        "reconsume_times": first.reconsume_times,
    }
    if isinstance(failure.error, DeliverLater):
        _log.info("listener wants its messages later", **place, reason=str(failure.error))
    else:
        text = "listener failed; its messages will be delivered again"
        _log.error(text, **place, exc_info=failure.error)
