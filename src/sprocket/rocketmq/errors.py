"""What only RocketMQ's broker and clients raise, as branches of the tree in `base.errors`.

StoreError
├── MessageTooLarge
│   └── PropertiesTooLarge  the property string is beyond its limit
├── MessageIllegal          a message breaks a rule of the queue it is for
├── LogsDiffer              the log of a slave is not a beginning of its master's
├── EpochOver               the epoch of a master is lower than one that was promised
├── EngineMissing           the queues need an engine that cannot be had here
└── NumpyMissing            a store needs numpy, a client does not
SprocketError
├── ExpressionIllegal       an SQL92 expression cannot be compiled
├── Incomparable            a message has a text where the expression needs a number
└── Refused                 a correct request that the broker or NameServer declines
ClientError
├── NoRoute                 no NameServer knows a broker for the topic
│   └── NoSuchTopic         the NameServers know no topic of this name
├── NoSuchGroup             no broker knows the group
└── RequestTimeout
    └── ReplyTimeout        a request by message was stored, but nobody replied in time
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from sprocket.base.errors import (
    ClientError,
    DiskBusy,
    DiskFailed,
    DiskFull,
    MessageTooLarge,
    ReplicaLate,
    ReplicaMissing,
    RequestTimeout,
    SprocketError,
    StoreError,
    StoreFailed,
    SyncLate,
)


class PropertiesTooLarge(MessageTooLarge):
    """The property string is beyond its limit, with what the broker added to it."""


class MessageIllegal(StoreError):
    """A message breaks a rule of the queue it is for; it can never be stored as it is."""


class LogsDiffer(StoreError):
    """The log of a slave is not a beginning of its master's, so that it cannot follow it."""


class EpochOver(StoreError):
    """The epoch of a master is lower than one that was promised: it is not the master any more."""


class EngineMissing(StoreError):
    """The store's queues need an engine that is not installed, or that cannot work here."""


class NumpyMissing(StoreError):
    """A store needs numpy, which is not installed."""


class ExpressionIllegal(SprocketError):
    """An SQL92 expression cannot be compiled; the text says what is wrong and where.

    `position` is where, in characters from 0.
    """

    def __init__(self, what: str, position: int) -> None:
        super().__init__(f"{what}, at character {position + 1}")
        self.position = position


class Incomparable(SprocketError):
    """An expression cannot be evaluated for a message, which then does not pass."""


class NotStored(Enum):
    """Why a message was not stored as requested; each server maps these to its own codes."""

    SYNC_LATE = "stored, but no sync was seen to end in time"
    REPLICA_LATE = "stored, but not on as many machines in time"
    REPLICA_MISSING = "stored, but there are too few machines that could have it, too"
    ILLEGAL = "it can never be stored as it is"
    BUSY = "too much waits for the disk"
    UNAVAILABLE = "the disk takes nothing now"
    OTHER = "only the text says why"


_NOT_STORED: Final[Mapping[type[StoreError], NotStored]] = {
    SyncLate: NotStored.SYNC_LATE,
    ReplicaLate: NotStored.REPLICA_LATE,
    ReplicaMissing: NotStored.REPLICA_MISSING,
    MessageTooLarge: NotStored.ILLEGAL,
    MessageIllegal: NotStored.ILLEGAL,
    DiskBusy: NotStored.BUSY,
    DiskFull: NotStored.UNAVAILABLE,
    DiskFailed: NotStored.UNAVAILABLE,
    StoreFailed: NotStored.UNAVAILABLE,
}
"""By the class of an error, or the nearest one above it."""


def not_stored(error: StoreError) -> NotStored:
    """Return why a message was not stored as requested, given the error of the store."""
    classes = type(error).__mro__
    return next((_NOT_STORED[one] for one in classes if one in _NOT_STORED), NotStored.OTHER)


class Refusal(Enum):
    """Why a correct request is declined; a server has a code of its protocol for each."""

    OTHER = "only the remark says why"
    INVALID_ARGUMENT = "a name or a number is not one that may be given"
    ILLEGAL_MESSAGE = "the message breaks a rule of where it is to go"
    NO_PERMISSION = "settings close the broker, a topic or a group to it"
    TOO_LATE = "it was to be said earlier"
    WRONG_HANDLE = "a handle is not one, or is not for what it is given with"
    NO_TOPIC = "there is no such topic"
    NO_GROUP = "there is no such group"
    NO_CONSUMER = "nobody consumes in the group"
    NOT_FOUND = "nothing is found"
    UNREADABLE_SUBSCRIPTION = "the subscription cannot be parsed"
    NO_SUBSCRIPTION = "nobody of the group is connected and subscribed"
    NO_FILTER = "the broker knows no condition by which the group chooses messages"
    OLD_FILTER = "the broker does not know the latest such condition of the group yet"
    OLD_SUBSCRIPTION = "the broker does not know the latest subscription of the group yet"


class Refused(SprocketError):
    """A correct request that the broker or NameServer declines.

    `remark` is one sentence for the person who reads it.
    """

    def __init__(self, why: Refusal, remark: str) -> None:
        super().__init__(remark)
        self.why = why
        self.remark = remark


class NoRoute(ClientError):
    """No NameServer knows a broker that serves the topic."""


class NoSuchTopic(NoRoute):
    """There is no topic of this name; the text names the nearest where all names were asked for."""


class NoSuchGroup(ClientError):
    """No broker knows a group of this name; the text names the nearest."""


class ReplyTimeout(RequestTimeout):
    """A request by message was stored, but no reply to it came in time."""
