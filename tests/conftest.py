"""Rules for every test: who shares a worker; none leaves logging or signals to the next.

The JVMs of Spark start quickly. And Ctrl-C and hangups reach what tests start, even if a shell in
the background, or `nohup`, has them ignore it.
"""

import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tests import durations, measured
from xdist.remote import Producer

import sprocket

# No machine is too slow for an example, as for Hypothesis in continuous integration.
settings.register_profile(
    "untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

SERVES_CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}


def pytest_configure(config: pytest.Config) -> None:
    """Heed SIGINT and SIGHUP: what ignores them hands that down to every process that it starts."""
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(durations.Arranging() if is_worker else durations.Notes())
    if measured.VARIABLE in os.environ:
        config.pluginmanager.register(measured.Measuring())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_worker and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # of `nohup`
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is recorded as long."""
    recorded = durations.read()
    for item in items:
        if durations.is_long(item.nodeid, recorded):
            item.add_marker(pytest.mark.slow)


def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Producer
) -> durations.Scheduling | None:
    """Let one worker have the tests that share something, and the longest go first."""
    return durations.Scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture(autouse=True)
def unconfigured_logging() -> Iterator[None]:
    """Have logging as a program finds it: `capture_logs` and commands configure it for good."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def ignored_sigpipe() -> Iterator[None]:
    """Ignore SIGPIPE, as Python does: commands set it so that `| head` ends them, for good."""
    yield
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


@pytest.hookimpl(wrapper=True, trylast=True)  # within pytest's own, which attaches the handlers
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Give pytest's log handlers their formatter, once they are attached.

    Commands give them another one. So does a logger of PySpark that does not propagate, whenever
    a handler is attached to it.
    """
    plugin = item.config.pluginmanager.getplugin("logging-plugin")
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setFormatter(plugin.formatter)
    return (yield)


@pytest.fixture(scope="session")
def quick_jvms() -> Iterator[None]:
    """Let each JVM of Spark, in whatever process, start quickly, for it works for a minute.

    With the compiler that is quick itself, and the collector that needs no threads.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, quick_jvms: object) -> Iterator[Any]:
    """Start one session for all tests: `local[2]`, silent; skipped, with a word, without Java."""
    if shutil.which("java") is None:
        pytest.skip("no Java on the PATH")
    from sprocket.spark import session

    # Workers import the package from where this process has it.
    source = str(Path(sprocket.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    spark = session("tests", cores=2, folder=str(folder), settings=SERVES_CONNECT)
    yield spark
    spark.stop()


@pytest.fixture
def connect_address(spark: Any) -> str:
    """Give the address at which that session serves Spark Connect."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio, which is not installed")
    service = spark._jvm.org.apache.spark.sql.connect.service
    port = getattr(getattr(service, "SparkConnectService$"), "MODULE$").localPort()
    return f"sc://127.0.0.1:{port}"


@pytest.fixture(autouse=True)
def quick_spark(request: pytest.FixtureRequest) -> None:
    """Have them for each test that is marked `spark`."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("quick_jvms")
