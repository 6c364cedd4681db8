"""A Spark session that just works: small, quiet, and with what this source gains from."""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from sprocket.base.disk import RealDisk, read_file, replace_file
from sprocket.base.errors import SettingsError
from sprocket.spark import java, spark_home
from sprocket.spark.failures import said
from sprocket.spark.package import package_zip

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


_REASON = re.compile(r"Exception|^Error|^Invalid|^Unrecognized")
"""In the line in which a JVM says why it does not start."""
_REASON_PREFIX = re.compile(
    r'^(?:Exception in thread "main" )?(?:(?:\w+\.)+\w+: )?(?:\[[A-Z_.]+\] )?'
)

_NOISY = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""They write a page of JSON to stderr for a wrong statement, which is an error anyway."""


def session(
    name: str = "sprocket",
    *,
    master: str = "",
    cores: int = 0,
    memory: str = "1g",
    folder: str | None = None,
    jvm: str = "",
    quiet: bool = True,
    settings: Mapping[str, str] | None = None,
) -> Any:
    """Start, or find, a Spark session with the format `rocketmq` registered.

    Args:
        name: What the session is called.
        master: Where it runs: this machine if it is empty, a cluster such as `spark://host:7077`,
            a server of Spark Connect such as `sc://host`, or `connect` for a server of Spark
            Connect that runs on this machine as long as this process.
        cores: Tasks at a time on this machine; 0 for all cores of it.
        memory: The JVM's heap; `1g` is enough for every scan, large shuffles want `2g`.
        folder: Where Spark keeps its files; a temporary folder if none is given.
        jvm: More options of the JVM, such as `-XX:TieredStopAtLevel=1` for short jobs.
        quiet: Let Spark and its workers write to `<folder>/spark-*.log` instead of the terminal.
        settings: More settings of Spark's, which win over those of this function.

    Returns:
        The SparkSession; `stop()` ends it and its JVM's work.

    Raises:
        SettingsError: There is no Java that Spark could run on, or Spark does not start with this
            master, memory or settings.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from sprocket.spark import register

    folder = folder or tempfile.mkdtemp(prefix="sprocket-spark-")
    RealDisk().make_folder(folder)
    is_served = master.startswith("sc://")
    if not is_served:
        java.provide(os.environ, folder)
    master = master or f"local[{cores or '*'}]"
    here = _is_here(master)
    if here:
        # The name of the machine need not resolve; this also spares a warning.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    chosen: dict[str, str] = {}
    if not is_served:
        chosen = _settings(cores or os.cpu_count() or 1, memory, folder, jvm)
        chosen |= _SETTINGS_HERE if here else {}
    is_clustered = not master.startswith(("local", "sc://", "connect"))
    if is_clustered:
        chosen["spark.submit.pyFiles"] = package_zip(folder)
        # The driver's own Python processes, which plan streams, do not get these files.
        known = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [known, f"{folder}/sprocket.zip"]))
    chosen |= settings or {}
    builder = SparkSession.builder.appName(name)
    if master == "connect":
        builder = builder.remote(f"local[{cores or '*'}]")
    else:
        builder = builder.remote(master) if is_served else builder.master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with contextlib.ExitStack() as starting:
        log = starting.enter_context(_stderr_in(folder)) if quiet else ""
        if master.startswith(("local", "connect")):
            starting.enter_context(spark_home.without_archives(os.environ, folder))
        try:
            spark = builder.getOrCreate()
        except PySparkException as error:
            why = _reason(log) if log else ""
            raise SettingsError(f"Spark does not start: {why or said(error)}") from error
    if quiet:
        from pyspark.logger import PySparkLogger

        for noisy in _NOISY:
            PySparkLogger.getLogger(noisy).disabled = True
    if is_served:
        spark.addArtifacts(package_zip(folder), pyfile=True)
    register(spark)
    return spark


def activate(spark: Any) -> None:
    """Let this thread write to topics; for a thread that did not start the session.

    Spark looks for the format of a write, other than that of a read, in the session that is active
    in the thread, and says that there is no format `rocketmq` where none is.

    Args:
        spark: The SparkSession; one of Spark Connect needs this as little as it minds it.
    """
    spark.createDataFrame([], "nothing int")  # makes its session the active one


def _is_here(master: str) -> bool:
    """Tell whether all of Spark runs on this machine, so that nothing need be seen outside."""
    host = re.match(r"spark://(?:127\.|localhost\b|\[::1\])", master)
    return master.startswith(("local", "connect")) or host is not None


@contextlib.contextmanager
def _stderr_in(folder: str) -> Iterator[str]:
    """Let processes that are started meanwhile write their errors to a file, for all their life.

    Its path is given.

    Spark prints some lines before it reads its logging settings, and its Python workers complain
    of every `limit` that ends them early; only the file descriptor they inherit stops that.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.NamedTemporaryFile(
        prefix="spark-", suffix=".log", dir=folder, delete=False
    ) as log:
        os.dup2(log.fileno(), 2)
        try:
            yield log.name
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def _reason(log: str) -> str:
    """Return why a JVM ended, by what it has written to its log; empty if that does not say."""
    text = read_file(RealDisk(), log).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if not line.startswith(("\t", "WARN"))]
    found = next((line for line in lines if _REASON.search(line)), "")
    return _REASON_PREFIX.sub("", found)


_SETTINGS_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Where nothing outside of this machine has to reach the driver."""


def _settings(cores: int, memory: str, folder: str, jvm: str) -> dict[str, str]:
    """Return the settings for a machine with this many cores."""
    quiet = os.path.join(folder, "log4j2.properties")
    replace_file(RealDisk(), quiet, _QUIET.encode())
    return {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{quiet} {jvm}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        "spark.local.dir": os.path.join(folder, "local"),
        # A tenth faster on full scans than TCP.
        "spark.python.unix.domain.socket.enabled": "true" if os.name == "posix" else "false",
    }
