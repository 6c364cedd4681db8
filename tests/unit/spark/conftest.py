"""One Spark session for all tests that need one: small, quick to start, silent."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sprocket


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, quick_jvms: object) -> Iterator[Any]:
    """Start `local[2]` with the format registered; skipped, with a word, where Java is missing."""
    if shutil.which("java") is None:
        pytest.skip("no Java on the PATH")
    from sprocket.spark import session

    # Workers import the package from where this process has it.
    source = str(Path(sprocket.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    spark = session("tests", cores=2, folder=str(folder))
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def object_store() -> Iterator[Any]:
    """An S3 server for all tests that need one."""
    from tests.unit.spark.object_store import serving

    with serving() as store:
        yield store
