"""Every message is there when a migration is killed, and run again.

What must hold in the end:
1. Each message of the queues is in a topic.
2. One that is there twice has the same unique key both times, so that a reader can drop doubles.
3. No unique key stands for two messages.

Replay with the seed that is printed: SPROCKET_KILL_SEED=… (the draws are the same; the moment of a
kill is a time). SPROCKET_SPARK_KILLS sets how many kills.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.crash.spark_killing import messages
from tests.interop import peers
from tests.killable import Broker
from tests.recorded_rabbitmq import RecordedVhosts
from tests.waits import LONG_SECONDS

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.blocking import Admin, Puller

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("SPROCKET_KILL_SEED", "5"))
KILLS = int(os.environ.get("SPROCKET_SPARK_KILLS", "2"))
CASE = "06-segments-2048-default"
TOPICS = ("s_head", "s_hole")
RATE = 400
"""Messages a second: the run takes 15 s at least, and a kill comes in its first seconds."""
SENT_MAX = 1000
SECONDS_MAX = LONG_SECONDS
"""How long a run may take to get so far: it has to start a JVM, on a machine that is busy."""
FAST = 1_000_000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.nightly  # by day a second run is tested, and the sink that it sends by is killed
def test_a_killed_run_is_finished_by_the_next(tmp_path: Path) -> None:
    """With doubles that have one unique key."""
    if shutil.which("java") is None:
        pytest.skip("no Java on the PATH")
    print(f"SPROCKET_KILL_SEED={SEED}")
    rng = random.Random(SEED)
    case = RecordedVhosts(CASE)
    folder = case.unpack(tmp_path / "node")
    broker = Broker(tmp_path / "store")
    try:
        for number in range(KILLS):
            wanted = ends(broker) + rng.randint(1, SENT_MAX)
            run = started(broker, folder, tmp_path / "spark", RATE)
            try:
                peers.wait_until(
                    lambda run=run, wanted=wanted: (  # type: ignore[misc]
                        run.poll() is not None or ends(broker) >= wanted
                    ),
                    f"{wanted} messages",
                    seconds=SECONDS_MAX,
                )
            finally:
                kill(run)
            print(f"  kill {number}: at {ends(broker)} messages")
        run = started(broker, folder, tmp_path / "spark", FAST)
        try:
            code = run.wait(SECONDS_MAX)
        finally:
            kill(run)
        assert code == 0, (tmp_path / "spark" / "run.log").read_text(errors="replace")[-6000:]
        found = [one for topic in TOPICS for one in messages(broker, topic)]
    finally:
        broker.kill()
    keys: dict[str, tuple[str, bytes]] = {}
    for message in found:
        told = message.topic, message.body
        assert keys.setdefault(message.message_id, told) == told
    expected = Counter(
        queue.replace(".", "_") for (_, queue), some in case.messages.items() for _ in some
    )
    assert Counter(topic for topic, _ in keys.values()) == expected
    assert len(found) > len(keys), "no run was killed: nothing is there twice"
    print(f"  {len(keys):,} messages, {len(found) - len(keys):,} doubles")


def started(broker: Broker, vhosts: str, folder: Path, rate: int) -> subprocess.Popen[bytes]:
    """Start a run, in a process group of its own."""
    folder.mkdir(exist_ok=True)
    arguments = [broker.nameserver, vhosts, str(folder), str(rate)]
    with (folder / "run.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.migrate_program", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def kill(run: subprocess.Popen[bytes]) -> None:
    """Kill Python and the JVM with -9; Spark's workers end as nobody is there any more."""
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()


def ends(broker: Broker) -> int:
    """Return how many messages the topics have."""
    with Admin(broker.nameserver) as admin:
        there = set(admin.topic.names()) & set(TOPICS)
    with Puller(broker.nameserver) as puller:
        try:
            return sum(puller.max_offset(one) for topic in there for one in puller.queues(topic))
        except ClientError:
            return 0
