"""Rules for every test: Spark tests share a worker, none leaves its logging to the next.

The JVMs of Spark start quickly. And Ctrl-C reaches what tests start, even if a shell in the
background has them ignore it.
"""

import shutil
import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tests import spark_classes

# No machine is too slow for an example, as for Hypothesis in continuous integration.
settings.register_profile(
    "untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Heed SIGINT: what ignores it hands that down to every process that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group what is marked `spark` (for `--dist loadgroup`)."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(autouse=True)
def unconfigured_structlog() -> Iterator[None]:
    """Leave structlog as a program finds it: `capture_logs` and commands configure it for good."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def quick_jvms() -> Iterator[None]:
    """Let each JVM of Spark, in whatever process, start quickly, for it works for a minute."""
    with pytest.MonkeyPatch.context() as patch:
        if java := shutil.which("java"):
            patch.setenv(spark_classes.VARIABLE, spark_classes.options(java))
        yield


@pytest.fixture(autouse=True)
def quick_spark(request: pytest.FixtureRequest) -> None:
    """Have them for each test that is marked `spark`."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("quick_jvms")
