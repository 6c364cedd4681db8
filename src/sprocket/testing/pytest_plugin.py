"""The pytest plugin: brokers as fixtures, in any test of anybody who installed Sprocket.

pytest loads this module at its start, whether a test wants it or not, so nothing of Sprocket is
imported before a fixture is used.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sprocket.rabbitmq.settings import AmqpNodeSettings
    from sprocket.rocketmq.settings import Settings
    from sprocket.testing.local_amqp import LocalAmqp
    from sprocket.testing.local_broker import LocalBroker


@pytest.fixture
def sprocket_settings() -> "Settings | None":
    """Return the settings of `sprocket_broker`; define it anew to change them."""
    return None


@pytest.fixture
def sprocket_broker(sprocket_settings: "Settings | None") -> "Iterator[LocalBroker]":
    """Run a broker of the test's own, in this process, on free ports and a temporary folder."""
    from sprocket.testing.local_broker import LocalBroker

    with LocalBroker(settings=sprocket_settings) as broker:
        yield broker


@pytest.fixture
def sprocket_amqp_settings() -> "AmqpNodeSettings | None":
    """Return the settings of `sprocket_amqp`; define it anew to change them."""
    return None


@pytest.fixture
def sprocket_amqp(sprocket_amqp_settings: "AmqpNodeSettings | None") -> "Iterator[LocalAmqp]":
    """Run a node of the test's own that RabbitMQ's clients take for RabbitMQ, in this process."""
    from sprocket.testing.local_amqp import LocalAmqp

    with LocalAmqp(settings=sprocket_amqp_settings) as broker:
        yield broker
