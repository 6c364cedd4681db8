"""Answers about everything there is: others are answered meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.server import dispatch
from sprocket.runtime import slices
from sprocket.runtime.turns import Turns

TOPIC = {"defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} | {
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": "false",
}
LONG: dict[str, tuple[int, dict[str, Any]]] = {
    "all topics": (21, {}),
    "all groups": (201, {}),
    "all offsets": (43, {}),
    "the progress of all groups": (317, {"isOrder": "false"}),
    "the progress of a group": (208, {"consumerGroup": "g1"}),
}


@pytest.mark.parametrize("name", LONG)
def test_others_are_answered_while_a_long_answer_is_made(
    on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It takes several turns of the loop."""
    code, ext = LONG[name]
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)  # a turn of the loop for each call
    monkeypatch.setattr("sprocket.node.broker_role.SLICE_WORK", 1)
    monkeypatch.setattr("sprocket.rocketmq.codec.config.declared.PIECE_BYTES", 100)

    async def scenario(lab: Any) -> None:
        await lab.message("T")
        for number in range(20):
            await lab.broker.call(352, {"group": f"g{number}"})
            where = {"consumerGroup": f"g{number}", "topic": "T", "queueId": 0}
            assert (await lab.broker.call(15, where | {"commitOffset": 1})).code == 0
            await lab.broker.call(17, TOPIC | {"topic": f"T{number}"})
        turns = 0
        turn = Turns.run

        def counted(of: Turns) -> None:
            nonlocal turns
            turns += 1
            turn(of)

        monkeypatch.setattr(Turns, "run", counted)
        assert (await lab.broker.call(code, ext)).code == 0
        assert turns > 3

    on_node(scenario)


def test_an_answer_that_no_frame_takes_is_refused(
    on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client would have to close the connection."""
    monkeypatch.setattr(dispatch, "BODY_BYTES_MAX", 100)

    async def scenario(lab: Any) -> None:
        answer = await lab.broker.call(21, {})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "longer than the 16777216 bytes that a frame may have" in answer.remark

    on_node(scenario)


def test_a_broker_stops_while_a_long_answer_is_made(
    on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of it is not made."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr("sprocket.rocketmq.codec.config.declared.PIECE_BYTES", 1)

    async def scenario(lab: Any) -> None:
        lab.broker.send(201)
        await asyncio.sleep(0)

    on_node(scenario)
