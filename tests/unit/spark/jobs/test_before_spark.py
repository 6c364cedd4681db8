"""What is found before Spark starts: wrong arguments, and folders that are none."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.recorded_rabbitmq import RecordedVhosts
from tests.unit.spark.samples import unpack
from tests.waits import LONG_SECONDS
from typer.testing import CliRunner

from sprocket.base.errors import SprocketError
from sprocket.cli.main import app
from sprocket.rocketmq.client.blocking import Admin
from sprocket.spark import LateSession
from sprocket.spark.jobs import (
    JOBS,
    ArchivedMessages,
    ErasedMessages,
    JobCluster,
    MigratedMessages,
    MigrateSending,
    ReplayedMessages,
    ReplaySending,
    Routing,
    lag,
)
from sprocket.testing.local_broker import LocalBroker

NOBODY = JobCluster(name_server="127.0.0.1:1")
DRY = {"sending": ReplaySending(dry_run=True)}
DRY_MIGRATION = {"sending": MigrateSending(dry_run=True)}
NO_FOLDER = "is not a store directory"

WRONG: list[tuple[str, dict[str, Any], str]] = [
    # {store} is a store's folder, {vhosts} RabbitMQ's, {none} neither, {new} is not there.
    ("archive", {"store": "{none}", "to": "{new}"}, NO_FOLDER),
    ("archive", {"store": "{store}", "to": "{store}/new"}, "outside of the store"),
    (
        "archive",
        {"store": "{store}", "to": "{new}", "messages": ArchivedMessages(topic=["Plian"])},
        "did you mean Plain",
    ),
    (
        "erase",
        {"store": "{none}", "to": "{new}", "messages": ErasedMessages(key=["k"])},
        "there is no store",
    ),
    ("erase", {"store": "{store}", "to": "{new}"}, "name what to erase"),
    ("fsck", {"store": "{none}"}, "there is no store"),
    ("lag", {"store": "{none}"}, NO_FOLDER),
    ("lag", {"store": "{store}", "group": ["kitchn"]}, "no group 'kitchn'"),
    ("migrate", {"source": "{none}", **DRY_MIGRATION}, "no folder of a virtual host"),
    ("migrate", {"source": "{store}", **DRY_MIGRATION}, "no folder of a virtual host"),
    ("migrate", {"source": "{vhosts}"}, "name the cluster"),
    ("migrate", {"source": "{vhosts}", "cluster": NOBODY}, "127.0.0.1:1"),
    (
        "migrate",
        {"source": "{vhosts}", "messages": MigratedMessages(queue=["p.al"]), **DRY_MIGRATION},
        "there is no queue 'p.al'",
    ),
    (
        "migrate",
        {"source": "{vhosts}", "messages": MigratedMessages(expired_by="soon"), **DRY_MIGRATION},
        "--expired-by is 'soon'",
    ),
    (
        "migrate",
        {"source": "{vhosts}", "routing": Routing(route=["topc=a"]), **DRY_MIGRATION},
        "did you mean topic",
    ),
    ("rebuild-index", {"store": "{none}"}, "there is no store"),
    ("rebuild-index", {"store": "{store}", "slots": -1}, "--slots"),
    ("rebuild-queues", {"store": "{none}"}, "there is no store"),
    ("rebuild-queues", {"store": "{store}", "delay_levels": "1s soon"}, "soon"),
    ("replay", {"source": "{none}", **DRY}, NO_FOLDER),
    ("replay", {"source": "{store}"}, "name the cluster"),
    ("replay", {"source": "{store}", "cluster": NOBODY}, "127.0.0.1:1"),
    (
        "replay",
        {"source": "{store}", "messages": ReplayedMessages(topic=["Plian"]), **DRY},
        "did you mean Plain",
    ),
    (
        "replay",
        {"source": "{store}", "sending": ReplaySending(dry_run=True, change=["bdy=1"])},
        "did you mean body",
    ),
    (
        "replay",
        {"source": "{store}", "sending": ReplaySending(dry_run=True, option=["maxMesageBytes=1m"])},
        "did you mean maxMessageBytes",
    ),
    ("stats", {"store": "{none}"}, NO_FOLDER),
    ("stats", {"store": "{store}", "by": ["tpic"]}, "did you mean topic"),
    ("stats", {"store": "{store}", "topic": ["Plian"]}, "did you mean Plain"),
]


def never() -> Any:
    """Start no session."""
    raise AssertionError("Spark was started")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return a store, a node of RabbitMQ, a folder that is neither, and one that is not there."""
    root = tmp_path_factory.mktemp("folders")
    (root / "none").mkdir()
    return {
        "store": unpack("05-long-topic", root),
        "vhosts": RecordedVhosts("05-properties-ttl").unpack(root / "vhosts"),
        "none": str(root / "none"),
        "new": str(root / "new"),
    }


@pytest.mark.parametrize(("name", "given", "said"), WRONG)
def test_what_is_wrong_is_found_before_spark_starts(
    folders: dict[str, str], name: str, given: dict[str, Any], said: str
) -> None:
    """By every job; Spark takes some seconds to start."""
    filled = {
        key: value.format(**folders) if isinstance(value, str) and "{" in value else value
        for key, value in given.items()
    }
    with pytest.raises(SprocketError, match=said):
        JOBS[name](LateSession(never), **filled)


def test_every_job_is_tried() -> None:
    """In the test above."""
    assert {name for name, _, _ in WRONG} == set(JOBS)


def test_a_topic_to_replay_to_that_nobody_has(folders: dict[str, str]) -> None:
    """Its name is looked for before anything is read."""
    with LocalBroker() as broker:
        with Admin(broker.nameserver) as admin:
            admin.topic.create("orders", 1)
        with pytest.raises(SprocketError, match="no topic 'order'; did you mean orders"):
            JOBS["replay"](
                LateSession(never),
                source=folders["store"],
                cluster=JobCluster(name_server=broker.nameserver),
                sending=ReplaySending(to="order"),
            )


@pytest.mark.parametrize(
    "words",
    [
        ["pipe", "stats", "{none}"],
        ["pipe", "stats", "{store}", "--by", "tpic"],
        ["pipe", "stats", "{store}", "--conf", "spark.x"],
        ["pipe", "archive", "{store}", "{new}", "--round-bytes", "-1"],
        ["sql", "select 1", "--store", "{none}"],
        ["sql", "select 1", "--archive", "{none}"],
        ["sql", "select 1", "--store", "{store}", "--conf", "spark.x"],
        ["sql", "select 1", "--store", "{store}", "--parquet", "{none}"],
    ],
)
def test_commands_start_no_spark(
    folders: dict[str, str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong is told, and an exit code."""
    started: list[str] = []

    def start(name: str, **_: Any) -> None:
        started.append(name)  # what it raised might be taken for what is wrong
        never()

    monkeypatch.setattr("sprocket.spark.session", start)
    ended = CliRunner().invoke(app(), [word.format(**folders) for word in words])
    assert (started, ended.exit_code in (1, 2)) == ([], True), ended.output


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [(["--master", "loc"], "Master must either be"), (["--memory", "lots"], "lots")],
)
def test_what_spark_does_not_start_with_is_one_line(
    folders: dict[str, str], given: list[str], said: str
) -> None:
    """It names what is wrong, which Java says to a log that is removed."""
    command = str(Path(sys.executable).with_name("sprocket"))
    words = [command, "pipe", "stats", folders["store"], *given]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LONG_SECONDS, check=False)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("sprocket: Spark does not start: ")
    assert said in line


def test_what_needs_no_spark_starts_none(
    folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the list of tables, and how far groups are."""
    monkeypatch.setattr("sprocket.spark.session", never)
    ended = CliRunner().invoke(app(), ["sql", "show tables", "--store", folders["store"]])
    assert (ended.exit_code, "Plain" in ended.stdout) == (0, True)
    assert lag(LateSession(never), store=folders["store"]).lag == 0


def test_a_session_starts_once_and_is_stopped() -> None:
    """It is not stopped if it was not started."""
    told: list[str] = []

    class Session:
        """Takes note of what is asked of it."""

        def __init__(self) -> None:
            told.append("start")

        def stop(self) -> None:
            """Stop."""
            told.append("stop")

        version = "4"

    late = LateSession(Session)
    late.stop()
    assert told == []
    assert (late.version, late.version) == ("4", "4")
    late.stop()
    assert told == ["start", "stop"]
