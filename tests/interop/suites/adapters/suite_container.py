"""The two fixtures that aiormq's tests take from its repository's root, which its package lacks."""

import os

import pytest
from yarl import URL


class Container:
    """What they know of the container that they think the server runs in."""

    def __init__(self, port: int, tls_port: int) -> None:
        self.id = "under-test"
        self.host = "127.0.0.1"
        self.ports = {"5672/tcp": port, "5671/tcp": tls_port}


@pytest.fixture(scope="session")
def rabbitmq_container() -> Container:
    """Say where the server listens."""
    return Container(int(os.environ["SUITE_ADDRESS"]), int(os.environ["SUITE_TLS_ADDRESS"]))


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: Container) -> URL:
    """Return the address for plain connections."""
    port = rabbitmq_container.ports["5672/tcp"]
    return URL(f"amqp://guest:guest@{rabbitmq_container.host}:{port}//")
