"""Commands made of the signatures of jobs."""

import dataclasses
import inspect
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from sprocket.spark.jobs import JOBS, JobOption, JobReport, command, options, summary


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """Options that belong together."""

    dry_run: Annotated[bool, JobOption("Do nothing.")] = False
    size_max: Annotated[int, JobOption("How large.")] = 7


CARELESS = Care()


def job(
    spark: Any,
    *,
    store: Annotated[str, JobOption("Where.", is_argument=True)],
    topic: Annotated[list[str], JobOption("Which.", also="-t")] = (),  # type: ignore[assignment]
    care: Care = CARELESS,
    progress: Any = None,
) -> JobReport:
    """Do what is to be done.

    Raises: nothing.
    """
    return JobReport()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["a"], {"store": "a", "topic": [], "care": CARELESS}),
        (
            ["a", "-t", "x", "--topic", "y", "--dry-run", "--size-max", "9"],
            {"store": "a", "topic": ["x", "y"], "care": Care(dry_run=True, size_max=9)},
        ),
    ],
)
def test_options_come_from_the_signature(words: list[str], wanted: dict[str, Any]) -> None:
    """With their types and defaults, those of a dataclass too; what the runner gives is none."""
    got: list[dict[str, Any]] = []
    app = typer.Typer()
    app.command()(command(job, lambda _job, given: got.append(given)))
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output
    assert got == [wanted]


def test_every_job_tells_what_it_does() -> None:
    """Its first line and its options, and it can be called by names alone."""
    for name, one in JOBS.items():
        assert summary(one).endswith("."), name
        for parameter, option in options(one):
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, (name, parameter.name)
            assert option.note.endswith((".", "repeated")), (name, parameter.name)
