"""The suites: which version, from where, and how its own runner is told the server's address.

Nothing in their trees is changed. What a suite expects to find around it (a Docker that runs a
broker, port 5672) stands beside it; `docs/guides/interop-amqp.md` says for whom.
"""

import contextlib
import functools
import operator
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from tests.interop.peers import ROOT
from tests.interop.suites import certificates, redis, results, servers
from tests.interop.suites.docker import Docker
from tests.interop.suites.results import Results
from tests.interop.suites.servers import Address, Certificates

FOLDER = ROOT / ".peers" / "amqp"
"""Where `make peers-amqp` puts suites and what they need."""
PREPARE = "make peers-amqp"
ADAPTERS = Path(__file__).parent / "adapters"
STOPPED = Event()
"""Is set when whoever started the run ended it: what runs is ended, and nothing more begun."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a suite against one server.

    Attributes:
        source: The suite's tree.
        folder: For what the runner writes.
        address: Of the server.
    """

    source: Path
    folder: Path
    address: Address

    def execute(
        self, command: Sequence[str | Path], environment: Mapping[str, str], seconds: float
    ) -> None:
        """Run a command in the suite's folder to its end, or for so long at most.

        What it prints goes to `output.txt`. Failing tests are not an error here.

        Raises:
            InterruptedError: No more is to be run.
        """
        if STOPPED.is_set():
            raise InterruptedError("no more is to be run")
        with (self.folder / "output.txt").open("ab") as output:
            child = subprocess.Popen(
                command,
                cwd=self.source,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                deadline = time.monotonic() + seconds
                while child.poll() is None and time.monotonic() < deadline:
                    if STOPPED.wait(0.1):
                        return
                if child.poll() is None:
                    output.write(f"\nended after {seconds:.0f} s\n".encode())
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()


@dataclass(frozen=True, slots=True)
class Suite:
    """A client's own tests.

    Attributes:
        name: Of the client.
        version: Of client and suite.
        folder: The name of its tree in `FOLDER`.
        run: Runs it.
        certificates: Returns those that it expects the server to have, given its tree.
        address: Returns where a server for it has to listen.
        variable: Names its tree if it is in no package, so that `PREPARE` cannot fetch it.
    """

    name: str
    version: str
    folder: str
    run: Callable[[Run], Results]
    certificates: Callable[[Path], Certificates] | None = None
    address: Callable[[], Address] = servers.anywhere
    variable: str = ""

    def source(self) -> Path | None:
        """Return its tree, if it is there."""
        given = os.environ.get(self.variable) if self.variable else None
        found = Path(given) if given else FOLDER / self.folder
        return found if found.exists() else None


def _pytest(
    run: Run, *arguments: str, environment: Mapping[str, str] | None = None, seconds: float = 600
) -> Results:
    report = run.folder / "report.jsonl"
    command: list[str | Path] = [FOLDER / "python" / "bin" / "python", "-m", "pytest"]
    command += ["-p", "no:cacheprovider", "-p", "suite_address", "-p", "suite_report"]
    command += ["-o", "log_cli=false", "--timeout=120", *arguments]
    around = {
        "PYTHONPATH": str(ADAPTERS),
        "SUITE_ADDRESS": str(run.address.port),
        "SUITE_REPORT": str(report),
    }
    run.execute(command, {**around, **(environment or {})}, seconds)
    return results.from_pytest(report) if report.exists() else {}


def _pika(run: Run) -> Results:
    return _pytest(run, "tests/acceptance", seconds=1200)


def _py_amqp(run: Run) -> Results:
    return _pytest(
        run,
        "t/integration",
        "--deselect=t/integration/test_rmq.py::test_tls_default_certs",
        "--deselect=t/integration/test_rmq.py::test_tls_no_default_certs_fails",
        environment=_rabbitmq_variables(run.address),
    )


def _kombu(run: Run) -> Results:
    return _pytest(
        run, "t/integration/test_py_amqp.py", environment=_rabbitmq_variables(run.address)
    )


def _rabbitmq_variables(address: Address) -> Mapping[str, str]:
    return {
        "RABBITMQ_HOST": "127.0.0.1",
        "RABBITMQ_5672_TCP": str(address.port),
        "RABBITMQ_5671_TCP": str(address.tls_port),
    }


def _aio_pika(run: Run) -> Results:
    with Docker({"5672/tcp": run.address.port, "5671/tcp": run.address.tls_port}) as docker:
        return _pytest(run, "tests", environment={"DOCKER_HOST": docker.host}, seconds=3600)


def _aiormq(run: Run) -> Results:
    around = {"SUITE_TLS_ADDRESS": str(run.address.tls_port)}
    return _pytest(run, "-p", "suite_container", "tests", environment=around, seconds=3600)


_NO_AMQP = ("test_backend", "test_backend_leak_in_fixture_teardown")
CELERY_NOT_RUN = {"redis": _NO_AMQP, "rpc": (*_NO_AMQP, "test_canvas", "test_group_chains")}
"""Files of its tests: of a service in the cloud, of a broker in memory that starts twenty workers,
and of what needs results that several may read.

Nearly all tests of the latter skip themselves with `rpc://`, after some seconds each.
"""


def _celery(run: Run, backend: str) -> Results:
    """Run its integration tests, with the worker that they start.

    As in its own workflow a test is tried again when it fails: some race with that worker.
    """
    server = f"amqp://guest:guest@{run.address.host}:{run.address.port}//"
    with redis.running(FOLDER / "redis", run.folder) as port:
        stores = {"rpc": "rpc://", "redis": f"redis://127.0.0.1:{port}/0"}
        around = {
            "TEST_BROKER": server,
            "TEST_BACKEND": stores[backend],
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(port),
            "WORKER_LOGLEVEL": "INFO",
            "PATH": f"{FOLDER / 'python' / 'bin'}:{os.environ['PATH']}",
        }
        return _pytest(
            run,
            *("-p", "celery.contrib.pytest", "-p", "no:aiomisc", "--reruns=2"),
            "t/integration",
            *(f"--ignore=t/integration/{name}.py" for name in CELERY_NOT_RUN[backend]),
            environment=around,
            seconds=2400,
        )


def _amqplib(run: Run) -> Results:
    report = run.folder / "junit.xml"
    command: list[str | Path] = ["node", "--require", ADAPTERS / "suite_address.js", "--test"]
    # Their own script gives each test a second, which a busy machine does not always have.
    command += ["--test-timeout=30000", "--test-concurrency=1", "--test-reporter=junit"]
    command += [f"--test-reporter-destination={report}"]
    around = {
        "SUITE_ADDRESS": str(run.address.port),
        "NODE_PATH": str(FOLDER / "node" / "node_modules"),
    }
    run.execute(command, around, 600)
    return results.from_node(report) if report.exists() else {}


def _go(run: Run) -> Results:
    url = f"amqp://guest:guest@127.0.0.1:{run.address.port}/"
    command = ["go", "test", "-json", "-count=1", "-timeout=1500s", "-tags", "integration", "."]
    run.execute(command, {"AMQP_URL": url, "GOFLAGS": "-mod=mod"}, 1600)
    return results.from_go(run.folder / "output.txt")


JAVA_CLASSES_AT_ONCE = 16
JAVA_SECONDS_MAX = 1200.0
JAVA_LAST = ("PerMessageTTL", "Bug19219Test")
"""The first leaves a queue, which others declare, where there is no `rabbitmqctl`. The other one
floods the server, which goes on for a while after its clients are gone."""
JAVA_NOT_RUN = ("ssl", "performance", "HATests", "ClusteredTestBase")
"""Packages and classes of its tests that are of TLS keystores, of speed and of clusters."""


def _java(run: Run) -> Results:
    """Run its classes, some at a time in a Java of their own."""
    (run.folder / "hosts").write_text(f"{run.address.host} localhost\n")
    tests = run.source / "src" / "test" / "java"
    names: list[str] = []
    last: dict[str, str] = {}
    for path in sorted((tests / "com/rabbitmq/client/test").rglob("*.java")):
        name = ".".join(path.relative_to(tests).with_suffix("").parts)
        text = path.read_text(errors="replace")
        if f"class {path.stem}" not in text or f"abstract class {path.stem}" in text:
            continue
        if "Suite.SuiteClasses" in text or any(part in name.split(".") for part in JAVA_NOT_RUN):
            continue
        if path.stem in JAVA_LAST:
            last[path.stem] = name
        else:
            names.append(name)
    starts = range(0, len(names), JAVA_CLASSES_AT_ONCE)
    found: Results = {}
    groups = [names[start : start + JAVA_CLASSES_AT_ONCE] for start in starts]
    for group in [*groups, *([last[stem]] for stem in JAVA_LAST)]:
        found |= _java_classes(run, group)
    return found


def _java_classes(run: Run, names: Sequence[str]) -> Results:
    """Run some classes, or, if they do not end and none of them reports, each by itself."""
    made = FOLDER / "java"
    reports = run.folder / "reports" / f"{names[0]}-{len(names)}"
    command = ["java", "-Xmx256m", f"-Djdk.net.hosts.file={run.folder / 'hosts'}"]
    command += ["-Djava.net.preferIPv4Stack=true", "-cp", f"{made}/classes:{made}/lib/*"]
    command += ["org.junit.platform.console.ConsoleLauncher", "--disable-banner", "--details=none"]
    command += [f"--reports-dir={reports}", *(f"--select-class={name}" for name in names)]
    run.execute(command, {}, JAVA_SECONDS_MAX)
    if len(names) == 1 or results.has_java(reports):
        return results.from_java(names[0], reports)
    return functools.reduce(operator.or_, (_java_classes(run, [name]) for name in names))


SUITES = (
    Suite("pika", "1.4.4", "pika-1.4.4", _pika, variable="SPROCKET_PIKA_SOURCE"),
    Suite("py-amqp", "5.4.2", "amqp-5.4.2", _py_amqp, certificates.of_py_amqp),
    Suite("kombu", "5.7.0", "kombu-5.7.0", _kombu),
    Suite("aio-pika", "10.2.1", "aio_pika-10.2.1", _aio_pika, certificates.of_aiormq),
    Suite("aiormq", "7.2.4", "aiormq-7.2.4", _aiormq, certificates.of_aiormq),
    Suite("celery-rpc", "5.7.0", "celery-5.7.0", functools.partial(_celery, backend="rpc")),
    Suite("celery-redis", "5.7.0", "celery-5.7.0", functools.partial(_celery, backend="redis")),
    Suite("amqplib", "2.0.1", "amqplib-2.0.1", _amqplib),
    Suite("amqp091-go", "1.16.0", "amqp091-go-1.16.0", _go, address=servers.with_api),
    Suite("java", "5.0.0", "rabbitmq-java-client-5.0.0", _java, address=servers.under_another_name),
)
