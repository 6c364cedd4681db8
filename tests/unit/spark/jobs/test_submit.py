"""Jobs as `spark-submit` runs them: the guide's command, on Spark's own terms."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.spark.samples import expected, unpack
from tests.unit.spark.test_masters import cluster
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.model.internal import is_internal_topic
from sprocket.spark.archive import archive_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]
GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "spark.md"
SUBMIT = Path(sys.executable).with_name("spark-submit")


def submitted(
    folder: Path, *words: str, master: str = "local[2]"
) -> "subprocess.CompletedProcess[str]":
    """Run the guide's lines for a shell, in a folder, with other words behind the file."""
    (text,) = re.findall(r"^```sh\n(jobs=.+?)^```", GUIDE.read_text(encoding="utf-8"), re.S | re.M)
    given = ' "$jobs" "$@"\n'
    command, count = re.subn(r' "\$jobs" .+\n', lambda _: given, text)
    assert count == 1
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    env["PATH"] = f"{SUBMIT.parent}{os.pathsep}{env['PATH']}"
    return subprocess.run(
        ["sh", "-ec", command.replace("spark://host:7077", master), "sh", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )


def test_the_guides_command(tmp_path: Path) -> None:
    """Its report is one line of JSON on stdout; the job is the one that a session runs."""
    store, to = unpack("02-kill9-load", tmp_path), str(tmp_path / "archive")
    ended = submitted(tmp_path, "archive", store, to, "--partition-bytes", "200000")
    assert ended.returncode == 0, ended.stderr
    users = [one for one in expected("02-kill9-load") if not is_internal_topic(one["topic"])]
    (line,) = ended.stdout.splitlines()
    assert json.loads(line)["messages"] == len(users)
    assert len(archive_files(to)) > 1


@pytest.mark.nightly
def test_the_guides_command_on_a_cluster(tmp_path: Path) -> None:
    """A standalone master and two workers."""
    store = unpack("02-kill9-load", tmp_path)
    with cluster(tmp_path) as master:
        ended = submitted(tmp_path, "stats", store, "--internal", master=master)
    assert ended.returncode == 0, ended.stderr
    counted = json.loads(ended.stdout.splitlines()[-1])["messages"]
    assert counted == len(expected("02-kill9-load"))


@pytest.mark.nightly
def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    """With exit code 1; Spark puts what a program writes to stderr on stdout."""
    ended = submitted(tmp_path, "stats", str(tmp_path))
    said = f"sprocket: {tmp_path} is not a store directory: it has no folder commitlog\n"
    assert (ended.returncode, ended.stdout) == (1, said)
