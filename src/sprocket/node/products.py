"""The products that a process can run. To add one, write a file beside this one and add it here."""

from sprocket.node.host import Product
from sprocket.node.rabbitmq import AMQP
from sprocket.node.rocketmq import BROKER, NAMESERVER

PRODUCTS: tuple[Product, ...] = (NAMESERVER, BROKER, AMQP)


def named(*names: str) -> list[Product]:
    """Return some of them."""
    return [one for one in PRODUCTS if one.name in names]
