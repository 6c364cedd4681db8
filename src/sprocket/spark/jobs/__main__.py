"""Runs a job on the session that the surroundings make: `spark-submit`, or a cluster's settings.

    spark-submit --master … --py-files sprocket.zip sprocket/spark/jobs/__main__.py stats /store

The report is one line of JSON on stdout, the last one; an error is one line on stderr, which Spark
sends to stdout, and exit code 1.
"""

import sys
from typing import Any

import msgspec
import typer

from sprocket.base.errors import SprocketError
from sprocket.spark import register
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
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(f"sprocket {job.__name__}").getOrCreate()
    try:
        register(spark)
        report = job(spark, **options)
    finally:
        spark.stop()
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    if report.complaint():
        raise JobComplaint(report.complaint())


if __name__ == "__main__":
    main()
