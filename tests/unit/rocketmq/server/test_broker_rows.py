"""The parts that tools ask for are put together."""

import json
from typing import Any

import pytest
from tests.unit.rocketmq.conftest import on_node  # noqa: F401

from sprocket.rocketmq.server import broker_rows


def test_runtime_figures_come_from_all_parts(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk, what waits, and delay levels, of which one has delivered a message."""
    monkeypatch.setattr(broker_rows, "longest_ms", lambda groups, now_ms: len(groups) + now_ms)

    async def scenario(lab: Any) -> None:
        pull = {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": 0,
            "queueOffset": 0,
            "maxMsgNums": 1,
            "sysFlag": 6,
            "suspendTimeoutMillis": 20_000,
            "subscription": "*",
        }
        await lab.message("T", i="DELAY\x011\x02")
        lab.broker.send(11, pull)
        table = json.loads((await lab.broker.call(28)).body)["table"]
        assert table["sprocketHeldPulls"] == "1"
        assert table["commitLogDiskRatio"] == "0.00"
        assert table["commitLogDirCapacity"] == "Total : 1.0 GiB, Free : 1.0 GiB."
        assert table["sendThreadPoolQueueSize"] == "0"
        assert table["sendThreadPoolQueueHeadWaitTimeMills"] == str(lab.clock.now_ms())
        lab.clock.advance(1000)

    request.getfixturevalue("on_node")(scenario)
