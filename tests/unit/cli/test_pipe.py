"""`sprocket pipe`: jobs as commands."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest
from typer.testing import CliRunner

from sprocket.base.errors import SettingsError
from sprocket.cli import pipe
from sprocket.cli.main import app
from sprocket.spark import jobs
from sprocket.spark.jobs import JobOption, JobReport


class Counted(JobReport, frozen=True, kw_only=True):
    """A report."""

    messages: int
    groups: list[dict[str, Any]]

    def complaint(self) -> str:
        """Complain of a store that is named so."""
        return "a broken rule" if self.groups[0]["topic"] == "local[7]" else ""


def count(
    spark: Any, *, store: Annotated[str, JobOption("Where.", is_argument=True)], progress: Any
) -> Counted:
    """Count."""
    progress("counting", 1, 2)
    if store == "none":
        raise SettingsError("there is\nnone")
    return Counted(messages=1_234, groups=[{"topic": spark, "tag": None}])


@pytest.fixture(autouse=True)
def _one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that needs no Spark, and a session that is none."""

    @contextmanager
    def session(options: pipe.SparkOptions) -> Iterator[Any]:
        yield options.master

    monkeypatch.setitem(jobs.JOBS, "count", count)
    monkeypatch.setattr(pipe.SparkOptions, "session", session)


def test_a_report_is_a_table_for_people() -> None:
    """Numbers first, then the rows; what is not there is a dash."""
    ended = CliRunner().invoke(app(), ["pipe", "count", "x", "--master", "local[3]"])
    assert ended.stdout == "messages  1,234\n\ngroups\ntopic     tag\nlocal[3]  –\n"


def test_a_report_is_json_for_scripts() -> None:
    """One line."""
    ended = CliRunner().invoke(app(), ["pipe", "count", "x", "--json"])
    assert json.loads(ended.stdout) == {
        "messages": 1234,
        "groups": [{"topic": "local[*]", "tag": None}],
    }


def test_an_error_is_one_line() -> None:
    """With exit code 1."""
    ended = CliRunner().invoke(app(), ["pipe", "count", "none"])
    assert (ended.exit_code, ended.stderr) == (1, "sprocket: there is none\n")


def test_help_names_the_jobs() -> None:
    """With the first line of each."""
    ended = CliRunner().invoke(app(), ["pipe"])
    assert all(name in ended.output for name in jobs.JOBS)


def test_a_complaint_ends_the_command_behind_the_report() -> None:
    """With exit code 1, so that a script notices; the report is whole."""
    ended = CliRunner().invoke(app(), ["pipe", "count", "x", "--json", "--master", "local[7]"])
    assert json.loads(ended.stdout)["messages"] == 1234
    assert (ended.exit_code, ended.stderr) == (1, "sprocket: a broken rule\n")


def test_a_long_table_is_cut_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so."""
    monkeypatch.setattr(pipe, "SHOWN_MAX", 0)
    ended = CliRunner().invoke(app(), ["pipe", "count", "x"])
    assert "groups, the first 0 of 1" in ended.stdout
