"""A broker in this process, and pika's clients of it."""

from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from sprocket.testing.local_amqp import LocalAmqp

Connect = Callable[[], pika.BlockingConnection]


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalAmqp]:
    """Run one broker for the tests of a module; each uses names of its own."""
    with LocalAmqp() as broker:
        yield broker


@pytest.fixture
def own() -> Iterator[LocalAmqp]:
    """Run a broker for one test, which moves its clock or kills it."""
    with LocalAmqp() as broker:
        yield broker


def connect(broker: LocalAmqp) -> pika.BlockingConnection:
    """Return a new connection of pika's."""
    return pika.BlockingConnection(pika.URLParameters(broker.url))


@pytest.fixture
def connection(shared: LocalAmqp) -> Iterator[pika.BlockingConnection]:
    """Return a connection to the module's broker, closed at the end if the test has not."""
    with connect(shared) as opened:
        yield opened


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    """Return a channel of it."""
    return connection.channel()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return what a test calls its queue or exchange."""
    return str(request.node.name)
