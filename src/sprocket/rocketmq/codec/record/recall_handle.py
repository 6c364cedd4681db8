"""The handle by which a message that waits for its time is taken back.

The text is `v1`, topic, broker, time and unique key with blanks between them, in URL-safe Base64.
The time is a millisecond more than `TIMER_OUT_MS`, so that RocketMQ, which takes a whole second off
a time without milliseconds, finds the slot of the wheel that the message is in.

Source: RocketMQ `RecallMessageHandle`, `SendMessageProcessor.attachRecallHandle`.
"""

import base64
import binascii
import re

from msgspec import Struct

from sprocket.base.errors import WireError

_VERSION = "v1"
_FIELDS = 5
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+={0,2}", re.ASCII)


class RecallHandle(Struct, frozen=True, gc=False):
    """What a handle says.

    Attributes:
        topic: Where the message is to go.
        broker_name: Where it waits.
        due_at_ms: When it is due: its `TIMER_OUT_MS`.
        unique_key: The message's.
    """

    topic: str
    broker_name: str
    due_at_ms: int
    unique_key: str


def encode(handle: RecallHandle) -> str:
    """Return the text of a handle."""
    said = (handle.topic, handle.broker_name, str(handle.due_at_ms + 1), handle.unique_key)
    return base64.urlsafe_b64encode(" ".join((_VERSION, *said)).encode()).decode()


def decode(text: str) -> RecallHandle:
    """Return what a handle says; a time that is not a number is before all times.

    Raises:
        WireError: It is not a handle.
    """
    try:
        if not _URL_SAFE.fullmatch(text) or ("=" in text and len(text) % 4):
            raise ValueError("other characters, or a wrong padding")
        padding = "" if text.endswith("=") else "=" * (-len(text) % 4)
        said = base64.urlsafe_b64decode(text + padding).decode(errors="replace").split(" ")
    except (ValueError, binascii.Error) as error:
        raise WireError("recall handle is invalid") from error
    if len(said) < _FIELDS or said[0] != _VERSION or not "".join(said[_FIELDS - 1 :]):
        raise WireError("recall handle is invalid")
    _, topic, broker_name, time, unique_key, *_ = said
    due_at_ms = int(time) - 1 if re.fullmatch(r"-?[0-9]{1,18}", time, re.ASCII) else -1
    return RecallHandle(topic, broker_name, due_at_ms, unique_key)
