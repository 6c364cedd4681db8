"""Jobs: what takes a store apart on Spark, and puts it together again.

Each is a function `job(spark, **options)` that returns a `JobReport`, runs on any master, and does
its work inside of the workers. `JOBS` names them; `sprocket pipe NAME` and
`python -m sprocket.spark.jobs NAME` are made from it.
"""

from sprocket.spark.jobs.archive import ArchivedMessages, ArchiveRun, archive
from sprocket.spark.jobs.cluster import JobCluster
from sprocket.spark.jobs.command import command
from sprocket.spark.jobs.damage import left_out
from sprocket.spark.jobs.erase import ErasedMessages, EraseRun, erase
from sprocket.spark.jobs.fsck import fsck
from sprocket.spark.jobs.job import (
    JobComplaint,
    JobOption,
    JobReport,
    SparkJob,
    options,
    reading,
    summary,
)
from sprocket.spark.jobs.job_files import JobFiles
from sprocket.spark.jobs.lag import lag
from sprocket.spark.jobs.migrate import MigratedMessages, MigrateSending, Routing, migrate
from sprocket.spark.jobs.rebuild_index import rebuild_index
from sprocket.spark.jobs.rebuild_queues import rebuild_queues
from sprocket.spark.jobs.replay import ReplayedMessages, ReplaySending, replay
from sprocket.spark.jobs.stats import stats

__all__ = [
    "JOBS",
    "ArchiveRun",
    "ArchivedMessages",
    "EraseRun",
    "ErasedMessages",
    "JobCluster",
    "JobComplaint",
    "JobFiles",
    "JobOption",
    "JobReport",
    "MigrateSending",
    "MigratedMessages",
    "ReplaySending",
    "ReplayedMessages",
    "Routing",
    "SparkJob",
    "archive",
    "command",
    "erase",
    "fsck",
    "lag",
    "left_out",
    "migrate",
    "options",
    "reading",
    "rebuild_index",
    "rebuild_queues",
    "replay",
    "stats",
    "summary",
]

JOBS: dict[str, SparkJob] = {
    "archive": archive,
    "erase": erase,
    "fsck": fsck,
    "lag": lag,
    "migrate": migrate,
    "rebuild-index": rebuild_index,
    "rebuild-queues": rebuild_queues,
    "replay": replay,
    "stats": stats,
}
"""By the name that people type."""
