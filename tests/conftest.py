"""Rules for every test: who shares a worker; none leaves its logging to the next.

The JVMs of Spark start quickly. And Ctrl-C reaches what tests start, even if a shell in the
background has them ignore it.
"""

import os
import signal
from collections.abc import Generator, Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tests import durations, measured
from xdist.remote import Producer

# No machine is too slow for an example, as for Hypothesis in continuous integration.
settings.register_profile(
    "untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Heed SIGINT: what ignores it hands that down to every process that it starts."""
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(durations.Arranging() if is_worker else durations.Notes())
    if measured.VARIABLE in os.environ:
        config.pluginmanager.register(measured.Measuring())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.fixture(autouse=True)
def quick_spark(request: pytest.FixtureRequest) -> None:
    """Have them for each test that is marked `spark`."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("quick_jvms")
