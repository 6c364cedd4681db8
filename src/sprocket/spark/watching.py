"""The progress of a query: how many of its tasks are done, reported while it runs.

A session of this process is asked by its status tracker, from the thread of a portal, since the
caller waits for the query. A session of Spark Connect reports it by itself.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from sprocket.base.progress import Step, unwatched
from sprocket.runtime.blocking import Portal

LOOK_SECONDS = 0.2
"""Between two looks; a look costs a few questions to the JVM."""


@contextmanager
def watched(spark: Any, tell: Step, what: str) -> Iterator[None]:
    """Tell how many tasks of the queries of this block are done.

    Args:
        spark: The SparkSession.
        tell: Called from another thread; if it raises, the reports end, but not the query.
        what: What the tasks do, as people read it.
    """
    if tell is unwatched:
        yield
    elif hasattr(spark, "registerProgressHandler") and getattr(spark, "_sc", None) is None:
        with _told_by_connect(spark, tell, what):
            yield
    else:
        group = f"sprocket-{uuid4()}"
        context = spark.sparkContext
        context.setJobGroup(group, what)
        try:
            with Portal("sprocket-progress") as portal:
                portal.begin(_look_again, context.statusTracker(), group, tell, what)
                yield
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)


async def _look_again(tracker: Any, group: str, tell: Step, what: str) -> None:
    while True:
        done, total = _tasks(tracker, group)
        if total:
            tell(what, done, total)
        await asyncio.sleep(LOOK_SECONDS)


def _tasks(tracker: Any, group: str) -> tuple[int, int]:
    """Return how many tasks of a group of jobs are done, and how many there are."""
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            known = tracker.getStageInfo(stage)
            if known is not None:
                done += known.numCompletedTasks
                total += known.numTasks
    return done, total


@contextmanager
def _told_by_connect(spark: Any, tell: Step, what: str) -> Iterator[None]:
    def handler(stages: Iterable[Any] | None, *_: Any, **__: Any) -> None:
        known = list(stages or ())
        total = sum(stage.num_tasks for stage in known)
        if total:
            tell(what, sum(stage.num_completed_tasks for stage in known), total)

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)
