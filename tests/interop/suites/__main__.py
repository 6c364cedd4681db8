"""Runs clients' own suites against the real RabbitMQ 3.10.8 and against `sprocket up`.

    python -m tests.interop.suites [NAME ...] [--only rabbitmq|sprocket]

The table is printed, and written to `build/interop-amqp/table.md` after each suite, with what each
runner said beside it. A suite or a server that breaks is named, and the next one is run. The code
is 1 if a test that passes there fails here and `reasons.toml` does not say why, or if one broke.
"""

import argparse
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.interop.peers import ROOT
from tests.interop.suites import catalog, servers, table
from tests.interop.suites.catalog import Run, Suite
from tests.interop.suites.results import Results
from tests.interop.suites.table import Row

BUILD = ROOT / "build" / "interop-amqp"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named suites, or all."""
    parser = argparse.ArgumentParser(prog="interop-amqp")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--only", choices=servers.NAMES)
    given = parser.parse_args(arguments)
    known = [suite.name for suite in catalog.SUITES]
    for name in given.names:
        if name not in known:
            parser.error(f"no suite {name!r}; there are {', '.join(known)}")
    rows: list[Row] = []
    is_broken = False
    began = time.monotonic()
    for suite in catalog.SUITES:
        if given.names and suite.name not in given.names:
            continue
        source = suite.source()
        if source is None:
            where = f"set {suite.variable}" if suite.variable else f"run {catalog.PREPARE}"
            print(f"{suite.name}: NOT RUN, its tree is not there; {where}", flush=True)
            continue
        names = (given.only,) if given.only else servers.NAMES
        found: dict[str, Results] = {}
        for name in names:
            try:
                found[name] = _run(suite, source, name)
            except Exception:  # whatever it is, the suites behind it are run
                is_broken = True
                print(f"{suite.name} against {name}: BROKE\n{traceback.format_exc()}", flush=True)
        rows.append(Row(suite, found.get("rabbitmq", {}), found.get("sprocket", {})))
        (BUILD / "table.md").write_text(table.markdown(rows))
    print(table.markdown(rows))
    print(f"{(time.monotonic() - began) / 60:.0f} minutes")
    return 1 if is_broken or any(table.unexplained(row) for row in rows) else 0


def _run(suite: Suite, source: Path, name: str) -> Results:
    folder = BUILD / suite.name / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tls = suite.certificates(source) if suite.certificates else None
    began = time.monotonic()
    with servers.running(name, folder / "server", suite.address(), tls) as address:
        found = suite.run(Run(source, folder, address))
    print(
        f"{suite.name} against {name}: {table.summary(found)}, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
