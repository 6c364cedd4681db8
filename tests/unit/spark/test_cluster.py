"""The door to a live cluster."""

import pytest

from sprocket.base.errors import ClientError, SettingsError
from sprocket.spark.cluster import Door


def test_nobody_there_is_said_at_once() -> None:
    """A question where nobody listens fails with a client's error, so that it can be put again."""
    puller = Door("127.0.0.1:1", 500).connect()
    try:
        with pytest.raises(ClientError):
            puller.queues("orders")
    finally:
        puller.close()


def test_an_address_that_cannot_be_read() -> None:
    """It is an error of the settings, which no waiting mends."""
    with pytest.raises(SettingsError):
        Door("nowhere", 500).connect()


def test_wait_comes_back() -> None:
    """Waiting blocks and ends."""
    Door("127.0.0.1:1", 500).wait(0.001)
