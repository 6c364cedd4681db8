"""What users install: both archives, and the wheel in empty environments (`make wheel-check`)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest
from tests.waits import LONG_SECONDS

ROOT = Path(__file__).resolve().parent.parent
INSTALL_MB_MAX = 60
READY_SECONDS_MAX = LONG_SECONDS
ABSENT = ["numpy", "pandas", "pyarrow", "pyspark", "pytest"]
BOTH_CLIENTS = """
import asyncio, sys
from sprocket.rocketmq.client import Message, Producer, blocking

address = sys.argv[1]

async def main() -> None:
    async with Producer(address, group="wheel") as producer:
        sent = await producer.send(Message("wheel", b"hello", tag="a"))
        assert sent.queue_offset == 0, sent

asyncio.run(main())
with blocking.Producer(address, group="wheel") as producer:
    producer.send(Message("wheel", b"hello again", tag="a"))
got = []
with blocking.PushConsumer(address, group="g", listener=got.extend, start="first") as consumer:
    consumer.subscribe("wheel", "a")
    import time
    deadline = time.monotonic() + 20
    while len(got) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
assert sorted(m.body for m in got) == [b"hello", b"hello again"], got
"""


WRITES_THEN_SPARK_READS = """
import sys
from sprocket.rocketmq.client import Message, blocking

import sprocket.spark
from pyspark.sql import SparkSession

address, folder = sys.argv[1:]
with blocking.Producer(address, group="wheel") as producer:
    for number in range(3):
        producer.send(Message("wheel", b"%d" % number, tag="a"))
local = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = local.getOrCreate()
rows = spark.read.format("rocketmq").load(folder).where("topic = 'wheel'")
got = sorted(bytes(row.body) for row in rows.select("body").collect())
spark.stop()
assert got == [b"0", b"1", b"2"], got
"""
COMMIT_TIME = "1790000000"
"""What the files in the archives bear, in seconds since 1970; `make wheel` takes it from git."""


@dataclass(frozen=True)
class Archives:
    """What one build has made."""

    source: Path
    wheel: Path


def built(folder: Path, to: Path) -> Archives:
    """Build both archives of the source in a folder by `make wheel`, with the tools of this one."""
    command = ["make", "-C", str(folder), "wheel", f"DIST={to}", f"BIN={ROOT / '.venv' / 'bin'}"]
    command += [f"STAMP={to.parent}"]  # it is new, so that nothing is set up
    command += [f"SOURCE_DATE_EPOCH={COMMIT_TIME}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (source,), (wheel,) = to.glob("*.tar.gz"), to.glob("*.whl")
    assert {source, wheel} == set(to.iterdir())
    return Archives(source, wheel)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """Build those of this source."""
    return built(ROOT, tmp_path_factory.mktemp("built") / "dist")


@pytest.fixture(scope="module")
def wheel(archives: Archives) -> Path:
    """Return the wheel alone."""
    return archives.wheel


def installed(wheel: str, folder: Path) -> Path:
    """Install the wheel into an environment of its own; return its Python.

    Of PySpark alone no wheel is published.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    install += ["--only-binary", ":all:", "--no-binary", "pyspark"]
    install += ["-c", ROOT / "constraints.txt", wheel]
    subprocess.run([str(part) for part in install], check=True)
    return python


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install what a client needs."""
    return installed(f"{wheel}[client]", tmp_path_factory.mktemp("wheel") / "env")


@pytest.fixture(scope="module")
def broker_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install what a broker needs."""
    return installed(f"{wheel}[broker]", tmp_path_factory.mktemp("wheel") / "env")


@pytest.fixture(scope="module")
def spark_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install what a Spark program needs."""
    return installed(f"{wheel}[spark]", tmp_path_factory.mktemp("wheel") / "env")


@pytest.fixture
def nameserver(broker_python: Path, tmp_path: Path) -> Iterator[str]:
    """Run the installed `sprocket up` on free ports; return the NameServer's address."""
    command = [str(broker_python.with_name("sprocket")), "up", "--data", "data"]
    command += ["--nameserver-port", "0", "--broker-port", "0", "--no-amqp"]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        address = None
        while address is None:
            assert time.monotonic() < deadline, "not ready in time"
            assert process.poll() is None, log.read_text(encoding="utf-8")
            address = re.search(
                r"^ready.*?(127\.0\.0\.1:\d+)", log.read_text(encoding="utf-8"), re.MULTILINE
            )
            time.sleep(0.02)
        yield address.group(1)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG_SECONDS) == 0


@pytest.mark.nightly
def test_wheel_holds_the_packages_and_the_licence(wheel: Path) -> None:
    """Two packages, the metadata, and the licence, whole; its name stands in the metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        information = next(name for name in names if name.endswith(".dist-info/METADATA"))
        folder = information.partition("/")[0]
        metadata = message_from_bytes(archive.read(information))
        licence = archive.read(f"{folder}/licenses/LICENSE")
    assert {name.partition("/")[0] for name in names} == {
        "sprocket",
        "pyspark_rabbitmq",
        "pyspark_rocketmq",
        folder,
    }
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "dev" not in metadata.get_all("Provides-Extra", [])


@pytest.mark.nightly
def test_the_source_archive_holds_the_repository(archives: Archives) -> None:
    """What git would commit, and what names the package; nothing that happens to lie there."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(archives.source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert sorted([*listed.stdout.splitlines(), "PKG-INFO"]) == sorted(names)


@pytest.mark.nightly
def test_two_builds_give_the_same_bytes(archives: Archives, tmp_path: Path) -> None:
    """Also in another folder, of files made at another time that others may not read."""
    shutil.unpack_archive(archives.source, tmp_path)
    (unpacked,) = tmp_path.iterdir()
    for path in unpacked.rglob("*"):
        os.utime(path, (0, 1_000_000_000))
        path.chmod(path.stat().st_mode & 0o700)
    again = built(unpacked, tmp_path / "dist")
    shutil.rmtree(unpacked)
    for first, second in (
        (archives.source, again.source),
        (archives.wheel, again.wheel),
    ):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes(), first.name


@pytest.mark.nightly
def test_install_is_light(python: Path) -> None:
    """The package and all it needs, byte code included, without pip: well under 60 MB."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"],
        check=True,
        capture_output=True,
    )
    names = {package["name"] for package in json.loads(listed.stdout)}
    site = next(python.parent.parent.glob("lib/python*/site-packages"))
    own = [p for p in site.iterdir() if not p.name.startswith(("pip", "setuptools", "pkg_res"))]
    files = [f for p in own for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file()]
    megabytes = sum(f.stat().st_blocks * 512 for f in files) / 1e6
    print(f"light install: {megabytes:.1f} MB, {len(names)} packages: {' '.join(sorted(names))}")
    assert not names & set(ABSENT)
    assert megabytes < INSTALL_MB_MAX


@pytest.mark.nightly
def test_both_clients_run_from_it(python: Path, nameserver: str) -> None:
    """The asyncio client and the blocking one work without numpy, `sprocket up` without Spark."""
    command = [str(python), "-c", BOTH_CLIENTS, nameserver]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=LONG_SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.nightly
@pytest.mark.spark
def test_spark_reads_what_a_broker_wrote(
    spark_python: Path, nameserver: str, tmp_path: Path
) -> None:
    """A client beside Spark in one environment, a broker without Spark in another."""
    command = [str(spark_python), "-c", WRITES_THEN_SPARK_READS, nameserver, str(tmp_path / "data")]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=LONG_SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.nightly
def test_a_broker_that_lacks_numpy_says_so(python: Path, tmp_path: Path) -> None:
    """In one line, with what to install."""
    command = [str(python.with_name("sprocket")), "up", "--data", "data"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended
    assert "pip install 'sprocketmq[broker]'" in ended.stderr
    assert "Traceback" not in ended.stderr
