"""How long tests take: noted at each run, recorded in the repository, and what follows from it.

Each run notes what its tests took in `build/durations.json`. `make durations` runs them with a core
for each worker and moves the notes into `tests/durations.json`, where the run before keeps its
place beside the newest: one busy minute of a machine does not make a test too slow, two slow runs
do. From the record follow

1. the order of a run: units of work go to the workers longest first, so that no worker is left with
   a long one at the end (`arrange`);
2. the budget: `tests/test_tidy.py` refuses a test that took more than `SECONDS_MAX` twice.

A unit of work is what one worker has to do in one piece: a file, since its tests may share
fixtures, or one test that takes seconds, or all tests that share a resource, which is named by the
fixture that holds it.
"""

import gc
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_suffix(".json")
NOTES = ROOT / "build" / "durations.json"
SECONDS_MAX = 20.0
"""What a test of the plain run may take; repetition belongs to the night."""
RECORDED_SECONDS_MIN = 0.5
"""What takes less is recorded as part of its file only."""
ALONE_SECONDS_MIN = 2.0
"""From here on a test is a unit of work by itself: the marker `slow`."""
SHARED_FIXTURES = ("spark",)
"""What only one worker starts: a session of Spark, with a JVM of 1 GB."""
_WIDE_SCOPES = {"class", "module", "package"}

Durations = Mapping[str, Sequence[float]]
"""By test, or by file: seconds in the newest run, and in the one before."""


def read(path: Path = RECORD) -> Durations:
    """Return the record; nothing is recorded in a folder that has none."""
    if not path.exists():
        return {}
    found: Durations = json.loads(path.read_text(encoding="utf-8"))
    return found


def too_slow(recorded: Durations) -> list[str]:
    """Return the tests that took longer than a test may, in both runs."""
    return [
        f"{name}: {', '.join(f'{one:.0f} s' for one in seconds)}"
        for name, seconds in recorded.items()
        if "::" in name and len(seconds) > 1 and min(seconds) > SECONDS_MAX
    ]


def arrange(items: list[pytest.Item], recorded: Durations) -> dict[str, str]:
    """Put items of one unit of work beside each other, the longest unit first.

    Returns:
        By the id of each test, its unit.
    """
    units: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        units[_unit_of(item, recorded)].append(item)
    seconds = {name: _seconds(name, members, recorded) for name, members in units.items()}
    longest_first = sorted(units, key=lambda name: (-seconds[name], name))
    items[:] = [item for name in longest_first for item in units[name]]
    return {item.nodeid: name for name in longest_first for item in units[name]}


def is_long(nodeid: str, recorded: Durations) -> bool:
    """Tell whether a test takes seconds."""
    return max(recorded.get(nodeid, [0.0])) >= ALONE_SECONDS_MIN


def _unit_of(item: pytest.Item, recorded: Durations) -> str:
    """Name the unit of a test: what it shares with others, itself if it is long, or its file."""
    if marker := item.get_closest_marker("xdist_group"):
        return str(marker.args[0])
    for fixture in SHARED_FIXTURES:
        if fixture in getattr(item, "fixturenames", ()):
            return fixture
    is_alone = is_long(item.nodeid, recorded) and not _shares(item)
    return item.nodeid if is_alone else _file(item.nodeid)


def _shares(item: pytest.Item) -> bool:
    """Tell whether a test uses something that the tests of its file share."""
    found = getattr(item, "_fixtureinfo", None)
    definitions = found.name2fixturedefs.values() if found else ()
    return any(one[-1].scope in _WIDE_SCOPES for one in definitions)


def _seconds(unit: str, members: Sequence[pytest.Item], recorded: Durations) -> float:
    """Return what a unit took, as far as it is recorded."""
    if unit in recorded:
        return recorded[unit][0]
    return sum(recorded[one.nodeid][0] for one in members if one.nodeid in recorded)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Arranging:
    """Arranges the tests of a worker, and says what the units are to who hands them out."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Do so once everything else has chosen and ordered.

        What was collected lives as long as the worker: the garbage collector need not look at it
        again, which is a tenth of what small tests cost.
        """
        gc.collect()
        gc.freeze()
        units = arrange(items, read())
        given = config.workerinput  # type: ignore[attr-defined]
        if given["workerid"] == "gw0":
            path = _units_path(given["testrunuid"])
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(units), encoding="utf-8")


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out units of work in the order of the items.

    The groups of xdist's own `loadgroup` need another release of pytest (its nodes have no
    `_nodeid` from 9.2 on, so that it groups nothing and does not say so).
    """

    def __init__(self, config: pytest.Config, log: Producer | None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._units: dict[str, str] = {}

    def schedule(self) -> None:
        """Learn the units from the first worker, and begin."""
        if not self._units:
            path = _units_path(self.nodes[0].workerinput["testrunuid"])
            self._units = json.loads(path.read_text(encoding="utf-8"))
            path.unlink()
        super().schedule()

    def remove_node(self, node: WorkerController) -> str | None:
        """Hand out again what a worker that crashed has not done, and nothing else.

        xdist also hands out what was done; whoever gets that has no test to report, so is given
        nothing more, and the run never ends.
        """
        workload = self.assigned_work[node]
        for unit in [name for name, tests in workload.items() if all(tests.values())]:
            del workload[unit]
        crashed: str | None = super().remove_node(node)
        return crashed

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]


def _units_path(run: str) -> Path:
    return ROOT / "build" / f"units-{run}.json"


class Notes:
    """Notes, where the reports of all workers come together, what each test took."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase: to its file's seconds, and, without what a fixture takes, to its test's."""
        if report.when == "call":
            self._seconds[report.nodeid] += report.duration
        self._seconds[_file(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write them down."""
        NOTES.parent.mkdir(exist_ok=True)
        NOTES.write_text(json.dumps(self._seconds, indent=0), encoding="utf-8")


def record(notes: Mapping[str, float], recorded: Durations, path: Path) -> None:
    """Write the record that follows from one and the notes of a newer run."""
    merged = {
        name: [round(seconds, 1), *recorded.get(name, [])[:1]]
        for name, seconds in sorted(notes.items())
        if seconds >= RECORDED_SECONDS_MIN
    }
    lines = [f"{json.dumps(name)}: {json.dumps(seconds)}" for name, seconds in merged.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    record(json.loads(NOTES.read_text(encoding="utf-8")), read(), RECORD)
