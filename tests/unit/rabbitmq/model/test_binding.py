"""Bindings are the same however their arguments are ordered."""

from tests.field_tables import table

from sprocket.rabbitmq.model.binding import Destination, binding
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.fields import FieldTable
from sprocket.rabbitmq.model.resource import ResourceKind

TO = Destination(ResourceKind.QUEUE, "q")


def test_the_order_of_arguments_makes_no_difference() -> None:
    """But which comes first of one name does."""
    one = table({"b": 1, "a": 2})
    assert binding("/", "x", TO, "k", one) == binding("/", "x", TO, "k", table({"a": 2, "b": 1}))
    twice = FieldTable((*table({"a": 1}).entries, *table({"a": 2}).entries))
    other = FieldTable(tuple(reversed(twice.entries)))
    assert binding("/", "x", TO, "k", twice) != binding("/", "x", TO, "k", other)


def test_what_an_exchange_routes_like() -> None:
    """Its type, unless it delays messages."""
    assert Exchange(vhost="/", name="x", type="topic").routing_type == "topic"
    given = table({"x-delayed-type": "fanout"})
    delayed = Exchange(vhost="/", name="x", type="x-delayed-message", arguments=given)
    assert delayed.routing_type == "fanout"
