"""What waits in a store: as the records of real brokers, and of ours, say."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.samples import expected, unpack

from sprocket.rocketmq.model.internal import HALF_TOPIC, OP_TOPIC, TIMER_TOPIC
from sprocket.spark.jobs import stored_queues
from sprocket.spark.jobs.job_files import LOCAL_FILES
from sprocket.spark.jobs.waiting import WaitingInStore, waiting


def counted(store: str) -> WaitingInStore:
    """Return what waits in a folder."""
    return waiting(LOCAL_FILES.folder(store))


def of(lines: list[dict[str, Any]], topic: str) -> list[dict[str, Any]]:
    """Return the records of a topic."""
    return [line for line in lines if line["topic"] == topic]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "count"), [("07-transactions", 8), ("07b-transactions-kill9", 30)]
)
def test_halves_that_no_op_message_names(tmp_path: Path, case: str, count: int) -> None:
    """Some were stored again when nobody knew how they ended; after a kill nothing has ended."""
    lines = expected(case)
    ids = {line["properties"]["UNIQ_KEY"] for line in of(lines, HALF_TOPIC)}
    ended = 5 * 8 - 8 if of(lines, OP_TOPIC) else 0
    assert (
        counted(unpack(case, tmp_path))
        == WaitingInStore(count, 0)
        == WaitingInStore(len(ids) - ended, 0)
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", ["06-delay-timer", "06b-timer-kill9"])
def test_timed_messages_that_were_not_delivered(tmp_path: Path, case: str) -> None:
    """Nor taken back by others."""
    lines = expected(case)
    timed = of(lines, TIMER_TOPIC)
    taken_back = {
        line["properties"]["TIMER_DEL_UNIQKEY"].rpartition("+")[2]
        for line in timed
        if "TIMER_DEL_UNIQKEY" in line["properties"]
    }
    done = {
        line["unique_key"]
        for line in lines
        if line["topic"] != TIMER_TOPIC and "TIMER_DEQUEUE_MS" in line["properties"]
    }
    waits = {line["unique_key"] for line in timed if "TIMER_DEL_UNIQKEY" not in line["properties"]}
    assert counted(unpack(case, tmp_path)) == WaitingInStore(0, len(waits - taken_back - done))


def test_nothing_waits_where_nothing_was_sent_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no such topics, so the queues, which may be many, are not opened."""
    monkeypatch.delattr(stored_queues, "opened")
    assert counted(unpack("01-basic", tmp_path)) == WaitingInStore(0, 0)
