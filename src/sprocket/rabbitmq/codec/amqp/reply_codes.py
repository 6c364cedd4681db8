"""Why a server closes a channel or a connection: codes, names and texts.

Clients match codes, and some match texts, so both are RabbitMQ's.

Source: `amqp_error`, `rabbit_reader:frame_error`; docs/formats/amqp.md.
"""

from enum import IntEnum
from typing import Final

from sprocket.base.errors import WireError

TEXT_BYTES_MAX: Final = 255
_CUT_MARK = "..."
_SNIPPET_BYTES_MAX = 16
_ESCAPES = {ord(sign): sign for sign in map(chr, range(0x20, 0x7F))} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0B: "\\v",
    0x0C: "\\f",
    0x0D: "\\r",
    0x1B: "\\e",
}
"""The octets that Erlang shows as text, and how."""


class ReplyCode(IntEnum):
    """Every code that a server gives as a reason; the name is the beginning of the text."""

    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541

    @property
    def ends_connection(self) -> bool:
        """Whether this closes the connection, not only the channel that it is about."""
        return self not in _OF_A_CHANNEL


_OF_A_CHANNEL = frozenset(
    {
        ReplyCode.CONTENT_TOO_LARGE,
        ReplyCode.NO_ROUTE,
        ReplyCode.NO_CONSUMERS,
        ReplyCode.ACCESS_REFUSED,
        ReplyCode.NOT_FOUND,
        ReplyCode.RESOURCE_LOCKED,
        ReplyCode.PRECONDITION_FAILED,
    }
)


class AmqpError(WireError):
    """A channel or the connection has to be closed, for what its client sent.

    Args:
        code: Says also which of the two is closed.
        explanation: What the text says after the name of the code; empty for none.
        method: Class and method that failed, both 0 where there is none.
    """

    def __init__(self, code: ReplyCode, explanation: str, method: tuple[int, int] = (0, 0)) -> None:
        super().__init__(reply_text(code, explanation))
        self.code = code
        self.explanation = explanation
        self.method = method

    @property
    def text(self) -> str:
        """What the client is told."""
        return reply_text(self.code, self.explanation)


def reply_text(code: ReplyCode, explanation: str) -> str:
    """Return the text that goes with a code, of 255 octets at most."""
    text = f"{code.name} - {explanation}" if explanation else code.name
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) > TEXT_BYTES_MAX:
        octets = octets[: TEXT_BYTES_MAX - len(_CUT_MARK)]
        # What a cut leaves of the last sign, and bytes that were not text, would not be UTF-8.
        return octets.decode("utf-8", "ignore") + _CUT_MARK
    return octets.decode("utf-8", "replace")


def binary_text(octets: bytes) -> str:
    """Return a binary as Erlang writes it: as text if every octet is printable, else as numbers."""
    if octets and all(octet in _ESCAPES for octet in octets):
        return f'<<"{"".join(_ESCAPES[octet] for octet in octets)}">>'
    return numbers_text(octets)


def numbers_text(octets: bytes) -> str:
    """Return a binary as numbers, such as `<<0,10>>`."""
    return f"<<{','.join(map(str, octets))}>>"


def frame_error(kind: int, payload: bytes, why: str) -> AmqpError:
    """Return the error about a frame that cannot be."""
    return AmqpError(ReplyCode.FRAME_ERROR, f"type {kind}, {_snippet(payload)}: {why}")


def unexpected_frame(kind: int, payload: bytes) -> AmqpError:
    """Return the error about a frame that may not come on its channel."""
    return AmqpError(ReplyCode.UNEXPECTED_FRAME, f"type {kind}, {_snippet(payload)}")


def _snippet(payload: bytes) -> str:
    if len(payload) <= _SNIPPET_BYTES_MAX:
        return f"all octets = {binary_text(payload)}"
    return f"first {_SNIPPET_BYTES_MAX} octets = {binary_text(payload[:_SNIPPET_BYTES_MAX])}"
