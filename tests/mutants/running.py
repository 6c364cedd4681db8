"""Runs tests on mutants: pytest collects once, and each mutant is a process forked from there.

In that process the functions of the mutated module get the code of the mutant. It runs the tests
that run the mutated function, the quickest first, and ends at the first one that fails. Which ones
these are is found out by a run of all tests on what is not mutated.

A mutant may go round for ever, or wait: its process has a bound of CPU time, and ends when it has
used none for a while.
"""

import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from tests.mutants.mutations import Mutation, mutate

Outcome = str
"""`killed`, `survived`, `timed out`, `not run` (no test runs the function) or `no code`."""

CPU_TIMES = 3
IDLE_LOOKS = 200
"""A process that uses no CPU between so many looks, 0.2 s apart, waits for ever: no test sleeps.

Looks are counted, not seconds: both processes may be stopped for a while."""

MEMORY_BYTES = 3 << 30
"""What a mutant may take beside what the tests have."""

_KILLED, _NO_CODE = 10, 11

Function = tuple[str, str, int]
"""File, qualified name and first line."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the tests of a mutant ended, and the one that failed."""

    mutation: Mutation
    outcome: Outcome
    test: str = ""


@dataclass(eq=False)
class MutantRuns:
    """A plugin of pytest that runs mutants instead of tests.

    Args:
        mutants: What to run.
        paths: The files in which functions are of interest.
        folder: Where it may write.
        told: Is given how each mutant ended.
        cpu_seconds_min: So much CPU time has a mutant at least, and `CPU_TIMES` what its tests need
            otherwise.

    Attributes:
        failed_before: Tests that fail without a mutation; they are left out.
    """

    mutants: Sequence[Mutation]
    paths: frozenset[str]
    folder: Path
    told: Callable[[Ended], None]
    cpu_seconds_min: int = 20
    failed_before: list[str] = field(default_factory=list)
    _failed: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests as they are, then on each mutant."""
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        session.config.pluginmanager.unregister(reporter)
        sys.stdout.flush()
        functions = self._functions()
        seconds, run_by = self._baseline(session.items)
        items = {item.nodeid: item for item in session.items}
        for one in self.mutants:
            names = run_by[one.path, one.function, one.first_line]
            some = [items[name] for name in sorted(names, key=seconds.__getitem__)]
            if not some:
                self.told(Ended(one, "not run"))
                continue
            needed = sum(seconds[item.nodeid] for item in some)
            budget = self.cpu_seconds_min + CPU_TIMES * needed
            self.told(self._run(one, some, functions[one.path], int(budget)))
        return True

    def _functions(self) -> dict[str, list[FunctionType]]:
        """Return the functions that there are, by file."""
        found: dict[str, list[FunctionType]] = defaultdict(list)
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__code__.co_filename in self.paths:
                found[one.__code__.co_filename].append(one)
        return found

    def _baseline(
        self, items: Sequence[pytest.Item]
    ) -> tuple[dict[str, float], dict[Function, set[str]]]:
        """Return the CPU seconds of each test that passes, and which tests run a function."""
        noted = self.folder / "baseline.json"
        child = os.fork()
        if not child:
            self._in_child(lambda: self._note_all(items, noted))
        _, status = os.waitpid(child, 0)
        if status:
            raise RuntimeError(
                f"the tests could not be run without a mutation: status {status}, see {self.folder}"
            )
        seconds: dict[str, float] = {}
        run_by: dict[Function, set[str]] = defaultdict(set)
        for name, (took, is_failed, functions) in json.loads(noted.read_text()).items():
            if is_failed:
                self.failed_before.append(name)
                continue
            seconds[name] = took
            for path, function, line in functions:
                run_by[path, function, line].add(name)
        return seconds, run_by

    def _note_all(self, items: Sequence[pytest.Item], noted: Path) -> int:
        """Run all tests, and write down what they ran."""
        found: dict[str, tuple[float, bool, list[Function]]] = {}
        seen: set[CodeType] = set()

        def profile(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                seen.add(frame.f_code)

        for at, item in enumerate(items):
            self._failed = ""
            seen.clear()
            began = time.process_time()
            threading.setprofile(profile)
            sys.setprofile(profile)
            self._protocol(items, at)
            sys.setprofile(None)
            functions = [
                (code.co_filename, code.co_qualname, code.co_firstlineno)
                for code in list(seen)
                if code.co_filename in self.paths
            ]
            found[item.nodeid] = time.process_time() - began, bool(self._failed), functions
        noted.write_text(json.dumps(found))
        return 0

    @staticmethod
    def _protocol(items: Sequence[pytest.Item], at: int) -> None:
        """Run one of some tests."""
        item = items[at]
        following = items[at + 1] if at + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _in_child(self, job: Callable[[], int]) -> None:
        """Do something in this process, which is forked, without a word, and end it."""
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        try:
            code = job()
        except BaseException:
            (self.folder / "raised.txt").write_text(traceback.format_exc())
            code = _KILLED
        os._exit(code)

    def _run(
        self, one: Mutation, items: Sequence[pytest.Item], functions: list[FunctionType], cpu: int
    ) -> Ended:
        """Run tests on a mutant."""
        noted = self.folder / "failed"
        noted.write_text("")
        child = os.fork()
        if not child:
            self._in_child(lambda: self._run_mutated(one, items, functions, cpu, noted))
        status = _wait(child)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what its tests have started
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        if os.WIFSIGNALED(status):
            is_late = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
            return Ended(one, "timed out" if is_late else "killed", noted.read_text())
        outcomes = {0: "survived", _NO_CODE: "no code"}
        return Ended(one, outcomes.get(os.WEXITSTATUS(status), "killed"), noted.read_text())

    def _run_mutated(
        self,
        one: Mutation,
        items: Sequence[pytest.Item],
        functions: list[FunctionType],
        cpu: int,
        noted: Path,
    ) -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
        memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (memory + MEMORY_BYTES, memory + MEMORY_BYTES))
        try:
            plant(one, functions)
        except (SyntaxError, ValueError):  # it has another number of free variables
            return _NO_CODE
        for at in range(len(items)):
            self._protocol(items, at)
            if self._failed:
                noted.write_text(self._failed)
                return _KILLED
        return 0


def plant(one: Mutation, functions: Sequence[FunctionType]) -> None:
    """Give the functions of a module the code of a mutant.

    Raises:
        ValueError, SyntaxError: There is no such code.
    """
    whole = compile(mutate(one.path, one.number), one.path, "exec", dont_inherit=True)
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(whole)}
    for function in functions:
        old = function.__code__
        new = codes.get((old.co_qualname, old.co_firstlineno))
        if new is not None and new != old:
            function.__code__ = new


def _codes(code: CodeType) -> list[CodeType]:
    """Return a code and all inside of it."""
    found = [code]
    for one in code.co_consts:
        if isinstance(one, CodeType):
            found += _codes(one)
    return found


def _wait(child: int) -> int:
    """Wait for a process; end it when it has used no CPU for a while. Return its status."""
    used, idle, pause = -1, 0, 0.005
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(pause)
        pause = min(0.2, pause * 1.5)
        now_used = _cpu_ticks(child)
        if now_used != used:
            used, idle = now_used, 0
            continue
        idle += 1
        if idle > IDLE_LOOKS:
            os.kill(child, signal.SIGKILL)


def _cpu_ticks(process: int) -> int:
    """Return how much CPU a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
