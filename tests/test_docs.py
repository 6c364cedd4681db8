"""Runs every Python example of the README and the docs, each in a process of its own.

Examples speak to `127.0.0.1:9876` and read the folder `sprocket-data`; here that is a broker on
free ports and a folder of its own.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.waits import LONG_SECONDS

ROOT = Path(__file__).resolve().parent.parent
RUN_ELSEWHERE = {
    "docs/guides/celery.md": "tests/unit/examples/test_celery.py",
    "docs/guides/spark.md": "tests/unit/spark/test_guide.py",
    "docs/guides/spark-migrate.md": "tests/unit/spark/jobs/test_migrate.py",
    "docs/guides/spark-rabbitmq.md": "tests/unit/spark/rabbitmq/test_source.py",
    "docs/guides/spark-sink.md": "tests/unit/spark/rocketmq/sink/test_sink.py",
    "docs/guides/testing.md": "tests/unit/testing/test_pytest_plugin.py",
}
"""Pages whose examples build on each other, and the test that runs them."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
READY_SECONDS_MAX = LONG_SECONDS
EXAMPLE_SECONDS_MAX = LONG_SECONDS


class Running(NamedTuple):
    """A broker for the examples: where it listens, and the folder that holds `sprocket-data`."""

    nameserver: str
    folder: Path


def examples() -> list[object]:
    """Every fenced Python block, named by its page and number; those with Spark are marked."""
    found: list[object] = []
    for page in PAGES:
        if page.relative_to(ROOT).as_posix() in RUN_ELSEWHERE:
            continue
        for number, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")), 1):
            marks = [pytest.mark.spark] if "pyspark" in match.group(1) else []
            name = f"{page.relative_to(ROOT)}-{number}"
            found.append(pytest.param(match.group(1), id=name, marks=marks))
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run `sprocket up` on free ports."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-c", "from sprocket.cli.main import main; main()", "up"]
    command += [
        "--data",
        "sprocket-data",
        "--nameserver-port",
        "0",
        "--broker-port",
        "0",
        "--no-amqp",
    ]
    log = folder / "broker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env=environment()
        )
    try:
        yield Running(nameserver(process, log), folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LONG_SECONDS)


def nameserver(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait for the ready line, and return the address it names first."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith("ready") and (found := re.search(r"127\.0\.0\.1:\d+", line)):
                return found.group()
        time.sleep(0.02)
    raise AssertionError(f"no ready line:\n{log.read_text(encoding='utf-8')}")


def environment() -> dict[str, str]:
    """Return an environment that is not activated: `python3` of the PATH has no Sprocket."""
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if one != own)
    found = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    found.pop("PYSPARK_PYTHON", None)
    return {**found, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.slow
@pytest.mark.parametrize("code", examples())
def test_every_example_runs_to_its_end(code: str, running: Running) -> None:
    """An example of the docs ends without an error."""
    code = code.replace("127.0.0.1:9876", running.nameserver)
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=running.folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=EXAMPLE_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(("page", "test"), RUN_ELSEWHERE.items())
def test_the_others_are_run_too(page: str, test: str) -> None:
    """The test that is said to run a page's examples names that page."""
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def test_readme_fits_one_screen() -> None:
    """What it is, the two commands, what the first prints, producer and consumer: 60 lines."""
    head = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## ")[0]
    assert head.count("\n") <= 60
    for wanted in ("make run", "make test", "336,776", "Producer(", "PushConsumer("):
        assert wanted in head
