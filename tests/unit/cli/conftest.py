"""A broker for the commands that talk to one."""

from collections.abc import Iterator

import pytest

from sprocket.testing.local_broker import LocalBroker


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker of the test's own."""
    with LocalBroker() as running:
        yield running
