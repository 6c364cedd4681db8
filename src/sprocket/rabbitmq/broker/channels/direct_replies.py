"""Replies without a queue: a key stands for the channel that waits for them.

A client consumes from `amq.rabbitmq.reply-to`. What it publishes with that as `reply-to` says the
key of its channel instead; what somebody publishes to the default exchange with the key goes
straight to the channel.
"""

import secrets
from typing import Final, Protocol

from sprocket.rabbitmq.model.message import BasicMessage

REPLY_TO: Final = "amq.rabbitmq.reply-to"
_PREFIX = f"{REPLY_TO}."
_SECRET_BYTES = 16


class ReplyReceiver(Protocol):
    """A channel that takes replies."""

    def take_reply(self, message: BasicMessage, key: str) -> None:
        """Deliver a reply that was published with the channel's key."""


class DirectReplies:
    """The channels that wait for replies, by their keys, which nobody can guess."""

    def __init__(self) -> None:
        self._receivers: dict[str, ReplyReceiver] = {}

    def open(self, receiver: ReplyReceiver) -> str:
        """Return a key for a channel."""
        key = f"{_PREFIX}{secrets.token_urlsafe(_SECRET_BYTES)}.{secrets.token_urlsafe(8)}"
        self._receivers[key] = receiver
        return key

    def close(self, key: str) -> None:
        """Drop what is published with a key from now on."""
        self._receivers.pop(key, None)

    def is_key(self, name: str) -> bool:
        """Say whether a name is a key, of a channel that is there or not, and never a queue's."""
        return name.startswith(_PREFIX)

    def is_open(self, key: str) -> bool:
        """Say whether somebody waits for replies with a key."""
        return key in self._receivers

    def deliver(self, message: BasicMessage, key: str) -> None:
        """Give a reply to whom it is for; one for a channel that is gone is dropped."""
        receiver = self._receivers.get(key)
        if receiver is not None:
            receiver.take_reply(message, key)
