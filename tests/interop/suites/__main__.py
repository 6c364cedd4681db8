"""Runs clients' own suites against the real RabbitMQ 3.10.8 and against `sprocket up`.

    python -m tests.interop.suites [NAME ...] [--only rabbitmq|sprocket]

The table is printed and written to `build/interop-amqp/table.md`, with what each runner said
beside it. The code is 1 if a test that passes there fails here and `reasons.toml` does not say why.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from tests.interop.peers import ROOT
from tests.interop.suites import catalog, servers, table
from tests.interop.suites.catalog import Run, Suite
from tests.interop.suites.results import Results
from tests.interop.suites.table import Row

BUILD = ROOT / "build" / "interop-amqp"


def main() -> int:
    """Run the named suites, or all."""
    parser = argparse.ArgumentParser(prog="interop-amqp")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--only", choices=servers.NAMES)
    given = parser.parse_args()
    known = [suite.name for suite in catalog.SUITES]
    for name in given.names:
        if name not in known:
            parser.error(f"no suite {name!r}; there are {', '.join(known)}")
    rows = []
    for suite in catalog.SUITES:
        if given.names and suite.name not in given.names:
            continue
        source = suite.source()
        if source is None:
            where = f"set {suite.variable}" if suite.variable else f"run {catalog.PREPARE}"
            print(f"{suite.name}: NOT RUN, its tree is not there; {where}", flush=True)
            continue
        names = (given.only,) if given.only else servers.NAMES
        found = {name: _run(suite, source, name) for name in names}
        rows.append(Row(suite, found.get("rabbitmq", {}), found.get("sprocket", {})))
    said = table.markdown(rows)
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "table.md").write_text(said)
    print(said)
    return 1 if any(table.unexplained(row) for row in rows) else 0


def _run(suite: Suite, source: Path, name: str) -> Results:
    folder = BUILD / suite.name / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tls = suite.certificates(source) if suite.certificates else None
    began = time.monotonic()
    with servers.running(name, folder / "server", tls, is_fixed=suite.is_fixed) as address:
        found = suite.run(Run(source, folder, address))
    print(
        f"{suite.name} against {name}: {table.summary(found)}, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
