"""What only RocketMQ's broker and clients raise, as branches of the tree in `base.errors`.

StoreError
├── MessageTooLarge
│   └── PropertiesTooLarge  the property string is beyond its limit
├── MessageIllegal          a message breaks a rule of the queue it is for
├── EngineMissing           the queues need an engine that cannot be had here
└── NumpyMissing            a store needs numpy, a client does not
ClientError
├── NoRoute                 no NameServer knows a broker for the topic
│   └── NoSuchTopic         the NameServers know no topic of this name
├── NoSuchGroup             no broker knows the group
└── RequestTimeout
    └── ReplyTimeout        a request by message was stored, but nobody replied in time
"""

from sprocket.base.errors import ClientError, MessageTooLarge, RequestTimeout, StoreError


class PropertiesTooLarge(MessageTooLarge):
    """The property string is beyond its limit, with what the broker added to it."""


class MessageIllegal(StoreError):
    """A message breaks a rule of the queue it is for; it can never be stored as it is."""


class EngineMissing(StoreError):
    """The store's queues need an engine that is not installed, or that cannot work here."""


class NumpyMissing(StoreError):
    """A store needs numpy, which is not installed."""


class NoRoute(ClientError):
    """No NameServer knows a broker that serves the topic."""


class NoSuchTopic(NoRoute):
    """There is no topic of this name; the text names the nearest where all names were asked for."""


class NoSuchGroup(ClientError):
    """No broker knows a group of this name; the text names the nearest."""


class ReplyTimeout(RequestTimeout):
    """A request by message was stored, but no reply to it came in time."""
