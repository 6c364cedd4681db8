"""Light queues over the wire: to readers each is a topic of one queue, and nothing is made."""

from collections.abc import Callable
from typing import Any

from sprocket.rocketmq.settings import StoreSettings

LIGHT = StoreSettings(light_queues=True)
SEND = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "f": 0, "g": 7, "h": 0}


async def send(lab: Any, number: int, names: str) -> Any:
    """Send a message to `orders` that is for light queues, too."""
    ext = {
        **SEND,
        "e": number % 4,
        "i": f"INNER_MULTI_DISPATCH\x01{names}\x02TAGS\x01t{number}\x02",
    }
    return await lab.broker.call(310, ext, b"%d" % number)


async def pulled(lab: Any, topic: str, group: str, offset: int, **more: object) -> tuple[int, str]:
    """Pull; return the code, and where to go on."""
    ext = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        **more,
    }
    answer = await lab.broker.call(11, ext)
    return answer.code, answer.ext_map().get("nextBeginOffset", "")


def test_light_queues_are_read_as_topics(on_node: Callable[..., None]) -> None:
    """By codes and offsets of RocketMQ's, recorded from 5.3.3; also those that have no message."""

    async def scenario(lab: Any) -> None:
        for number in range(3):
            assert (await send(lab, number, "%LMQ%a,%LMQ%b")).code == 0
        for group in ("g", "%LMQ%g"):
            assert await pulled(lab, "%LMQ%a", group, 0) == (0, "3")
            assert await pulled(lab, "%LMQ%a", group, 3) == (19, "3")
            assert await pulled(lab, "%LMQ%none", group, 0) == (19, "0")
            assert (await pulled(lab, "%LMQ%a", group, 0, queueId=1))[0] == 29
            place = {"consumerGroup": group, "topic": "%LMQ%a", "queueId": 0}
            assert (await lab.broker.call(15, {**place, "commitOffset": 2})).code == 0
            assert (await lab.broker.call(14, place)).ext_map()["offset"] == "2"
            none = {**place, "topic": "%LMQ%none"}
            assert (await lab.broker.call(14, none)).code == 22
            assert b'"brokerOffset":3' in bytes((await lab.broker.call(208, place)).body)
        queue = {"topic": "%LMQ%a", "queueId": 0}
        assert (await lab.broker.call(30, queue)).ext_map()["offset"] == "3"
        direct = await lab.broker.call(310, {**SEND, "b": "%LMQ%a", "e": 0, "i": ""}, b"direct")
        assert (direct.code, direct.ext_map()["queueOffset"]) == (0, "3")
        assert await pulled(lab, "%LMQ%a", "g", 3) == (0, "4")
        topics = bytes((await lab.broker.call(21, {})).body)
        groups = bytes((await lab.broker.call(201, {})).body)
        assert b"%LMQ%" not in topics
        assert b"%LMQ%" not in groups

    on_node(scenario, store=LIGHT)


def test_without_the_setting_there_are_none(on_node: Callable[..., None]) -> None:
    """A message that names some is stored in its own queue alone."""

    async def scenario(lab: Any) -> None:
        assert (await send(lab, 0, "%LMQ%a")).code == 0
        assert (await pulled(lab, "%LMQ%a", "g", 0))[0] == 17

    on_node(scenario)
