"""What a store has lost, or has damaged, for jobs that read its other messages through the JVM.

A query does not report what it leaves out, as its tasks send nothing but rows to the driver. So the
log is read once more, in the workers alone.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from sprocket.base.progress import Step, unwatched
from sprocket.spark.jobs.job import reading
from sprocket.spark.jobs.job_files import JobFiles
from sprocket.spark.jobs.tasks import collected, spread
from sprocket.spark.rocketmq.folder import LeftOut, Stored

_LEFT_OUT = "left_out string"


def left_out(
    spark: Any, store: str, files: JobFiles, *, verify: bool, progress: Step = unwatched
) -> LeftOut:
    """Return what queries with `mode=DROPMALFORMED` leave out of a store.

    Args:
        spark: The SparkSession.
        store: The store's folder.
        files: Settings of where it lies.
        verify: Whether checksums are compared.
        progress: Called with the number of tasks that are done.

    Raises:
        StoreError: There is no such store.
        QueryFailed: A task failed.
    """
    given = files.options(store) | reading(skip_damaged=True, verify=verify)
    stored = Stored.plan(store, columns=["size"], internal=True, more=given)
    tasks = spread(spark, stored.parts, partial(_left_out, stored), _LEFT_OUT)
    found = LeftOut()
    if stored.lost_end is not None:
        found.add(stored.lost_end)
    for row in collected(spark, tasks, progress, "looking for damage"):
        found.join(msgspec.json.decode(row["left_out"], type=LeftOut))
    return found


def _left_out(stored: Stored, part: Any) -> Iterator[Any]:
    """Read one part of the log; runs in a worker."""
    found = LeftOut()
    for _ in stored.read(part, found):
        pass
    text = msgspec.json.encode(found).decode()
    yield pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=["left_out"])
