"""A program to be killed: the job `erase`, a task at a time.

python -m tests.crash.erase_program STORE TARGET FOLDER KEY…
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from sprocket.spark import session
from sprocket.spark.jobs import ErasedMessages, EraseRun, erase


def main(store: str, target: str, folder: Path, keys: Sequence[str]) -> None:
    """Copy a store without the messages that have some keys."""
    spark = session("killed", cores=1, folder=str(folder), quiet=False)
    messages, run = ErasedMessages(key=list(keys)), EraseRun(partition_bytes=50_000)
    erase(spark, store=store, to=target, messages=messages, run=run)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
