"""How often something was done with messages: what statistics are made of."""

from collections import Counter
from typing import NamedTuple

from msgspec import Struct, field


class DeliveryCounts(Struct, gc=False):
    """What became of the messages of a queue, or what a channel was given."""

    delivered: int = 0
    """To consumers that acknowledge."""
    delivered_no_ack: int = 0
    """To those that do not."""
    got: int = 0
    got_no_ack: int = 0
    got_empty: int = 0
    """Gets that found nothing."""
    redelivered: int = 0
    """Those of the above that somebody may have had before."""
    acked: int = 0

    @property
    def given(self) -> int:
        """All that somebody was given."""
        return self.delivered + self.delivered_no_ack + self.got + self.got_no_ack

    def add(self, other: "DeliveryCounts") -> None:
        """Count what another one has counted."""
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.got_empty += other.got_empty
        self.redelivered += other.redelivered
        self.acked += other.acked


class ExchangeCounts(Struct, gc=False):
    """What clients published to an exchange; dead letters and what it has delayed are not in it."""

    published_in: int = 0
    published_out: int = 0
    """Into queues; a message that several queues get counts for each."""


class QueueChurn(Struct, gc=False):
    """How often queues came and went."""

    declared: int = 0
    """Those that were there already included."""
    created: int = 0
    deleted: int = 0


class Traffic(Struct, gc=False):
    """What went over connections."""

    read_bytes: int = 0
    read_count: int = 0
    written_bytes: int = 0
    written_count: int = 0
    """Bytes and calls."""


class ClientChurn(Struct):
    """How often clients came and went, and what those that went have counted."""

    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
    channels_closed: int = 0
    past: Traffic = field(default_factory=Traffic)
    """Of connections that are closed."""


class PublishCounts(Struct, gc=False):
    """What a channel published."""

    published: int = 0
    """Given to the queues that are to have them, if there are any; see `withheld`."""
    withheld: int = 0
    """Received in transactions that are not committed: still open, or given up."""
    to_confirm: int = 0
    """Those received whose publisher waits to hear what became of them."""
    routed: int = 0
    """Into queues; a message that several queues get counts for each."""
    confirmed: int = 0
    returned: int = 0
    """No queue got them, and their publisher was given them back."""
    dropped: int = 0
    """No queue got them, and nobody was told."""

    def add(self, other: "PublishCounts") -> None:
        """Count what another one has counted."""
        self.published += other.published
        self.withheld += other.withheld
        self.to_confirm += other.to_confirm
        self.routed += other.routed
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped


class Death(NamedTuple):
    """A way in which messages die."""

    queue_type: str
    is_letter: bool
    """Whether they are passed on, as their queue has an exchange for dead letters."""
    reason: str
    """RabbitMQ's word, as in the header `x-death`."""


class PastQueues(Struct):
    """What was counted by queues of one type that are deleted."""

    published: int = 0
    deliveries: DeliveryCounts = field(default_factory=DeliveryCounts)


class NodeCounts(Struct):
    """What a node has counted of what it does not have any more.

    With this, a sum over all that there is does not fall when something goes: a queue, a channel,
    a whole virtual host.
    """

    queues: QueueChurn = field(default_factory=QueueChurn)
    past_published: PublishCounts = field(default_factory=PublishCounts)
    """Of channels that are closed."""
    past_queues: dict[str, PastQueues] = field(default_factory=dict)
    """Of queues that are deleted, by their type."""
    deaths: Counter[Death] = field(default_factory=Counter)
    """How many messages have died, of all queues."""
