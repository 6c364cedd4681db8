"""Where a message lies: small ones in the index of each queue, large ones once in the store.

Source: RabbitMQ 3.10.8 `rabbit_variable_queue:determine_persist_to`.
"""

from collections.abc import Iterable

from sprocket.rabbitmq.model.message import BasicMessage

_HEADER_BYTES_ASSUMED = 100
"""What RabbitMQ takes for each header that it would have to encode."""


def is_embedded(message: BasicMessage, bytes_below: int) -> bool:
    """Say whether a message lies in the index: body and properties have fewer bytes than that."""
    size = sum(map(len, message.fragments))
    properties = message.properties
    if isinstance(properties, bytes):
        return size + len(properties) < bytes_below
    headers = properties.headers
    assumed = 0 if headers is None else _HEADER_BYTES_ASSUMED * len(headers)
    return size < bytes_below and size + assumed < bytes_below


def are_plain(messages: Iterable[BasicMessage], bytes_below: int) -> bool:
    """Say whether all are embedded, with properties as they came: no term of one can be wrong."""
    for one in messages:
        properties = one.properties
        if not isinstance(properties, bytes):
            return False
        if one.body_size + len(properties) >= bytes_below:
            return False
    return True
