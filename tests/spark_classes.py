"""Spark's classes as one archive that its JVMs map, so that each starts in two thirds of the time.

A JVM that starts Spark reads, parses and verifies some 13,000 classes, and that is most of what a
test costs which starts one by itself. The archive (class data sharing) holds them as the JVM keeps
them in memory. It is made once for each clone, Java and release of PySpark, by a program that does
a little of all that tests do, and kept in `build/`. What does not fit a JVM, it leaves aside; where
none can be made, as with a Java that lacks an archive of its own classes, there is a warning.

    python -m tests.spark_classes FOLDER

is that program.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "SPARK_SUBMIT_OPTS"
"""Options for every JVM that `spark-submit` starts, as PySpark's are."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The compiler that is quick itself, and a collector that needs no threads."""


def options(java: str) -> str:
    """Return options for JVMs that start quickly, with the archive, which is made if there is none.

    While another process makes it, they do without.

    Args:
        java: The command that Spark will run.
    """
    import pyspark

    kind = hashlib.sha256(f"{pyspark.__version__} {Path(java).resolve()}".encode()).hexdigest()
    archive = ROOT / "build" / f"spark-classes-{kind[:16]}.jsa"
    archive.parent.mkdir(exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _SHORT_LIVED
        said = "" if archive.exists() else _make(archive, Path(pyspark.__file__).parent)
        if not archive.exists():
            warnings.warn(f"no archive of Spark's classes was made:\n{said[-3000:]}", stacklevel=2)
            return _SHORT_LIVED
    return f"{_SHORT_LIVED} -XX:SharedArchiveFile={archive}"


def _make(archive: Path, home: Path) -> str:
    """Make the archive, if this Java can; return what was said meanwhile."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        # The JVM writes it as it ends, after Python; its pipes tell when.
        run = subprocess.run(
            [sys.executable, "-m", "tests.spark_classes", folder],
            cwd=ROOT,
            # The archive names the jars: a home that stays, and not one that a session makes.
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                VARIABLE: f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={made}",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if made.exists():
            made.rename(archive)
    return run.stdout


def main(folder: Path) -> None:
    """Read, write, stream and ask in SQL, so that the classes for all that are loaded."""
    from tests.recorded import CASES, Recorded

    from sprocket.spark import session
    from sprocket.spark.jobs import stats

    spark = session("classes", cores=2, folder=str(folder / "spark"))
    store, rows = Recorded(CASES[0]).unpack(folder), str(folder / "rows")
    spark.read.format("rocketmq").load(store).write.parquet(rows)
    spark.read.parquet(rows).createOrReplaceTempView("rows")
    spark.sql(
        "SELECT topic, count(*), max(storeTimestamp) FROM rows"
        " WHERE queueOffset >= 0 GROUP BY topic ORDER BY topic"
    ).collect()
    stats(spark, store=store)
    spark.createDataFrame([(1, "one")], "number int, text string").toPandas()
    stream = spark.readStream.format("rocketmq").load(store).writeStream.format("parquet")
    query = (
        stream.option("path", str(folder / "streamed"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
