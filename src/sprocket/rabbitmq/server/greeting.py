"""What a server says of itself.

Clients look at product and version, some refuse others than RabbitMQ's, and use what is named among
the capabilities.
"""

import platform
from typing import Final

from sprocket import __version__
from sprocket.rabbitmq.codec.amqp import methods
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, long_string
from sprocket.rabbitmq.server.login import AMQPLAIN, EXTERNAL, PLAIN

PRODUCT: Final = "RabbitMQ"
VERSION: Final = "3.10.8"
"""The RabbitMQ whose behaviour clients find here."""
CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


class Greeting:
    """What clients are told first.

    Args:
        cluster: Gives the name of the cluster, even if it is one node, when a text is made of it.
        mechanisms: How one may log in; `EXTERNAL` only where a certificate can be shown.
    """

    def __init__(self, cluster: object, mechanisms: tuple[str, ...] = (PLAIN, AMQPLAIN)) -> None:
        self._mechanisms = mechanisms
        self._cluster = cluster
        self._told = str(cluster)
        self._says = _properties(self._told)

    def start(self, *, is_encrypted: bool) -> methods.ConnectionStart:
        """Return what begins a connection."""
        cluster = str(self._cluster)
        if cluster != self._told:
            self._told, self._says = cluster, _properties(cluster)
        names = [name for name in self._mechanisms if is_encrypted or name != EXTERNAL]
        return methods.ConnectionStart(0, 9, self._says, " ".join(names).encode(), b"en_US")


def _properties(cluster: str) -> FieldTable:
    capabilities = FieldTable(tuple((name, Field(FieldKind.BOOL, True)) for name in CAPABILITIES))
    texts = {
        "cluster_name": cluster,
        "copyright": "Apache License 2.0",
        "information": f"Sprocket {__version__}; it is not RabbitMQ",
        "platform": f"Python {platform.python_version()}",
        "product": PRODUCT,
        "version": VERSION,
    }
    return FieldTable(
        (
            ("capabilities", Field(FieldKind.TABLE, capabilities)),
            *((name, long_string(text)) for name, text in texts.items()),
        )
    )
