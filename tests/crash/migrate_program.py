"""A program to be killed: the job `migrate`, so slow that a kill falls into it.

python -m tests.crash.migrate_program NAMESERVER VHOSTS FOLDER RATE
"""

import sys
from pathlib import Path

from sprocket.spark import session
from sprocket.spark.jobs import JobCluster, MigrateSending, migrate


def main(nameserver: str, vhosts: str, folder: Path, rate: int) -> None:
    """Send all that the queues have."""
    spark = session("killed", cores=2, folder=str(folder), quiet=False)
    sending = MigrateSending(create_topics=2, rate=rate)
    migrate(spark, source=vhosts, cluster=JobCluster(name_server=nameserver), sending=sending)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
