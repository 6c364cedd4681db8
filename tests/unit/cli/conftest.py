"""A broker for the commands that talk to one."""

from collections.abc import Iterator

import pytest

from sprocket.testing.local_broker import LocalBroker


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker of the test's own."""
    with LocalBroker() as running:
        yield running


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """How wide the terminal of whoever runs the tests is changes nothing."""
    monkeypatch.delenv("COLUMNS", raising=False)
