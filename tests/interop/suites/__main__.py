"""Runs clients' own suites against the real RabbitMQ 3.10.8 and against `sprocket up`.

    python -m tests.interop.suites [NAME ...] [--only rabbitmq|sprocket] [--jobs N]

The table is printed, and written to `build/interop-amqp/table.md` after each suite, with what each
runner said beside it. A suite or a server that breaks is named, and the next one is run. The code
is 1 if a test that passes there fails here and `reasons.toml` does not say why, or if one broke.
"""

import argparse
import itertools
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from tests.interop.peers import ROOT
from tests.interop.suites import catalog, servers, table
from tests.interop.suites.catalog import Run, Suite
from tests.interop.suites.results import Results
from tests.interop.suites.table import Row

BUILD = ROOT / "build" / "interop-amqp"
_MAKING = threading.Lock()
"""Certificates are made once, for both servers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named suites, or all."""
    parser = argparse.ArgumentParser(prog="interop-amqp")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--only", choices=servers.NAMES)
    parser.add_argument("--jobs", type=int, default=1, help="suites that run at the same time")
    given = parser.parse_args(arguments)
    known = [suite.name for suite in catalog.SUITES]
    for name in given.names:
        if name not in known:
            parser.error(f"no suite {name!r}; there are {', '.join(known)}")
    suites = [suite for suite in catalog.SUITES if suite.name in (given.names or known)]
    names = (given.only,) if given.only else servers.NAMES
    rows = {suite.name: Row(suite, {}, {}) for suite in suites}
    is_broken = False
    began = time.monotonic()
    with ThreadPoolExecutor(given.jobs) as pool:
        runs = {}
        for name, suite in itertools.product(names, suites):
            source = suite.source()
            if source is not None:
                runs[pool.submit(_run, suite, source, name)] = suite, name
            elif name == names[0]:
                where = f"set {suite.variable}" if suite.variable else f"run {catalog.PREPARE}"
                print(f"{suite.name}: NOT RUN, its tree is not there; {where}", flush=True)
                del rows[suite.name]
        try:
            for run in as_completed(runs):
                suite, name = runs[run]
                error = run.exception()
                if error is not None:  # whatever it is, the other suites go on
                    is_broken = True
                    said = "".join(traceback.format_exception(error))
                    print(f"{suite.name} against {name}: BROKE\n{said}", flush=True)
                    continue
                row, found = rows[suite.name], run.result()
                is_real = name == "rabbitmq"
                rows[suite.name] = (
                    replace(row, theirs=found) if is_real else replace(row, ours=found)
                )
                (BUILD / "table.md").write_text(table.markdown(rows.values()))
        except BaseException:
            catalog.STOPPED.set()
            pool.shutdown(cancel_futures=True)
            raise
    print(table.markdown(rows.values()))
    print(f"{(time.monotonic() - began) / 60:.0f} minutes")
    return 1 if is_broken or any(table.unexplained(row) for row in rows.values()) else 0


def _run(suite: Suite, source: Path, name: str) -> Results:
    folder = BUILD / suite.name / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with _MAKING:
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
