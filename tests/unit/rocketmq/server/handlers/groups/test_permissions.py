"""A topic can be closed to one group."""

import json
from collections.abc import Callable
from typing import Any

from tests.unit.rocketmq.server.handlers.messages.test_pull import heartbeat, pull_ext


def test_a_closed_topic_is_not_read(on_node: Callable[..., None]) -> None:
    """By pulls that rely on heartbeats, as RocketMQ has it; opened again it is."""

    async def scenario(lab: Any) -> None:
        await lab.message()
        await lab.broker.call(34, None, heartbeat("T"))

        async def set_readable(**more: Any) -> bool:
            answer = await lab.broker.call(353, {"group": "g", "topic": "T", **more})
            assert answer.code == 0
            return bool(json.loads(answer.body)["readable"])

        pull = pull_ext(0, sysFlag=0, subVersion=5)
        assert await set_readable()
        assert not await set_readable(readable="false")
        assert not await set_readable()
        refused = await lab.broker.call(11, pull)
        assert (refused.code, refused.ext_map()["forbiddenType"]) == (16, "5")
        assert (await lab.broker.call(11, pull_ext(0))).code == 0
        assert await set_readable(readable="true")
        assert (await lab.broker.call(11, pull)).code == 0

    on_node(scenario)
