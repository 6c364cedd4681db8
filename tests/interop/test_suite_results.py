"""What is made of the reports of clients' suites; the suites run by `make interop-amqp`."""

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.suites import __main__ as runner
from tests.interop.suites import catalog, results, servers, table
from tests.interop.suites.catalog import Run, Suite
from tests.interop.suites.results import Outcome
from tests.interop.suites.table import Row

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def test_java_reports_by_junit(tmp_path: Path) -> None:
    """A test that fails while it is torn down has failed, though it is reported as passed, too."""
    report = tmp_path / "junit.xml"
    report.write_text(
        "<testsuites><testsuite name='java'>"
        "<testcase classname='a' name='one'/>"
        "<testcase classname='a' name='two'><failure/></testcase>"
        "<testcase classname='a' name='three'><skipped/></testcase>"
        "<testcase classname='a' name='four'/>"
        "<testcase classname='a' name='four'><error/></testcase>"
        "</testsuite></testsuites>"
    )
    found = {"a::one": PASSED, "a::two": FAILED, "a::three": SKIPPED, "a::four": FAILED}
    assert found == results.from_junit([report])


def test_node_reports_groups_inside_groups(tmp_path: Path) -> None:
    """Also those that ran out of time, whose element has no name that means anything."""
    report = tmp_path / "junit.xml"
    report.write_text(
        "<testsuites><testsuite name='connect'><testcase name='at all'/></testsuite>"
        "<undefined name='slow'><testsuite name='get'>"
        "<testcase name='at all'><failure/></testcase></testsuite></undefined></testsuites>"
    )
    assert results.from_node(report) == {"connect::at all": PASSED, "slow::get::at all": FAILED}


def test_go_reports_events(tmp_path: Path) -> None:
    """A test that begins and never ends has failed; lines of the compiler are passed over."""
    events = [("run", "A"), ("pass", "A"), ("run", "B"), ("skip", "B"), ("run", "C")]
    lines = [json.dumps({"Action": action, "Test": test}) for action, test in events]
    report = tmp_path / "output.txt"
    report.write_text("\n".join(["go: downloading", *lines, json.dumps({"Action": "fail"})]))
    assert results.from_go(report) == {"A": PASSED, "B": SKIPPED, "C": FAILED}


def test_a_java_class_without_a_report_has_failed(tmp_path: Path) -> None:
    """It ran for longer than it may, and would be missed on both sides otherwise."""
    (tmp_path / "TEST-junit-jupiter.xml").write_text("<testsuite/>")
    assert results.from_java("a.B", tmp_path) == {"a.B::all of it": FAILED}
    (tmp_path / "TEST-junit-vintage.xml").write_text(
        "<testsuite><testcase classname='B' name='c'/></testsuite>"
    )
    assert results.from_java("a.B", tmp_path) == {"B::c": PASSED}


@pytest.mark.slow
def test_a_runner_that_takes_too_long_has_what_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each test is told of as it ends; the one that never ends has failed."""
    (tmp_path / "test_them.py").write_text(
        "import os, pytest\n"
        "def test_passes(): pass\n"
        "def test_fails(): assert False\n"
        "@pytest.fixture\ndef broken():\n    yield\n    assert False\n"
        "def test_fails_at_the_end(broken): pass\n"
        "def test_is_skipped(): pytest.skip('for no reason')\n"
        "@pytest.mark.xfail\ndef test_may_fail(): assert False\n"
        "def test_hangs(): os.mkfifo('told'); open('told')\n"
        "def test_is_not_reached(): pass\n"
    )
    report = tmp_path / "report.jsonl"
    around = {"PYTHONPATH": str(catalog.ADAPTERS), "SUITE_REPORT": str(report)}
    command = [sys.executable, "-m", "pytest", "-p", "suite_report", "-p", "no:cacheprovider"]
    stopped = threading.Event()
    monkeypatch.setattr(catalog, "STOPPED", stopped)
    run = Run(tmp_path, tmp_path, servers.Address(1, 2))

    def end_when_it_hangs() -> None:
        peers.wait_until((tmp_path / "told").exists, "the test that hangs", every=0.01)
        stopped.set()

    watching = threading.Thread(target=end_when_it_hangs)
    watching.start()
    run.execute([*command, "-q", tmp_path], around, 60.0)
    watching.join()
    outcomes = [PASSED, FAILED, FAILED, SKIPPED, SKIPPED, FAILED]
    assert list(results.from_pytest(report).values()) == outcomes


def test_a_test_of_pytest_that_is_tried_again(tmp_path: Path) -> None:
    """It counts as what it was at last."""
    events = [("", "began"), ("setup", "passed"), ("call", "rerun"), ("setup", "passed")]
    events += [("call", "passed"), ("teardown", "passed")]
    lines = [json.dumps({"test": "a", "part": part, "outcome": how}) for part, how in events]
    report = tmp_path / "report.jsonl"
    report.write_text("\n".join(lines))
    assert results.from_pytest(report) == {"a": PASSED}


def test_a_run_that_is_broken_off_ends_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that would go on for a minute ends at once, and no other is started."""
    stopped = threading.Event()
    monkeypatch.setattr(catalog, "STOPPED", stopped)
    run = Run(tmp_path, tmp_path, servers.Address(1, 2))
    threading.Timer(0.1, stopped.set).start()
    run.execute([sys.executable, "-c", "import signal; signal.pause()"], {}, 60.0)
    with pytest.raises(InterruptedError, match="no more"):
        run.execute([sys.executable, "-c", ""], {}, 60.0)


def test_a_suite_that_breaks_leaves_the_others_their_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What breaks is named, the table has the rest, and the run has failed."""

    @contextlib.contextmanager
    def running(name: str, *_: object) -> Iterator[servers.Address]:
        yield servers.Address(1, 2, host=name)

    def breaks(run: Run) -> results.Results:
        if run.address.host == "sprocket":
            raise OSError("its runner is gone")
        return {"a": PASSED}

    suites = (
        Suite("first", "1", ".", breaks, address=lambda: servers.Address(1, 2)),
        Suite("second", "1", ".", lambda _: {"b": PASSED}, address=lambda: servers.Address(1, 2)),
    )
    monkeypatch.setattr(catalog, "SUITES", suites)
    monkeypatch.setattr(catalog, "FOLDER", tmp_path)
    monkeypatch.setattr(servers, "running", running)
    monkeypatch.setattr(runner, "BUILD", tmp_path / "build")
    assert runner.main([]) == 1
    said = capsys.readouterr().out
    assert "first against sprocket: BROKE" in said
    assert "its runner is gone" in said
    table_of_all = (tmp_path / "build" / "table.md").read_text()
    assert "| first 1 | 1 | 1, 0, 0 | 0, 0, 0 |" in table_of_all
    assert "| second 1 | 1 | 1, 0, 0 | 1, 0, 0 |" in table_of_all


def test_what_passes_there_and_not_here_needs_a_reason() -> None:
    """A test that is missing here counts as one that does not pass."""
    suite = next(suite for suite in catalog.SUITES if suite.name == "java")
    known = "com.rabbitmq.client.test.server.Bug19219Test::it"
    theirs = {known: PASSED, "a": PASSED, "b": PASSED, "c": FAILED, "d": SKIPPED}
    row = Row(suite, theirs, {known: FAILED, "a": PASSED, "c": PASSED, "d": FAILED})
    assert table.unexplained(row) == ["b"]
    said = table.markdown([row])
    assert "| java 5.0.0 | 5 | 3, 1, 1 | 2, 2, 0 |" in said
    assert "java: 2 pass there and not here\n\n* `b`\n" in said
    assert "java: 1 pass here and not there\n\n* `c`\n" in said
