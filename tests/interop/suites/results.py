"""What became of each test of a suite, as the suites' own runners report it."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

Results: TypeAlias = dict[str, "Outcome"]
"""From the name of a test to its outcome."""


class Outcome(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


def from_junit(paths: Iterable[Path]) -> Results:
    """Read JUnit's XML of the Java platform.

    A test that is named twice has failed if one did.
    """
    found: Results = {}
    for path in paths:
        for case in _parse(path).iter("testcase"):
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            tags = {child.tag for child in case}
            if tags & {"failure", "error"}:
                found[name] = Outcome.FAILED
            elif "skipped" in tags:
                found.setdefault(name, Outcome.SKIPPED)
            else:
                found.setdefault(name, Outcome.PASSED)
    return found


def from_pytest(path: Path) -> Results:
    """Read what `adapters/suite_report.py` wrote; a test that never ended has failed.

    A test has three parts. Has one failed, so has the test, unless it is tried again.
    """
    found: Results = {}
    outcomes: set[str] = set()
    for line in path.read_text().splitlines():
        event = json.loads(line)
        if event["outcome"] in {"began", "rerun"}:
            outcomes = set()
            found[event["test"]] = Outcome.FAILED
            continue
        outcomes.add(event["outcome"])
        if event["part"] == "teardown" and "failed" not in outcomes:
            is_skipped = "skipped" in outcomes
            found[event["test"]] = Outcome.SKIPPED if is_skipped else Outcome.PASSED
    return found


def has_java(folder: Path) -> bool:
    """Tell whether the Java platform reported the tests, which it does when all have ended.

    It reports each of its engines by itself. The tests are of JUnit 4, whose engine ends last.
    """
    return (folder / "TEST-junit-vintage.xml").exists()


def from_java(name: str, folder: Path) -> Results:
    """Read what the Java platform reported of a class, or of some that begin with it.

    A class that was ended, since it took too long, has no report and counts as a test that failed.
    """
    if not has_java(folder):
        return {f"{name}::all of it": Outcome.FAILED}
    return from_junit(folder.glob("TEST-*.xml"))


def from_node(path: Path) -> Results:
    """Read JUnit's XML of node's runner, where groups of tests lie inside each other."""
    found: Results = {}

    def read(element: ElementTree.Element, groups: tuple[str, ...]) -> None:
        for child in element:
            inner = (*groups, child.get("name", ""))
            if child.tag != "testcase":  # a group that ran out of time has no proper name
                read(child, inner)
            else:
                tags = {one.tag for one in child}
                found["::".join(inner)] = (
                    Outcome.FAILED
                    if tags & {"failure", "error"}
                    else Outcome.SKIPPED
                    if "skipped" in tags
                    else Outcome.PASSED
                )

    read(_parse(path), ())
    return found


def _parse(path: Path) -> ElementTree.Element:
    return ElementTree.parse(path).getroot()  # noqa: S314 - of a runner that was started here


_GO = {"pass": Outcome.PASSED, "fail": Outcome.FAILED, "skip": Outcome.SKIPPED}


def from_go(path: Path) -> Results:
    """Read what `go test -json` printed; a test that never ended has failed."""
    found: Results = {}
    for line in path.read_text(errors="replace").splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if "Test" not in event:
            continue
        if event["Action"] == "run":
            found[event["Test"]] = Outcome.FAILED
        elif event["Action"] in _GO:
            found[event["Test"]] = _GO[event["Action"]]
    return found


def count(results: Results) -> Mapping[Outcome, int]:
    """Return how many tests ended how."""
    return Counter(results.values())


def worse(theirs: Results, ours: Results) -> list[str]:
    """Name the tests that pass against theirs and not against ours."""
    return sorted(
        name
        for name, outcome in theirs.items()
        if outcome is Outcome.PASSED and ours.get(name) is not Outcome.PASSED
    )


def better(theirs: Results, ours: Results) -> list[str]:
    """Name the tests that pass against ours and not against theirs."""
    return worse(ours, theirs)
