"""Runs a job on the session that the surroundings make: `spark-submit`, or a cluster's settings.

    spark-submit --master … --py-files sprocket.zip sprocket/spark/jobs/__main__.py stats /store

The report is one line of JSON on stdout, the last one; an error is one line on stderr, which Spark
sends to stdout, and exit code 1.
"""

import sys
from functools import partial
from typing import Any

import msgspec
import typer

from sprocket.base.errors import SprocketError
from sprocket.spark import LateSession, register
from sprocket.spark.jobs import JOBS, JobComplaint, SparkJob, command, summary


def main() -> None:
    """Run the job that the command line names."""
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__
    )
    app.callback()(_nothing)
    for name, job in JOBS.items():
        app.command(name, help=summary(job))(command(job, _run))
    try:
        app()
    except SprocketError as error:
        sys.stderr.write(f"sprocket: {' '.join(str(error).split())}\n")
        raise SystemExit(1) from None


def _nothing() -> None:
    """Jobs on stores of messages."""


def _run(job: SparkJob, options: dict[str, Any]) -> None:
    spark = LateSession(partial(_session, f"sprocket {job.__name__}"))
    try:
        report = job(spark, **options)
        # YARN takes a program that never starts a session for one that failed.
        spark.started()
    finally:
        spark.stop()
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    if report.complaint():
        raise JobComplaint(report.complaint())


def _session(name: str) -> Any:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(name).getOrCreate()
    register(spark)
    return spark


if __name__ == "__main__":
    main()
