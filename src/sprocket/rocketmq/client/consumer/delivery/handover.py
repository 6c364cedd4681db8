"""Messages for a loop of the user's in place of a listener."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.consumer.delivery.listener import DeliverLater, Withdrawn
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.model.route import MessageQueue

Verdict = asyncio.Future[None]
"""Ends when it is decided what becomes of a message."""


class Handover:
    """A listener that waits, one message at a time, until a loop has dealt with it.

    A message is done when its loop asks for the next one. It is not done while the loop is at it,
    and one with which a loop was left, by `break` or an error, goes to the next loop. Messages of a
    queue that the consumer does not hold any more are dropped.
    """

    def __init__(self, is_held: Callable[[MessageQueue], bool]) -> None:
        self._is_held = is_held
        self._waiting: deque[tuple[ReceivedMessage, Verdict]] = deque()
        self._arrived = asyncio.Event()
        self._in_hand: dict[ReceivedMessage, Verdict] = {}
        self._is_closed = False

    async def listener(self, messages: list[ReceivedMessage]) -> None:
        """Wait for a loop to take the one message; be the listener of a consumer."""
        (message,) = messages
        if self._is_closed:
            raise Withdrawn
        verdict: Verdict = asyncio.get_running_loop().create_future()
        self._waiting.append((message, verdict))
        self._arrived.set()
        await verdict

    async def messages(self) -> AsyncIterator[ReceivedMessage]:
        """Give messages, as long as the consumer is open; several loops share them."""
        while (entry := await self._next()) is not None:
            message, verdict = entry
            self._in_hand[message] = verdict
            is_dealt_with = False
            try:
                yield message
                is_dealt_with = True
            finally:
                self._in_hand.pop(message, None)
                if is_dealt_with:
                    _decide(verdict, None)
                elif self._is_closed:
                    _decide(verdict, Withdrawn())
                elif not verdict.done():
                    self._waiting.appendleft(entry)
                    self._arrived.set()

    def done(self, message: ReceivedMessage) -> None:
        """Say of a message in hand that it is done, before the next one is asked for.

        Raises:
            ClientError: No loop has it in hand.
        """
        _decide(self._verdict(message), None)

    def later(self, message: ReceivedMessage, how: DeliverLater) -> None:
        """Say of a message in hand that it is to be delivered again, or never.

        Raises:
            ClientError: No loop has it in hand.
        """
        _decide(self._verdict(message), how)

    def close(self) -> None:
        """End the loops; nothing is decided about the messages that none of them has taken."""
        self._is_closed = True
        self._arrived.set()
        while self._waiting:
            _decide(self._waiting.popleft()[1], Withdrawn())

    def _verdict(self, message: ReceivedMessage) -> Verdict:
        found = self._in_hand.get(message)
        if found is None or found.done():
            raise ClientError(
                f"message {message.message_id} is in no loop's hand: say what becomes of it once,"
                " before the loop asks for the next one"
            )
        return found

    async def _next(self) -> tuple[ReceivedMessage, Verdict] | None:
        while not self._is_closed:
            while self._waiting:
                message, verdict = self._waiting.popleft()
                if self._is_held(message.queue):
                    return message, verdict
                _decide(verdict, Withdrawn())
            self._arrived.clear()
            await self._arrived.wait()
        return None


def _decide(verdict: Verdict, error: Exception | None) -> None:
    """End a verdict, unless it has ended."""
    if verdict.done():
        return
    if error is None:
        verdict.set_result(None)
    else:
        verdict.set_exception(error)
