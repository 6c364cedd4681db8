"""Asks RocketMQ's own SQL92 filter, in a Java process."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.interop import peers
from tests.waits import LONG_SECONDS


def ask(jars: Path, folder: Path, asked: Mapping[str, Any]) -> Any:
    """Return what the filter of `jars` answers; `SqlTable.java` says what may be asked."""
    done = subprocess.run(
        [*peers.java(jars, home=folder), str(peers.FILTER_SOURCE)],
        input=json.dumps(asked).encode(),
        capture_output=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)
