"""Queries of jobs: run with progress, their small results as rows."""

from typing import Any

from sprocket.base.progress import Step
from sprocket.spark.failures import in_one_line
from sprocket.spark.watching import watched
from sprocket.spark.worker_tasks import spread

__all__ = ["collected", "spread"]


def as_sql(schema: Any) -> str:
    """Return an Arrow schema of texts and numbers as Spark writes it."""
    kinds = {"string": "string", "int32": "int", "int64": "bigint"}
    return ", ".join(f"`{field.name}` {kinds[str(field.type)]}" for field in schema)


def collected(spark: Any, frame: Any, tell: Step, what: str) -> list[dict[str, Any]]:
    """Run a query and return its rows, by the names of their columns.

    Args:
        spark: The SparkSession.
        frame: The DataFrame; its result is small.
        tell: Called with the number of tasks that are done.
        what: What they do, as people read it.

    Raises:
        QueryFailed: It failed; the text is what the worker's error said.
    """
    with in_one_line(), watched(spark, tell, what):
        rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows
