"""Writes what becomes of each test as it happens, so that a run that is ended has what it had.

A plugin of pytest; SUITE_REPORT names the file, which has a JSON object a line.
"""

import json
import os
from pathlib import Path
from typing import Any

REPORT = Path(os.environ["SUITE_REPORT"])


def _write(test: str, part: str, outcome: str) -> None:
    with REPORT.open("a") as report:
        report.write(json.dumps({"test": test, "part": part, "outcome": outcome}) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    """Say that a test begins."""
    _write(nodeid, "", "began")


def pytest_runtest_logreport(report: Any) -> None:
    """Say how one of its three parts ended: set-up, call, tear-down."""
    _write(report.nodeid, report.when, report.outcome)
