"""`sprocket pipe`: the jobs that run on Spark, each as a command.

They are listed by `sprocket.spark.jobs`; their options are made of their signatures. That is
imported when such a command is looked for, so that no other one pays for it.
"""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sprocket.cli.options import AsJson, expanded
from sprocket.cli.terminal import CommandAnswer, output, tables

if TYPE_CHECKING:
    from sprocket.spark.jobs import JobReport, SparkJob


SHOWN_MAX = 1000
"""Rows of a table for people."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where Spark runs, and with what."""

    master: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Where Spark runs: `local[4]`, `spark://host:7077`, or `sc://host` for Connect.",
            rich_help_panel="Spark",
            envvar="SPROCKET_SPARK_MASTER",
        ),
    ] = "local[*]"
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Heap of the JVM.", rich_help_panel="Spark")
    ] = "1g"
    conf: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of Spark's; may be repeated.",
            rich_help_panel="Spark",
        ),
    ] = ()  # type: ignore[assignment]

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Give a session that starts when it is first asked for something, and ends with the block.

        What Spark writes stays in files.

        Raises:
            SettingsError: A setting is wrong; or, when it starts, there is no Java.
            QueryFailed: Spark does not start, as of a wrong master.
        """
        import tempfile

        from sprocket.spark import LateSession, in_one_line, session

        settings = output.pairs(self.conf, "setting of Spark's")
        with tempfile.TemporaryDirectory(
            prefix="sprocket-spark-", ignore_cleanup_errors=True
        ) as folder:

            def start() -> Any:
                with in_one_line():
                    return session(
                        "sprocket",
                        master=self.master,
                        memory=self.memory,
                        folder=folder,
                        settings=settings,
                    )

            spark = LateSession(start)
            try:
                yield spark
            finally:
                spark.stop()


class _Jobs(TyperGroup):
    """A command for each job, made when somebody looks."""

    @property
    def commands(self) -> Any:
        """The commands by name."""
        if not self._made:
            self._made.update(_commands())
        return self._made

    @commands.setter
    def commands(self, given: MutableMapping[str, Any]) -> None:
        """Take what was registered: nothing."""
        self._made = dict(given)


app = typer.Typer(
    cls=_Jobs,
    no_args_is_help=True,
    help="Jobs on Spark: count, archive, replay, rebuild what a store holds.",
)


def _commands() -> Mapping[str, Any]:
    from sprocket.spark.jobs import JOBS, command, summary

    jobs = typer.Typer()
    shared = [
        inspect.Parameter("runs_on", inspect.Parameter.KEYWORD_ONLY, annotation=SparkOptions),
        inspect.Parameter(
            "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson
        ),
    ]
    for name, job in JOBS.items():
        jobs.command(name, help=summary(job))(expanded(command(job, _run, tuple(shared))))
    jobs.callback()(lambda: None)
    group = typer.main.get_command(jobs)
    assert isinstance(group, TyperGroup)
    return group.commands


def _run(job: "SparkJob", options: dict[str, Any], runs_on: SparkOptions, as_json: bool) -> None:
    with output.failing_in_one_line(), runs_on.session() as spark, output.progress() as step:
        has_progress = "progress" in inspect.signature(job).parameters
        report = job(spark, **options, **({"progress": step} if has_progress else {}))
        answer(report).write(as_json=as_json)
        if report.complaint():
            from sprocket.spark.jobs import JobComplaint

            raise JobComplaint(report.complaint())


def answer(report: "JobReport") -> CommandAnswer:
    """Answer with a report: its numbers and texts, then a table for each of its lists of rows.

    Of a list no more than `SHOWN_MAX` rows are in the table; JSON has all of them.
    """
    import msgspec

    values = msgspec.to_builtins(report)
    lists = {
        name: value
        for name, value in values.items()
        if isinstance(value, list) and value and isinstance(value[0], dict)
    }

    def show() -> None:
        tables.write_fields("", {n: v for n, v in values.items() if n not in lists and v != []})
        for name, rows in lists.items():
            shown = [{n: "–" if v is None else v for n, v in row.items()} for row in rows]
            title = name.replace("_", " ")
            if len(shown) > SHOWN_MAX:
                title += f", the first {SHOWN_MAX:,} of {len(shown):,}"
            output.write_line("")
            tables.write_table(title, shown[:SHOWN_MAX])

    return CommandAnswer([values], show)
