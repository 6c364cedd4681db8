"""Consumers give messages back, and the answer says whether they come again."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import GroupSettings


async def pulled(lab: Any, topic: str, queue_id: int = 0) -> list[Any]:
    """Return what lies in a queue."""
    answer = await lab.broker.call(
        11,
        {
            "consumerGroup": "looking",
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": 0,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "subscription": "*",
        },
    )
    assert answer.code in (0, 19), answer.remark
    return record.decode_all(answer.body) if answer.code == 0 else []


def back(offset: int, level: int = 0, **more: Any) -> dict[str, Any]:
    """Return the ext fields of a send-back."""
    return {"offset": offset, "group": "g", "delayLevel": level, "originTopic": "T", **more}


def test_a_message_given_back_waits(on_node: Callable[..., None]) -> None:
    """It lies in the queue of its level, one more time counted; the first stays where it is."""

    async def scenario(lab: Any) -> None:
        sent = await lab.message()
        offset = int(sent.ext_map()["msgId"][16:], 16)
        answer = await lab.broker.call(36, back(offset))
        assert (answer.code, answer.ext_map()) == (0, {})
        (waits,) = await pulled(lab, "SCHEDULE_TOPIC_XXXX", 2)
        assert (waits.body, waits.reconsume_times) == (b"hello", 1)
        assert waits.properties["REAL_TOPIC"] == "%RETRY%g"
        assert len(await pulled(lab, "T")) == 1
        config = await lab.broker.call(351, {"topic": "%RETRY%g"})
        assert json.loads(config.body)["writeQueueNums"] == 1

    on_node(scenario)


def test_a_message_given_up_is_a_dead_letter_at_once(on_node: Callable[..., None]) -> None:
    """In queue 0 of the group's topic for them."""

    async def scenario(lab: Any) -> None:
        sent = await lab.message()
        offset = int(sent.ext_map()["msgId"][16:], 16)
        assert (await lab.broker.call(36, back(offset, -1))).code == 0
        (dead,) = await pulled(lab, "%DLQ%g")
        assert dead.properties["RETRY_TOPIC"] == "T"

    on_node(scenario)


@pytest.mark.parametrize(("version", "dead_letters"), [(120, 0), (121, 2)])
def test_a_limit_that_old_clients_name_does_not_count(
    on_node: Callable[..., None], version: int, dead_letters: int
) -> None:
    """3.4.9 is the first that means it, of a message given back and of one sent for a retry.

    A dead letter does not wait, whatever its delay level is.
    """

    async def scenario(lab: Any) -> None:
        offset = int((await lab.message()).ext_map()["msgId"][16:], 16)
        given_back = back(offset, maxReconsumeTimes=0)
        retry = {"topic": "%RETRY%g", "queueId": 0, "sysFlag": 0, "bornTimestamp": 0, "flag": 0}
        retry |= {"reconsumeTimes": 1, "maxReconsumeTimes": 0, "properties": "DELAY\x013\x02"}
        assert (await lab.broker.call(36, given_back, version=version)).code == 0
        assert (await lab.broker.call(10, retry, b"x", version=version)).code == 0
        is_dead = (await lab.broker.call(351, {"topic": "%DLQ%g"})).code == 0
        assert is_dead == (dead_letters > 0)
        assert not is_dead or len(await pulled(lab, "%DLQ%g")) == dead_letters

    on_node(scenario)


def test_refusals_have_their_codes(on_node: Callable[..., None]) -> None:
    """A missing message is 1, a missing group 26 where none is made."""

    async def scenario(lab: Any) -> None:
        assert (await lab.broker.call(36, back(12_345))).code == 1
        assert (await lab.broker.call(36, {"group": "g", "delayLevel": 0})).code == 1

    on_node(scenario)

    async def strict(lab: Any) -> None:
        answer = await lab.broker.call(36, back(0))
        assert answer.code == 26
        assert "'g'" in answer.remark or "[g]" in answer.remark

    on_node(strict, groups=GroupSettings(auto_create=False))


def test_a_disk_that_is_behind_refuses_them(on_node: Callable[..., None]) -> None:
    """As it refuses sends; nothing is stored, and later they are taken."""

    async def scenario(lab: Any) -> None:
        sent = await lab.message()
        offset = int(sent.ext_map()["msgId"][16:], 16)
        pressure = lab.node.pressure
        pressure.weigh(pressure.bytes_max)
        answer = await lab.broker.call(36, back(offset, -1))
        assert (answer.code, answer.remark[:21]) == (2, "[OVERLOAD]system busy")
        pressure.weigh(0)
        assert (await lab.broker.call(36, back(offset, -1))).code == 0
        assert len(await pulled(lab, "%DLQ%g")) == 1

    on_node(scenario)


def test_only_topics_that_exist_are_counted(
    on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients name the topic; names that they make up do not fill the table."""
    counted = []
    monkeypatch.setattr(Stats, "sent_back", lambda _, *key: counted.append(key))

    async def scenario(lab: Any) -> None:
        sent = await lab.message()
        offset = int(sent.ext_map()["msgId"][16:], 16)
        for name in ("T", "made-up", ""):
            assert (await lab.broker.call(36, back(offset, -1, originTopic=name))).code == 0
        assert counted == [("T", "g"), ("%DLQ%g", "g"), ("%DLQ%g", "g")]

    on_node(scenario)
