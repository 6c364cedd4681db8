"""Who fetches rabbitmqadmin from the broker, as from RabbitMQ, is told where it is."""

import subprocess
import sys
from pathlib import Path

import pytest
import requests
from tests.waits import LONG_SECONDS

from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.slow


def test_what_is_fetched_says_where_it_is(broker: LocalAmqp, tmp_path: Path) -> None:
    """Without a login, and when it is run: it fails, so that no script takes it for the program."""
    url = f"{broker.http_url.removesuffix('/api')}/cli/rabbitmqadmin"
    answer = requests.get(url, timeout=LONG_SECONDS)
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        "text/plain; charset=utf-8",
    )
    assert requests.head(url, timeout=LONG_SECONDS).status_code == 200
    assert requests.post(url, timeout=LONG_SECONDS).status_code == 404
    file = tmp_path / "rabbitmqadmin"
    file.write_bytes(answer.content)
    ran = subprocess.run(
        [sys.executable, str(file), "list", "queues"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "/v3.10.8/deps/rabbitmq_management/bin/rabbitmqadmin" in ran.stderr
    assert "sprocket rabbit" in ran.stderr
