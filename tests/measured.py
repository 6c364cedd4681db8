"""Which tests count while coverage is measured.

Those of the rooms do, `tests/unit` and `tests/contract`. Those that come by chance to what they run
(property, crash, fuzz, interop) and those with Spark do not: they take several times as long when
they are measured, and a line that only they run is not tested.
"""

import os
from collections.abc import Generator

import pytest
from coverage import Coverage

VARIABLE = "COVERAGE_PROCESS_CONFIG"
"""Tells processes that a test starts to measure, too."""
COUNTED = ("tests/unit/", "tests/contract/")


def counts(item: pytest.Item) -> bool:
    """Tell whether what a test runs counts."""
    return item.nodeid.startswith(COUNTED) and item.get_closest_marker("spark") is None


class Measuring:
    """Measures while tests run that count."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a test, measured or not."""
        measuring = Coverage.current()
        if measuring is None or counts(item):
            return (yield)
        told = os.environ.pop(VARIABLE, None)
        measuring.stop()
        try:
            return (yield)
        finally:
            measuring.start()
            if told is not None:
                os.environ[VARIABLE] = told
