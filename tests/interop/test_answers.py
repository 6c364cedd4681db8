"""RocketMQ 5.3.3 answers the recorded requests as the recordings say.

With SPROCKET_INTEROP_RECORD=1 the recordings are written anew; the tests `test_recorded_answers.py`
and `test_recorded_pops.py` in `tests/unit/rocketmq/server/` hold ours against them.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.answers import popping, recording, requests
from tests.answers.exchange import Exchange, Frames, Talk, Told, tell_all
from tests.interop import peers

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PATIENCE_SECONDS = 0.6
"""RocketMQ answers the requests of a connection by several threads, in any order."""
SMALL_FILES = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
}


def test_rocketmq_answers_as_it_was_recorded(jars: Path, tmp_path: Path) -> None:
    """Request by request, on a new store."""
    broker = peers.RocketMQ(
        jars=jars, folder=tmp_path / "run", store=tmp_path / "store", settings=SMALL_FILES
    )
    with broker:
        talk = Talk(broker=broker.address, nameserver=broker.nameserver, patience=PATIENCE_SECONDS)
        told = asyncio.run(tell_all(talk, requests.all_steps()))
    compare(told, recording.FILE)


def test_rocketmq_gives_pops_as_it_was_recorded(jars: Path, tmp_path: Path) -> None:
    """Scenario by scenario, on a new store; some wait until messages come again."""
    broker = peers.RocketMQ(
        jars=jars, folder=tmp_path / "run", store=tmp_path / "store", settings=SMALL_FILES
    )
    with broker:
        talk = popping.PopTalk(
            broker=broker.address,
            nameserver=broker.nameserver,
            pass_ms=lambda ms: asyncio.sleep(ms / 1000),
        )
        told = asyncio.run(tell_all(talk, popping.all_steps()))
    compare(told, recording.POPS_FILE)


def compare(told: Sequence[tuple[Exchange | Frames, list[Told]]], file: Path) -> None:
    """Hold answers against a recording, or write it."""
    if "SPROCKET_INTEROP_RECORD" in os.environ:
        recording.write(told, file)
    recorded = recording.read(file)
    assert {step.name: answers for step, answers in told} == {
        name: answers for name, (_, answers) in recorded.items()
    }
