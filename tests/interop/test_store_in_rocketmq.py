"""The real RocketMQ 5.3.3, started on a store that Sprocket wrote, serves all of it."""

import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.crash import killing
from tests.interop import peers, samples
from tests.interop.java_client import Found, JavaClient

import sprocket.spark

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-store"),
]

SEGMENT_BYTES = 262_144
UNITS_PER_FILE = 500
SLOTS, UNITS = 1_000, 4_000
OURS = (
    f"log.segment_bytes={SEGMENT_BYTES}",
    f"queue.units_per_file={UNITS_PER_FILE}",
    f"index.slots={SLOTS}",
    f"index.units={UNITS}",
    "offsets.flush_ms=100",  # RocketMQ does not know the journals: a kill leaves it the last files
)
THEIRS = {
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": UNITS_PER_FILE * 20,
    "maxHashSlotNum": SLOTS,
    "maxIndexNum": UNITS,
    # Without it RocketMQ forgets keys of its own, too, when it was killed: it drops the newest
    # index file and fills it again only from three seconds before the checkpoint.
    "messageIndexSafe": "true",
}
MESSAGES = 2_000
PLAN = killing.Plan(lanes=4, outstanding=8, kill_after_seconds=120.0, kill_after_answers=MESSAGES)
ASKED = 40
ASKED_TIMES = 10
"""How often to ask for what is not found yet: a broker that was started on a killed store fills its
index in the background while it serves. Each time takes as long as a Java client needs to start."""


STORE_TYPES = {"files": "default", "rocksdb": "defaultRocksDB"}
"""RocketMQ's names for the engines of the queues."""


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("engine", STORE_TYPES)
def test_rocketmq_serves_a_store_of_ours(
    engine: str, end: str, jars: Path, java: JavaClient, tmp_path: Path
) -> None:
    """Log, queues, index and topics of a store, stopped or killed under load, are read whole."""
    if engine == "rocksdb":
        pytest.importorskip("rocksdict")
    store = tmp_path / "store"
    ledger = written(store, engine, end)
    serve_by_rocketmq(store, engine, jars, java, ledger)


@pytest.mark.spark
def test_rocketmq_serves_queues_and_index_made_on_spark(
    jars: Path, java: JavaClient, tmp_path: Path
) -> None:
    """Of a store that has lost both, the jobs make what the check of a store calls right."""
    if shutil.which("java") is None:
        pytest.skip("no Java on the PATH")
    store = tmp_path / "store"
    ledger = written(store, "files", "stopped")
    for folder in ("consumequeue", "index"):
        shutil.rmtree(store / folder)
    for words in (
        ("pipe", "rebuild-queues", str(store), "--partition-bytes", str(SEGMENT_BYTES)),
        ("pipe", "rebuild-index", str(store), "--partition-bytes", str(SEGMENT_BYTES)),
        ("store", "check", str(store)),
    ):
        command = [sys.executable, "-m", "sprocket.cli.main", *words]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
    serve_by_rocketmq(store, "files", jars, java, ledger)


def written(store: Path, engine: str, end: str) -> killing.Ledger:
    """Have our broker write a store under load, until it is stopped or killed."""
    ledger = killing.Ledger()
    settings = (*OURS, f"queue.engine={engine}")
    options = [part for setting in settings for part in ("--set", setting)]
    with peers.Sprocket(store.parent / "ours", store, options) as ours:
        killing.prepare(ours.address)
        load = killing.Load(ours.address, ledger, PLAN, random.Random(4))
        load.run(ours.stop if end == "stopped" else ours.kill)
    assert len(ledger.acknowledged) >= MESSAGES
    return ledger


def serve_by_rocketmq(
    store: Path, engine: str, jars: Path, java: JavaClient, ledger: killing.Ledger
) -> None:
    """Start the real broker on a store, and assert that it serves all messages."""
    wanted = {**THEIRS, "storeType": STORE_TYPES[engine]}
    folder = store.parent / "theirs"
    theirs = peers.RocketMQ(jars=jars, folder=folder, store=store, settings=wanted)
    try:
        theirs.start()
        check_served(theirs, java, ledger)
    finally:
        theirs.kill()


Wanted = list[tuple[Mapping[str, str], tuple[int, int]]]
"""Questions, and the queue and offset of the one message that answers each."""


def check_served(broker: peers.Broker, java: JavaClient, ledger: killing.Ledger) -> None:
    """Assert that the Java client pulls each acknowledged message, and finds some of them."""
    asked = random.Random(5).sample(sorted(ledger.acknowledged.items()), ASKED)
    questions = [{"key": f"own-{number}"} for _, number in asked]
    alone = [(place, number) for place, number in asked if number in ledger.offset_ids]
    questions += [{"id": samples.unique_key(number)} for _, number in alone]
    places = [place for place, _ in (*asked, *alone)]
    pulled, found = java.read(broker.nameserver, killing.TOPIC, questions)

    by_place = {(got.queue_id, got.queue_offset): got for got in pulled}
    assert len(pulled) == len(by_place)
    for queue_id in range(killing.QUEUES):
        offsets = [got.queue_offset for got in pulled if got.queue_id == queue_id]
        assert offsets == list(range(len(offsets)))
    for place, number in ledger.acknowledged.items():
        assert f"own-{number}" == by_place[place].keys
        assert killing.body(number) == by_place[place].body
        assert f"T{number % 3}" == by_place[place].tag
    wanted: Wanted = list(zip(questions, places, strict=True))
    for _ in range(ASKED_TIMES):
        wanted = not_found(wanted, found)
        if not wanted:
            return
        _, found = java.read(broker.nameserver, killing.TOPIC, [one for one, _ in wanted])
    assert not_found(wanted, found) == []


def not_found(wanted: Wanted, found: list[Found]) -> Wanted:
    """Return what there was no answer to; assert that the answers that there are are right."""
    missing = []
    for one, answer in zip(wanted, found, strict=True):
        if answer.messages:
            assert answer.error is None
            assert [one[1]] == [(got.queue_id, got.queue_offset) for got in answer.messages]
        else:
            missing.append(one)
    return missing


def test_rocketmq_serves_a_store_that_messages_were_erased_from(
    jars: Path, java: JavaClient, tmp_path: Path
) -> None:
    """It starts on the copy; its client gets each other message, and empty ones for the erased."""
    spark_jobs = pytest.importorskip("sprocket.spark.jobs")
    store, ledger = tmp_path / "store", killing.Ledger()
    options = [part for setting in OURS for part in ("--set", setting)]
    with peers.Sprocket(tmp_path / "ours", store, options) as ours:
        killing.prepare(ours.address)
        load = killing.Load(ours.address, ledger, PLAN, random.Random(4))
        load.run(ours.stop)
    erased = {place: number for place, number in ledger.acknowledged.items() if number % 5 == 2}
    target = tmp_path / "copy"
    spark = sprocket.spark.session("interop", cores=1, folder=str(tmp_path / "spark"))
    try:
        keys = [f"own-{number}" for number in erased.values()]
        report = spark_jobs.erase(
            spark,
            store=str(store),
            to=str(target),
            messages=spark_jobs.ErasedMessages(key=keys),
        )
    finally:
        spark.stop()
    assert report.messages >= len(erased) > MESSAGES // 10

    theirs = peers.RocketMQ(jars=jars, folder=tmp_path / "theirs", store=target, settings=THEIRS)
    try:
        theirs.start()
        questions = [{"key": key} for key in keys[:5]]
        pulled, found = java.read(theirs.nameserver, killing.TOPIC, questions)
    finally:
        theirs.kill()
    by_place = {(got.queue_id, got.queue_offset): got for got in pulled}
    for place, number in ledger.acknowledged.items():
        got = by_place[place]
        if place in erased:
            assert not any((got.body, got.keys, got.tag))
        else:
            assert (got.body, got.keys) == (killing.body(number), f"own-{number}")
    assert [answer.messages for answer in found] == [[]] * 5
