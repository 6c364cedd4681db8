"""Topics whose queues hold batches: made, sent to, pulled from."""

import asyncio
from collections.abc import Callable
from typing import Any

from sprocket.base.units import MIB
from sprocket.rocketmq.codec.record import batch, record
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.testing.disk import SimulatedDisk


def ext(topic: str = "T", **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a send with short names."""
    base: dict[str, Any] = {"a": "p", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7}
    return base | {"h": 0, "i": "UNIQ_KEY\x01U1\x02"} | changes


def topic_ext(name: str, **changes: Any) -> dict[str, Any]:
    """Return the ext fields that make a topic with one queue of batches."""
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "attributes": "+queue.type=BatchCQ",
    } | changes


def pull_ext(offset: int, **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a pull that carries its subscription."""
    base: dict[str, Any] = {
        "consumerGroup": "g",
        "topic": "B",
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
        "subscription": "*",
    }
    return base | changes


THREE = batch.join([(0, b"b%d" % n, b"UNIQ_KEY\x01M%d\x02" % n) for n in range(3)])
WHOLE = "UNIQ_KEY\x01B\x02TAGS\x01a\x02INNER_NUM\x017\x02"


def test_a_batch_for_a_topic_of_batch_queues_is_one_record(on_node: Callable[..., None]) -> None:
    """Such a topic could not be made. The batch takes a place for each of its messages."""

    async def scenario(lab: Any) -> None:
        call = lab.broker.call
        assert (await call(17, topic_ext("B"))).code == 0
        first = await call(320, ext("B", m=True, i=WHOLE), THREE)
        fields = first.ext_map()
        assert first.code == 0
        assert fields["msgId"].count(",") == 0
        assert (fields["queueOffset"], fields["batchUniqId"], fields["transactionId"]) == (
            "0",
            "B",
            "B",
        )
        single = await call(310, ext("B"), b"single")
        assert single.ext_map()["queueOffset"] == "3"
        assert "batchUniqId" not in single.ext_map()
        classic = await call(320, ext("B", m=True, i=""), THREE)
        assert classic.ext_map()["queueOffset"] == "4"
        assert classic.ext_map()["msgId"].count(",") == 2
        for code, offset in ((30, "7"), (31, "0")):
            assert (await call(code, {"topic": "B", "queueId": 0})).ext_map()["offset"] == offset
        found = await call(11, pull_ext(1, maxMsgNums=4))
        stored = record.decode_all(found.body)
        assert [one.queue_offset for one in stored] == [0, 3]
        assert found.ext_map()["nextBeginOffset"] == "4"
        assert stored[0].sys_flag == 0xC0
        assert stored[0].stored_body == THREE
        properties = stored[0].properties
        assert (properties["INNER_NUM"], properties["INNER_BASE"]) == ("3", "0")
        assert (properties["UNIQ_KEY"], properties["TAGS"]) == ("B", "a")

    on_node(scenario)


def test_batches_for_batch_queues_that_cannot_be(on_node: Callable[..., None]) -> None:
    """Each is refused, and takes no place."""

    async def scenario(lab: Any) -> None:
        call = lab.broker.call
        assert (await call(17, topic_ext("B"))).code == 0
        for changes, body, code in (
            ({"i": WHOLE + "DELAY\x011\x02"}, THREE, 13),
            ({"i": WHOLE}, b"", 1),
            ({"i": WHOLE}, THREE[:-1], 1),
            ({"i": WHOLE}, batch.join([(0, b"", b"")] * 32_768), 13),
        ):
            answer = await call(320, ext("B", m=True, **changes), body)
            assert (changes, answer.code) == (changes, code), answer.remark
        assert (await call(310, ext("B", i="INNER_NUM\x012\x02"), THREE)).code == 13
        largest = batch.join([(0, b"", b"")] * 32_767)
        assert (await call(320, ext("B", m=True, i=WHOLE), largest)).code == 0
        assert (await call(30, {"topic": "B", "queueId": 0})).ext_map()["offset"] == "32767"

    on_node(scenario, log_bytes=MIB)


def test_a_consumer_that_waits_hears_of_an_inner_batch(on_node: Callable[..., None]) -> None:
    """Also one that wants its tag, which is the batch's."""

    async def scenario(lab: Any) -> None:
        assert (await lab.broker.call(17, topic_ext("B"))).code == 0
        waits = {"sysFlag": 6, "suspendTimeoutMillis": 10_000, "subscription": "a"}
        held = asyncio.ensure_future(lab.broker.call(11, pull_ext(0, **waits)))
        while not lab.node.broker.hold.count:
            await asyncio.sleep(0)
        other = await lab.connect()
        assert (await other.call(320, ext("B", m=True, i=WHOLE), THREE)).code == 0
        answer = await held
        assert (answer.code, answer.ext_map()["nextBeginOffset"]) == (0, "3")

    on_node(scenario)


def test_the_kind_of_queues_is_known_after_a_crash_that_forgets_the_topic(
    on_node: Callable[..., None],
) -> None:
    """The first message may be on the disk before the table of topics is."""
    disks = [SimulatedDisk()]

    async def made(lab: Any) -> None:
        assert (await lab.broker.call(17, topic_ext("B"))).code == 0
        disks.append(disks[0].crash(lambda _: 0))

    on_node(made, disk=disks[0])
    survived = disks[1]
    for name in ("topics.json", "topics.json.bak"):
        if survived.exists(f"/store/config/{name}"):
            survived.remove(f"/store/config/{name}")

    async def again(lab: Any) -> None:
        assert lab.node.broker.store.batch_topics == {"B"}

    on_node(again, disk=survived)


def test_a_topic_that_a_crash_left_without_batch_queues_has_them_at_the_next_start(
    on_node: Callable[..., None],
) -> None:
    """It is in the table, and the store has not heard of it."""

    async def scenario(lab: Any) -> None:
        broker = lab.node.broker
        broker.topics.put(TopicConfig(name="B", attributes={"queue.type": "BatchCQ"}))
        assert broker.store.batch_topics == set()
        broker.take_kinds()
        assert broker.store.batch_topics == {"B"}
        assert (await lab.broker.call(320, ext("B", m=True, i=WHOLE), THREE)).code == 0

    on_node(scenario)


def test_a_topic_may_have_another_kind_of_queues_once_it_was_deleted(
    on_node: Callable[..., None],
) -> None:
    """And not before."""

    async def scenario(lab: Any) -> None:
        call = lab.broker.call
        plain = topic_ext("B", attributes="+queue.type=SimpleCQ")
        for wanted, other in ((topic_ext("B"), plain), (plain, topic_ext("B"))):
            assert (await call(17, wanted)).code == 0
            assert (await call(320, ext("B", m=True, i=WHOLE), THREE)).code == (
                13 if wanted is plain else 0
            )
            assert (await call(310, ext("B"), b"x")).code == 0
            assert (await call(17, other)).code == 1
            assert (await call(215, {"topic": "B"})).code == 0

    on_node(scenario)


def test_a_topic_whose_queues_are_there_already_gets_no_batch_queues(
    on_node: Callable[..., None],
) -> None:
    """Somebody took it out of the table by hand; nothing is made, and the old ones stay."""

    async def scenario(lab: Any) -> None:
        assert (await lab.broker.call(310, ext("B"), b"x")).code == 0
        lab.node.broker.topics.remove("B")
        answer = await lab.broker.call(17, topic_ext("B"))
        assert answer.code != 0
        assert "queues of single messages" in (answer.remark or "")
        assert lab.node.broker.topics.get("B") is None

    on_node(scenario)
