"""How often something was done with messages: what statistics are made of."""

from msgspec import Struct


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
    """How often queues of a virtual host came and went."""

    declared: int = 0
    """Those that were there already included."""
    created: int = 0
    deleted: int = 0


class ClientChurn(Struct, gc=False):
    """How often clients came and went."""

    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
    channels_closed: int = 0


class PublishCounts(Struct, gc=False):
    """What a channel published."""

    published: int = 0
    confirmed: int = 0
    returned: int = 0
    """No queue got them, and their publisher was given them back."""
    dropped: int = 0
    """No queue got them, and nobody was told."""

    def add(self, other: "PublishCounts") -> None:
        """Count what another one has counted."""
        self.published += other.published
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped
