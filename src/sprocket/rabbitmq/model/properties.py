"""The properties of a message, as typed values."""

from msgspec import Struct

from sprocket.rabbitmq.model.fields import FieldTable


class BasicProperties(Struct, frozen=True, kw_only=True):
    """The properties of AMQP's class basic; None where one is absent.

    Text that is not UTF-8 is kept as lone surrogates (`surrogateescape`).
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: FieldTable | None = None
    delivery_mode: int | None = None
    """2 for a persistent message."""
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    """Decimal digits: milliseconds."""
    message_id: str | None = None
    """What the publisher called it; the broker has an id of its own."""
    timestamp: int | None = None
    """Seconds since 1970, as the publisher says."""
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None
