"""The table of what passed where, and the reasons of what does not pass here."""

import fnmatch
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.interop.suites import results
from tests.interop.suites.catalog import Suite
from tests.interop.suites.results import Outcome, Results

REASONS = Path(__file__).parent / "reasons.toml"
"""From a suite's name to patterns of tests' names, and why these fail here and not there."""


@dataclass(frozen=True, slots=True)
class Row:
    """One suite, against both servers."""

    suite: Suite
    theirs: Results
    ours: Results


def summary(found: Results) -> str:
    """Say in words how many tests ended how."""
    counted = results.count(found)
    return ", ".join(f"{counted[outcome]} {outcome}" for outcome in Outcome)


def reason(suite: Suite, test: str) -> str | None:
    """Return why a test fails here, if that is known."""
    known = tomllib.loads(REASONS.read_text()).get(suite.name, {})
    return next((why for name, why in known.items() if fnmatch.fnmatchcase(test, name)), None)


def unexplained(row: Row) -> list[str]:
    """Name the tests that pass there, fail here, and have no reason."""
    if not row.theirs:
        return []
    names = results.worse(row.theirs, row.ours)
    return [name for name in names if reason(row.suite, name) is None]


def markdown(rows: Iterable[Row]) -> str:
    """Return the table, and below it each test that ends otherwise here than there."""
    rows = list(rows)
    lines = [
        "| suite | tests | RabbitMQ 3.10.8: passed, failed, skipped | Sprocket: the same |",
        "|---|---|---|---|",
    ]
    for row in rows:
        theirs, ours = results.count(row.theirs), results.count(row.ours)
        cells = [", ".join(f"{found[one]}" for one in Outcome) for found in (theirs, ours)]
        title = f"{row.suite.name} {row.suite.version}"
        lines.append(f"| {title} | {len(row.theirs | row.ours)} | {' | '.join(cells)} |")
    for row in rows:
        if not row.theirs or not row.ours:
            continue
        for title, names in (
            ("pass there and not here", results.worse(row.theirs, row.ours)),
            ("pass here and not there", results.better(row.theirs, row.ours)),
        ):
            if names:
                lines += ["", f"{row.suite.name}: {len(names)} {title}", ""]
                for name in names:
                    why = reason(row.suite, name) if "not here" in title else None
                    lines.append(f"* `{name}`" + (f": {why}" if why else ""))
    return "\n".join(lines) + "\n"
