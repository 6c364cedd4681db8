"""Every error that Sprocket raises on purpose and every product knows.

Those that only one product has stand in its own folder.

SprocketError
├── WireError               the peer sent bytes it must not send
│   └── MethodMissing       a body is packed by a method whose library is not installed
├── StoreError              the store cannot do what was asked
│   ├── CorruptRecord       bytes in the store are not what the format demands
│   ├── MessageTooLarge     body, topic or record beyond a limit
│   ├── OffsetTooSmall      asked for data that was cleaned away
│   ├── OffsetTooLarge      asked for data that was never written
│   ├── DiskFull            a write found no space; nothing of it counts as stored
│   ├── DiskFailed          the file system refused a call
│   │   ├── DiskRefused     before it did anything; it may be tried again
│   │   └── FileMissing     there is no file of that name
│   ├── DiskBusy            too much waits for the disk already
│   ├── StoreFailed         a sync failed: writes are refused until the store is reopened
│   ├── LessSafe            stored, but not known to be as safe as it should be
│   │   ├── SyncLate        not known to be on the disk within the time allowed
│   │   ├── ReplicaLate     not known to be on other machines within the time allowed
│   │   └── ReplicaMissing  too few other machines are there to have it soon
│   ├── StoreLocked         another process has the store open
│   ├── OpeningEnded        whoever opened the store did not want it any more
│   └── ForeignStore        the folder is not a store, or one of another geometry
├── ClientError             what users of the clients catch
│   ├── BrokerRefused       the broker answered with a code that is an error
│   ├── RequestTimeout      no answer in time; the request may have been carried out
│   ├── NotConnected        no connection to the peer, or it was lost
│   ├── ClientBusy          a limit of the client on unanswered messages is reached
│   ├── InvalidMessage      the message breaks a rule and was not sent
│   └── DataLost            what a reader was to continue with is gone
└── SettingsError           a setting is unknown or out of range
"""


class SprocketError(Exception):
    """The root of the tree."""


class WireError(SprocketError):
    """The peer sent bytes it must not send."""


class MethodMissing(WireError):
    """A body is packed, or shall be, by a method whose library is not installed."""


class StoreError(SprocketError):
    """The store cannot do what was asked."""


class CorruptRecord(StoreError):
    """Bytes in the store break the format; the text names file, offset, expected and found."""


class MessageTooLarge(StoreError):
    """A body, property string, topic or record is beyond its limit."""


class OffsetTooSmall(StoreError):
    """The data asked for was cleaned away; `lowest` is the smallest offset that is left."""

    def __init__(self, wanted: int, lowest: int) -> None:
        super().__init__(f"offset {wanted} was cleaned away, the lowest kept is {lowest}")
        self.wanted = wanted
        self.lowest = lowest


class OffsetTooLarge(StoreError):
    """The data asked for was never written; `highest` is where the next byte or message goes."""

    def __init__(self, wanted: int, highest: int) -> None:
        super().__init__(f"offset {wanted} is past the end {highest}")
        self.wanted = wanted
        self.highest = highest


class DiskFull(StoreError):
    """A write found no space. Nothing of it counts as stored; it may be tried again later."""


class DiskFailed(StoreError):
    """The file system refused a call for a reason other than space.

    `path` is the file or folder concerned, empty where that is not known.
    """

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.path = path


class DiskRefused(DiskFailed):
    """The file system did not begin: it could not open, make, find or rename something.

    As if there are no file descriptors left. Nothing was written and nothing synced by that call,
    so no byte became uncertain: what needed it is refused, or tried again.
    """


class FileMissing(DiskFailed):
    """There is no file or folder of that name."""


class DiskBusy(StoreError):
    """Too much waits for the disk already; asked again later, it may have caught up."""


class StoreFailed(StoreError):
    """A sync failed, so what reached the disk is unknown; writes are refused until a reopen."""


class LessSafe(StoreError):
    """The record is stored, but not known to be as safe as it should be."""


class SyncLate(LessSafe):
    """The record is stored, but no sync was seen to end within the time allowed."""


class ReplicaLate(LessSafe):
    """The record is stored; too few replicas were seen to have it within the time allowed."""


class ReplicaMissing(LessSafe):
    """The record is stored; fewer replicas than must have it follow closely, so nobody waits."""


class StoreLocked(StoreError):
    """Another process has the store open."""


class OpeningEnded(StoreError):
    """Opening was ended before it was done; nothing is lost, the next opening continues."""


class ForeignStore(StoreError):
    """The folder is not a store, or one whose geometry differs from the settings."""


class ClientError(SprocketError):
    """What users of the clients catch."""


class BrokerRefused(ClientError):
    """The broker answered with a code that is an error; `code` and `remark` are the answer's."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{remark or 'no remark'} (code {code})")
        self.code = code
        self.remark = remark


class RequestTimeout(ClientError):
    """No answer came in time; the request may have been carried out anyway."""


class NotConnected(ClientError):
    """There is no connection to the peer, or it was lost before the answer came."""


class ClientBusy(ClientError):
    """A limit of the client on unanswered messages is reached; the message was not accepted."""


class InvalidMessage(ClientError):
    """The message breaks a rule that is checked before sending; it was not sent."""


class DataLost(ClientError):
    """What a reader was to continue with is gone: cleaned away, or lost by its broker."""


class SettingsError(SprocketError):
    """A setting is unknown, unreadable or out of range."""
