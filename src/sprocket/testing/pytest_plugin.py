"""The pytest plugin: a broker as a fixture, in any test of anybody who installed Sprocket.

pytest loads this module at its start, whether a test wants it or not, so nothing of Sprocket is
imported before a fixture is used.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sprocket.rocketmq.settings import Settings
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
