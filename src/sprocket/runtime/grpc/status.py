"""How a call of gRPC ends."""

from enum import IntEnum


class StatusCode(IntEnum):
    """What `grpc-status` says."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class CallFailed(Exception):
    """A call ends with something else than OK.

    Attributes:
        code: What.
        why: For people; in `grpc-message`.
    """

    def __init__(self, code: StatusCode, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


def message_text(why: str) -> str:
    """Return what `grpc-message` may have: ASCII that prints, all else by percent signs."""
    found = []
    for byte in why.encode("utf-8", "replace"):
        char = chr(byte)
        found.append(char if 0x20 <= byte < 0x7F and char != "%" else f"%{byte:02X}")
    return "".join(found)
