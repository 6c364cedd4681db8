"""Rules for every test: Spark tests share one worker, so that one JVM serves them all."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group what is marked `spark` (for `--dist loadgroup`)."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
