"""A real Celery worker on the application of `celery.md`, through a crash of the broker."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.waits import LONG_SECONDS

from sprocket.testing.local_amqp import LocalAmqp

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("celery")]
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "celery.md"
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BROKER = "127.0.0.1:5672"
"""What the guide calls it."""
SECONDS_MAX = LONG_SECONDS


@pytest.fixture
def broker() -> Iterator[LocalAmqp]:
    """A broker of the test's own."""
    with LocalAmqp() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, broker: LocalAmqp) -> Path:
    """A folder with the guide's two programs, on this broker."""
    tasks, calls = FENCE.findall(GUIDE.read_text(encoding="utf-8"))
    assert BROKER in tasks
    (tmp_path / "tasks.py").write_text(tasks.replace(BROKER, f"127.0.0.1:{broker.port}"))
    # The seconds that the guide waits for a result are a person's.
    (tmp_path / "calls.py").write_text(calls.replace("timeout=60", f"timeout={SECONDS_MAX}"))
    return tmp_path


@pytest.fixture
def worker(folder: Path) -> Iterator[None]:
    """A Celery worker as everybody starts it, but of one process."""
    command = ["-m", "celery", "-A", "tasks", "worker", "--pool", "solo"]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *command], cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def printed(folder: Path, arguments: Sequence[str]) -> list[str]:
    """Run a program that calls tasks, and return the lines that it prints."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    log = folder / "worker.log"
    worker = log.read_text(errors="replace") if log.exists() else ""
    assert ended.returncode == 0, ended.stderr + worker
    return ended.stdout.splitlines()


@pytest.mark.usefixtures("worker")
def test_the_guides_application_works_and_outlives_a_crash(folder: Path, broker: LocalAmqp) -> None:
    """Calls, an ETA and a group are answered by rpc://, before and after the broker was killed."""
    wanted = ["6", "9", "[0, 3, 6, 9]"]
    assert printed(folder, ["calls.py"]) == wanted
    broker.crash()
    assert printed(folder, ["calls.py"]) == wanted


def test_a_task_that_was_confirmed_outlives_a_crash(folder: Path, broker: LocalAmqp) -> None:
    """`delay` has returned, and nobody works yet: the task is there when a worker comes."""
    printed(folder, ["-c", "import tasks; [tasks.price.delay(cups) for cups in range(3)]"])
    broker.crash()
    assert broker.message_count("celery") == 3
