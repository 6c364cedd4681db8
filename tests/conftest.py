"""Rules for every test: Spark tests share a worker, and no test leaves its logging to the next."""

from collections.abc import Iterator

import pytest
import structlog


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
