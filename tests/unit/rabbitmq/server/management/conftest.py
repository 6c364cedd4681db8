"""A broker in this process, its HTTP API, and pika's clients of it."""

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
import requests
from tests.waits import LONG_SECONDS

from sprocket.testing.local_amqp import LocalAmqp

Ask = Callable[..., requests.Response]


@pytest.fixture
def broker() -> Iterator[LocalAmqp]:
    """Run a broker for one test."""
    with LocalAmqp() as running:
        yield running


@pytest.fixture
def ask(broker: LocalAmqp) -> Iterator[Ask]:
    """Return what makes a request, as guest unless told otherwise."""
    with requests.Session() as session:

        def make(
            method: str, path: str, body: Any = None, user: str = "guest", word: str = "guest"
        ) -> requests.Response:
            return session.request(
                method, broker.http_url + path, json=body, auth=(user, word), timeout=LONG_SECONDS
            )

        yield make


@pytest.fixture
def connect(broker: LocalAmqp) -> Callable[..., pika.BlockingConnection]:
    """Return what makes a connection."""

    def make(vhost: str = "/", user: str = "guest", word: str = "guest") -> Any:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                broker.host,
                broker.port,
                vhost,
                pika.PlainCredentials(user, word),
                client_properties={"connection_name": f"of {user}"},
            )
        )

    return make
