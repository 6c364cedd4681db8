"""Rules for every test: Spark tests share a worker, none leaves its logging to the next.

And Ctrl-C reaches what they start, even if a shell in the background has them ignore it.
"""

import signal
from collections.abc import Iterator

import pytest
import structlog


def pytest_configure() -> None:
    """Heed SIGINT: what ignores it hands that down to every process that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group what is marked `spark` (for `--dist loadgroup`)."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(autouse=True)
def unconfigured_structlog() -> Iterator[None]:
    """Leave structlog as a program finds it: `capture_logs` and commands configure it for good."""
    yield
    structlog.reset_defaults()
