"""An object store for all tests of Spark that need one."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def object_store() -> Iterator[Any]:
    """An S3 server for all tests that need one."""
    from tests.unit.spark.object_store import serving

    with serving() as store:
        yield store
