"""Archive a store by runs that end badly: argv has the store, the archive and a folder for Spark.

The first run publishes a round, and in the next its disk is full; the second run publishes a round,
too, and is killed before it publishes another. Prints what the first one said, a line, and how many
Parquet files it left.
"""

import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from sprocket.spark import QueryFailed, session
from sprocket.spark.archive import ArchiveFolder, Manifest
from sprocket.spark.jobs import ArchiveRun, archive

PUBLISH = ArchiveFolder.publish


def main(store: str, to: str, folder: str) -> None:
    """Run both."""
    spark = session(cores=1, folder=folder)
    run = ArchiveRun(partition_bytes=20_000, round_bytes=20_000)

    def publish(archive: ArchiveFolder, manifest: Manifest) -> None:
        count = len(archive.manifests())
        if count == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        PUBLISH(archive, manifest)
        limit_files(0 if count == 0 else resource.RLIM_INFINITY)

    with patch.object(ArchiveFolder, "publish", publish):
        try:
            archive(spark, store=store, to=to, run=run)
        except QueryFailed as error:
            print(error)
            print(len([*Path(to).rglob("*.parquet")]), flush=True)
        limit_files(resource.RLIM_INFINITY)
        archive(spark, store=store, to=to, run=run)


def limit_files(size: int) -> None:
    """Let Spark's Python workers write no file beyond `size` bytes: what a full disk does."""
    for pid in started_by(os.getpid()):
        if Path(f"/proc/{pid}/comm").read_text().startswith("python"):
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def started_by(pid: int) -> Iterator[int]:
    """Give the processes that a process has started, and those that they have."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from started_by(child)


if __name__ == "__main__":
    main(*sys.argv[1:])
