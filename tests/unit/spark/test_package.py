"""The package as a zip file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sprocket.spark import package_zip


@pytest.mark.slow
def test_a_python_with_the_zip_alone_has_the_source(tmp_path: Path) -> None:
    """As on a worker of a cluster: the format and the jobs come from the zip."""
    path = package_zip(str(tmp_path / "made"))
    code = (
        "import sprocket.spark.jobs, pyspark_rabbitmq, pyspark_rocketmq\n"
        "print(sprocket.__file__, pyspark_rocketmq.DefaultSource.name(),"
        " pyspark_rabbitmq.DefaultSource.name())"
    )
    packages = [one for one in sys.path if one.endswith("site-packages")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([path, *packages])}
    said = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == [f"{path}/sprocket/__init__.py", "rocketmq", "rabbitmq"]


@pytest.mark.slow
def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    """Wherever it is written to."""
    first, second = (Path(package_zip(str(tmp_path / name))) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
