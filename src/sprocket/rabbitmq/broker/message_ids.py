"""Ids of messages: 16 bytes that no other message of the node has, ever."""

import secrets
from itertools import count, islice

_RANDOM_BYTES = 8


class MessageIds:
    """Gives ids: eight random bytes of this life of the broker, and a number.

    The number comes first, so that ids differ in what a hash looks at.
    """

    def __init__(self) -> None:
        self._life = secrets.token_bytes(_RANDOM_BYTES)
        self._numbers = count(int.from_bytes(secrets.token_bytes(_RANDOM_BYTES - 1), "big"))

    def take(self, count: int) -> list[bytes]:
        """Return some more."""
        life = self._life
        return [one.to_bytes(_RANDOM_BYTES, "big") + life for one in islice(self._numbers, count)]

    def next(self) -> bytes:
        """Return another one."""
        return next(self._numbers).to_bytes(_RANDOM_BYTES, "big") + self._life
