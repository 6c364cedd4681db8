"""Consumers of the official Java client 5.3.3 pop from our broker as from the real one.

With SPROCKET_INTEROP_BROKER=rocketmq the real broker is judged.
"""

import subprocess
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.waits import LONG_SECONDS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COUNT = 100


def test_java_pops_each_message(broker: peers.Broker, jars: Path, tmp_path: Path) -> None:
    """Each once, and those that are put off once more, as one delivery more."""
    with link.Link(broker.address) as connection:
        link.create_topic(connection, "Popped", 4)
    classes = peers.compile_java(jars, tmp_path, [peers.POPPED_SOURCE])
    command = [*peers.java(jars, home=tmp_path, classes=classes), "Popped"]
    told = subprocess.run(
        [*command, broker.nameserver, broker.address, "Popped", "popping"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * LONG_SECONDS,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found = dict(line.split(" ", 1) for line in told.stdout.splitlines() if line.startswith("m"))
    assert found == {f"m{n}": "2 1" if n % 10 == 7 else "1 0" for n in range(COUNT)}
