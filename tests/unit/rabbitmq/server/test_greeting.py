"""What a server says of itself."""

from sprocket.rabbitmq.model.fields import FieldTable
from sprocket.rabbitmq.server.greeting import Greeting


def test_clients_find_what_they_look_for() -> None:
    """Product, a version of numbers, and what they may use."""
    start = Greeting("here").start(is_encrypted=True)
    texts = {name: field.value for name, field in start.server_properties}
    found = texts.pop("capabilities")
    assert isinstance(found, FieldTable)
    assert all(field.value is True for _, field in found)
    assert {"publisher_confirms", "basic.nack", "consumer_cancel_notify"} <= {
        name for name, _ in found
    }
    assert len(found) == 9
    assert (texts["product"], texts["cluster_name"]) == (b"RabbitMQ", b"here")
    version = texts["version"]
    assert isinstance(version, bytes)
    assert tuple(map(int, version.split(b"."))) >= (3, 3)
    assert (start.mechanisms, start.locales) == (b"PLAIN AMQPLAIN", b"en_US")
    assert (start.version_major, start.version_minor) == (0, 9)


def test_a_certificate_counts_only_where_it_can_be_shown() -> None:
    """Others are not offered to use one."""
    greeting = Greeting("here", ("PLAIN", "EXTERNAL"))
    assert greeting.start(is_encrypted=False).mechanisms == b"PLAIN"
    assert greeting.start(is_encrypted=True).mechanisms == b"PLAIN EXTERNAL"
