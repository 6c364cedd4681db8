"""Topics are made, changed and shown; NameServers know of a change when it is answered."""

import json
from collections.abc import Callable
from typing import Any

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import TopicConfigs, TopicNames, TopicStats
from sprocket.rocketmq.codec.config import TopicTable, fastjson
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import TopicSettings


def ext(name: str, **changes: Any) -> dict[str, Any]:
    """Return the ext fields that make a topic."""
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 3,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    } | changes


async def route(lab: Any, topic: str) -> Any:
    """Return a topic's route as a NameServer gives it; its code if that is none."""
    answer = await lab.names.call(105, {"topic": topic})
    return json.loads(answer.body) if answer.code == 0 else answer.code


def test_a_new_topic_is_known_everywhere_when_it_is_answered(on_node: Callable[..., None]) -> None:
    """The very next request to the NameServer finds it."""

    async def scenario(lab: Any) -> None:
        assert await route(lab, "T") == 17
        assert (await lab.broker.call(17, ext("T"))).code == 0
        found = await route(lab, "T")
        assert found["queueDatas"] == [
            {
                "brokerName": "broker-a",
                "perm": 6,
                "readQueueNums": 3,
                "topicSysFlag": 0,
                "writeQueueNums": 2,
            }
        ]
        assert found["brokerDatas"][0]["brokerAddrs"] == {"0": lab.node.addresses.broker}
        config = await lab.broker.call(351, {"topic": "T"})
        assert json.loads(config.body) == {
            "attributes": {},
            "order": False,
            "perm": 6,
            "readQueueNums": 3,
            "topicFilterType": "SINGLE_TAG",
            "topicName": "T",
            "topicSysFlag": 0,
            "writeQueueNums": 2,
        }

    on_node(scenario)


def test_a_changed_topic_replaces_the_old_one(on_node: Callable[..., None]) -> None:
    """The same again is a success without a change."""

    async def scenario(lab: Any) -> None:
        await lab.broker.call(17, ext("T"))
        assert (await lab.broker.call(17, ext("T"))).code == 0
        assert (await lab.broker.call(17, ext("T", perm=4, writeQueueNums=9))).code == 0
        queue = (await route(lab, "T"))["queueDatas"][0]
        assert (queue["perm"], queue["writeQueueNums"]) == (4, 9)

    on_node(scenario)


def test_what_may_not_be_made_is_refused(on_node: Callable[..., None]) -> None:
    """Names, numbers, filter types and attributes are checked."""

    async def scenario(lab: Any) -> None:
        for changes, code in (
            ({"topic": ""}, 29),
            ({"topic": "a b"}, 29),
            ({"topic": "a" * 128}, 29),
            ({"topic": "TBW102"}, 29),
            ({"topic": "broker-a"}, 29),
            ({"topic": "rmq_sys_x"}, 29),
            ({"readQueueNums": -1}, 29),
            ({"writeQueueNums": 1_000_000}, 29),
            ({"readQueueNums": "x"}, 1),
            ({"topicFilterType": "WHATEVER"}, 1),
            ({"attributes": "+message.type=MIXED"}, 29),
            ({"attributes": "+cleanup.policy=COMPACT"}, 1),
            ({"attributes": "+queue.type=BigCQ"}, 1),
            ({"attributes": "nonsense"}, 1),
            ({"attributes": "+message.type=FIFO"}, 0),
            ({"attributes": "-message.type"}, 0),
        ):
            answer = await lab.broker.call(17, ext("T") | changes)
            assert (changes, answer.code) == (changes, code), answer.remark
        config = await lab.broker.call(351, {"topic": "T"})
        assert json.loads(config.body)["attributes"] == {}

    on_node(scenario)


def test_how_long_a_topic_is_kept_may_be_said_and_changed(on_node: Callable[..., None]) -> None:
    """`reserve.time` was refused; 0 and −1 are the broker's own time."""

    async def scenario(lab: Any) -> None:
        topics = lab.node.broker.topics
        for text, hours in (("+reserve.time=100", 100), ("+reserve.time=-1", 0)):
            assert (await lab.broker.call(17, ext("T", attributes=text))).code == 0
            assert topics.reserve_hours() == ({"T": hours} if hours else {})
        assert (await lab.broker.call(17, ext("T", attributes="+reserve.time=-2"))).code == 1
        assert (await lab.broker.call(17, ext("T", attributes="-reserve.time"))).code == 0
        config = await lab.broker.call(351, {"topic": "T"})
        assert json.loads(config.body)["attributes"] == {}

    on_node(scenario)


def test_a_send_makes_its_topic_and_registers_it(on_node: Callable[..., None]) -> None:
    """With the sender's number of queues, at most the template's."""

    async def scenario(lab: Any) -> None:
        for topic, wanted in (("A", 4), ("B", 99), ("C", -3)):
            send = {
                "a": "p",
                "b": topic,
                "c": "TBW102",
                "d": wanted,
                "e": -1,
                "f": 0,
                "g": 1,
                "h": 0,
            }
            await lab.broker.call(310, send, b"x")
        await lab.broker.call(17, ext("later"))
        counts = [(await route(lab, topic))["queueDatas"][0]["readQueueNums"] for topic in "ABC"]
        assert counts == [4, 8, 0]
        assert (await route(lab, "A"))["queueDatas"][0]["perm"] == 6

    on_node(scenario)


def test_automatic_creation_can_be_off(on_node: Callable[..., None]) -> None:
    """Then an unknown topic is {17}, and so is the template."""

    async def scenario(lab: Any) -> None:
        send = {"a": "p", "b": "A", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        answer = await lab.broker.call(310, send, b"x")
        assert answer.code == 17
        assert "automatic creation is off" in (answer.remark or "")
        assert await route(lab, "TBW102") == 17
        await lab.broker.call(17, ext("A"))
        assert (await lab.broker.call(310, send, b"x")).code == 0

    on_node(scenario, topics=TopicSettings(auto_create=False))


def test_statistics_have_every_queue(on_node: Callable[..., None]) -> None:
    """Its range and when it was last written, in RocketMQ's dialect with objects as keys."""

    async def scenario(lab: Any) -> None:
        await lab.broker.call(17, ext("T"))
        send = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 1, "f": 0, "g": 1, "h": 0}
        await lab.broker.call(310, send, b"x")
        answer = await lab.broker.call(202, {"topic": "T"})
        table = fastjson.read(answer.body)["offsetTable"]
        assert len(table) == 3
        assert b'{"brokerName":"broker-a","queueId":1,"topic":"T"}:' in answer.body
        written = [one for one in table.values() if one["maxOffset"]]
        assert written == [
            {"lastUpdateTimestamp": lab.clock.now_ms(), "maxOffset": 1, "minOffset": 0}
        ]
        assert (await lab.broker.call(202, {"topic": "none"})).code == 17
        assert (await lab.broker.call(351, {"topic": "none"})).code == 17

    on_node(scenario)


async def topic_names(lab: Any) -> set[str]:
    """Return the topics in the broker's table."""
    table = bodies.decode(TopicTable, (await lab.broker.call(21)).body)
    return {topic.name for topic in table.topics}


def test_a_list_of_topics_is_made_as_a_whole(on_node: Callable[..., None]) -> None:
    """Or not at all, if one of them may not be; attributes are changes."""

    async def scenario(lab: Any) -> None:
        wanted = [
            TopicConfig(name="A", attributes={"+message.type": "FIFO"}),
            TopicConfig(name="B", read_queues=2),
        ]
        bad = [TopicConfig(name="C"), TopicConfig(name="TBW102")]
        assert (await lab.broker.call(18, {}, bodies.encode(TopicConfigs(wanted)))).code == 0
        assert (await lab.broker.call(18, {}, bodies.encode(TopicConfigs(bad)))).code == 29
        assert (await lab.broker.call(18, {}, b"[]")).code == 1
        config = await lab.broker.call(351, {"topic": "A"})
        assert json.loads(config.body)["attributes"] == {"message.type": "FIFO"}
        assert {"A", "B"} <= await topic_names(lab)
        assert "C" not in await topic_names(lab)
        assert (await route(lab, "B"))["queueDatas"][0]["readQueueNums"] == 2

    on_node(scenario)


def test_a_deleted_topic_is_gone(on_node: Callable[..., None]) -> None:
    """With its messages and offsets; made again it begins at 0."""

    async def scenario(lab: Any) -> None:
        call = lab.broker.call
        for _ in range(3):
            await lab.message("T")
        commit = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 2}
        await call(352, {"group": "g"})
        await call(15, commit)
        for _ in range(2):
            assert (await call(215, {"topic": "T"})).code == 0
        assert (await call(351, {"topic": "T"})).code == 17
        assert (await call(14, commit)).code == 22
        assert (await call(30, {"topic": "T", "queueId": 0})).ext_map()["offset"] == "0"
        assert (await lab.message("T")).ext_map()["queueOffset"] == "0"
        for name in ("", " ", "TBW102", "broker-a"):
            assert (name, (await call(215, {"topic": name})).code) == (name, 29)

    on_node(scenario)


def test_the_systems_topics_are_named(on_node: Callable[..., None]) -> None:
    """Whether or not they are there."""

    async def scenario(lab: Any) -> None:
        await lab.message("T")
        names = bodies.decode(TopicNames, (await lab.broker.call(305)).body).topics
        assert {"TBW102", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX"} <= set(names)
        assert "T" not in names

    on_node(scenario)


def test_the_rate_of_a_topic_is_told(on_node: Callable[..., None]) -> None:
    """Of the last minute."""

    async def scenario(lab: Any) -> None:
        await lab.message("T")
        stats = bodies.decode(TopicStats, (await lab.broker.call(202, {"topic": "T"})).body)
        assert stats.put_tps == 0.0
        assert stats.queues[MessageQueue("T", "broker-a", 0)].max_offset == 1

    on_node(scenario)
