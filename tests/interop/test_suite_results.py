"""What is made of the reports of clients' suites; the suites run by `make interop-amqp`."""

import json
from pathlib import Path

from tests.interop.suites import catalog, results, table
from tests.interop.suites.results import Outcome
from tests.interop.suites.table import Row

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def test_pytest_and_java_report_by_junit(tmp_path: Path) -> None:
    """A test that fails while it is torn down has failed, though it is reported as passed, too."""
    report = tmp_path / "junit.xml"
    report.write_text(
        "<testsuites><testsuite name='pytest'>"
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
