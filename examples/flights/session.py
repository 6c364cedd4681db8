"""One quiet Spark session of about a gigabyte, for the stream and for the analysis after it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

import sprocket.spark
from examples.flights.processes import Failed

JAVA_MIN = 17
DRIVER_MEMORY = "1200m"


def check_java() -> None:
    """Fail early, with a reason, if there is no Java that Spark can use.

    Raises:
        Failed: There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise Failed(f"Spark needs Java {JAVA_MIN} or newer: no `java` found, JAVA_HOME not set")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
        version = said.stderr.split('"')[1].split(".")[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        raise Failed(f"{java} does not run: {error}") from None
    if version.isdigit() and int(version) < JAVA_MIN:
        raise Failed(f"Spark needs Java {JAVA_MIN} or newer, {java} is {version}")


def start(folder: Path, log: Path) -> SparkSession:
    """Start Spark in this process's own JVM; whatever that says goes to `log`."""
    own = folder / "spark"
    # One collecting thread: on two cores several of them only wait for each other.
    java = f"-XX:+UseSerialGC -Dlog4j2.configurationFile=file:{own}/log4j2.properties"
    with stderr_into(log):
        return sprocket.spark.session(
            "flights",
            cores=2,
            memory=DRIVER_MEMORY,
            folder=str(own),
            settings={"spark.driver.extraJavaOptions": java},
        )


def stop(spark: SparkSession, log: Path) -> None:
    """Stop Spark; its JVM may be gone already, if a signal went to all of us."""
    with stderr_into(log), suppress(Py4JError, OSError):
        spark.stop()


@contextmanager
def stderr_into(log: Path) -> Iterator[None]:
    """Let what is started meanwhile write its stderr into a file instead of the terminal."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
