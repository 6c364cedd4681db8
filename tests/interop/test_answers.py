"""RocketMQ 5.3.3 answers the recorded requests as the recording says.

With SPROCKET_INTEROP_RECORD=1 the recording is written anew; the tests in
`tests/unit/rocketmq/server/test_recorded_answers.py` hold ours against it.
"""

import asyncio
import os
from pathlib import Path

import pytest
from tests.answers import recording, requests
from tests.answers.exchange import Talk, tell_all
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
    if "SPROCKET_INTEROP_RECORD" in os.environ:
        recording.write(told)
    recorded = recording.read()
    assert {step.name: answers for step, answers in told} == {
        name: answers for name, (_, answers) in recorded.items()
    }
