"""Mutants: what is changed, that a test notices it, and that one which notices nothing is named."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from tests.mutants.__main__ import EXPLAINED, ROOMS, ROOT, SOURCE, explained
from tests.mutants.mutations import Mutation, places
from tests.mutants.running import plant

MODULE = '''
"""A module."""
LIMIT = 3


def decorated(function):
    return function


class Log:
    """Its docstring is left alone."""

    @decorated
    def write(self, data, size=3):
        """As is this one."""
        assert data != b"x"
        if not data and size < LIMIT:
            raise ValueError(f"{size + 1} bytes")
        for at in range(len(data)):
            if at == 7:
                break
        self.sync()
        log.info("written")
        try:
            self.sync_folder()
        except OSError:
            return 5

        def inner() -> int:
            return -1

        return inner() + size if self.is_open else True
'''

EXPECTED = {
    "return function": {"return None"},
    "if not data and size < LIMIT:": {
        "if not (not data and size < LIMIT):",
        "if not data or size < LIMIT:",
        "if not data and size <= LIMIT:",
    },
    "raise ValueError(f'{size + 1} bytes')": {"pass"},
    "if at == 7:": {"if at != 7:", "if at == 8:"},
    "break": {"pass"},
    "self.sync()": {"pass"},
    "self.sync_folder()": {"pass"},
    "return 5": {"return 6"},
    "return -1": {"return None", "return +1", "return -2"},
    "return inner() + size if self.is_open else True": {
        "return None",
        "return inner() + size if not self.is_open else True",
        "return inner() - size if self.is_open else True",
        "return inner() + size if self.is_open else False",
    },
}


def found_in(path: Path) -> list[Mutation]:
    """Return all mutations of a module."""
    return [place.mutation() for place in places(str(path))]


def test_each_place_is_changed_alone(tmp_path: Path) -> None:
    """Defaults, decorators, docstrings, assertions, texts of errors and the log are left alone."""
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    found: dict[str, set[str]] = {}
    for one in found_in(path):
        found.setdefault(one.before, set()).add(one.after)
        assert one.function in ("decorated", "Log.write", "Log.write.<locals>.inner")
        assert one.before != one.after
    assert found == EXPECTED


def test_a_function_gets_the_code_of_its_mutant(tmp_path: Path) -> None:
    """Whoever has the function already, and functions inside of it as well."""
    path = tmp_path / "module.py"
    path.write_text("def outer(x):\n    def inner(y):\n        return y + 1\n    return inner(x)\n")
    values: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), values)  # noqa: S102 (it is made here)
    outer: Callable[[int], Any] = values["outer"]
    assert outer(5) == 6
    assert isinstance(outer, FunctionType)
    seen = set()
    for one in found_in(path):
        plant(one, [outer])
        seen.add(outer(5))
    assert seen == {None, 4, 7}


PRODUCT = """
def count(end):
    at = 0
    while at < end:
        at += 1
    return at

def alone():
    return count(1) == 2

def unknown():
    return 7 + 1
"""

TESTS = """
import product

def test_count():
    assert product.count(3) == 3

def test_nothing():
    product.alone()
"""

PROGRAM = """
import sys
from pathlib import Path
import pytest
from tests.mutants.mutations import places
from tests.mutants.running import MutantRuns
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
path = str(folder / "product.py")
chosen = [one.mutation() for one in places(path)]
told = lambda one: print(one.mutation.after, "|", one.outcome, flush=True)
runs = MutantRuns(chosen, frozenset([path]), folder, told, cpu_seconds_min=1)
ini = str(folder / "pytest.ini")
pytest.main([str(folder), "-c", ini, f"--basetemp={folder}/tmp"], plugins=[runs])
"""


@pytest.mark.slow
def test_each_mutant_gets_the_tests_that_run_it(tmp_path: Path) -> None:
    """One is killed, one goes round for ever, one is seen by no test, one is not even run."""
    (tmp_path / "product.py").write_text(PRODUCT)
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "conftest.py").write_text("")
    (tmp_path / "room" / "test_product.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(" | ") for line in told.stdout.splitlines() if " | " in line]
    assert dict(lines) == {
        "at = 1": "survived",
        "while at <= end:": "killed",
        "while not at < end:": "killed",
        "at -= 1": "timed out",
        "at += 2": "killed",
        "return None": "not run",
        "return count(2) == 2": "survived",
        "return count(1) != 2": "survived",
        "return count(1) == 3": "survived",
        "return 7 - 1": "not run",
        "return 8 + 1": "not run",
        "return 7 + 2": "not run",
    }


@pytest.mark.nightly
def test_what_is_explained_is_there() -> None:
    """Each row of docs/mutants.md is a mutation that there is."""
    known = explained()
    functions = {(name, function) for name, function, _, _ in known}
    there = set()
    for name in {name for name, _ in functions}:
        for place in places(str(SOURCE / name)):
            if (name, place.function) in functions:
                one = place.mutation()
                there.add((name, place.function, one.before, one.after))
    assert known - there == set()
    assert EXPLAINED.read_text(encoding="utf-8").count("→") >= len(known)


def test_the_rooms_are_there() -> None:
    """What is mutated, and the tests of each."""
    for room, tests in ROOMS.items():
        assert (SOURCE / room).exists()
        for path in tests:
            assert (ROOT / path).exists()
