"""`sprocket nameserver` as a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.serving_processes import SECONDS_MAX, Serving, said, stopped

pytestmark = pytest.mark.slow


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Start commands and end them."""
    one = Serving()
    yield one
    one.end()


def test_ready_then_a_clean_stop(serving: Serving, tmp_path: Path) -> None:
    """It says where it listens; RocketMQ's namesrv.conf is understood."""
    path = tmp_path / "namesrv.conf"
    path.write_text("listenPort=1\nrocketmqHome=/opt\n")
    data = tmp_path / "names"
    process = serving.begin("nameserver", "-c", str(path), "--port", "0", "--data", str(data))
    assert said(process, r"ready nameserver=127\.0\.0\.1:(\d+)").group(1) != "1"
    err = stopped(process)
    assert "is ready" in err
    assert "ignored, as there is no such setting here: rocketmqHome" in err
    assert "Traceback" not in err
    assert not data.exists()


def test_wrong_settings_are_one_line(serving: Serving, tmp_path: Path) -> None:
    """Which names the setting as its user wrote it."""
    path = tmp_path / "namesrv.conf"
    path.write_text("listenPort=70000\n")
    process = serving.begin("nameserver", "-c", str(path))
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert "listenPort" in err
