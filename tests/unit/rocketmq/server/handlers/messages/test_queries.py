"""Messages are found by key and by id, as stored."""

from collections.abc import Callable
from typing import Any

from tests.unit.rocketmq.server.conftest import ColdDisk

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ConsumerData, HeartbeatData, QueueUnits
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.group import Subscription


async def fill(lab: Any) -> None:
    """Send four messages, two with key k."""
    for number, keys in enumerate(("k", "j", "k other", "")):
        lab.clock.advance(1000)
        properties = f"UNIQ_KEY\x01U{number}\x02" + (f"KEYS\x01{keys}\x02" if keys else "")
        ext = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 0}
        await lab.broker.call(310, ext | {"i": properties}, b"m%d" % number)


def query(key: str, **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a query in topic T over all time."""
    return {
        "topic": "T",
        "key": key,
        "maxNum": 64,
        "beginTimestamp": 0,
        "endTimestamp": 2**63 - 1,
    } | changes


def test_a_key_finds_the_newest_in_ascending_order(on_node: Callable[..., None]) -> None:
    """Ascending, the newest when there are too many, inside the time asked for."""

    async def scenario(lab: Any) -> None:
        start = lab.clock.now_ms()
        await fill(lab)
        for changes, expected in (
            ({}, [b"m0", b"m2"]),
            ({"maxNum": 1}, [b"m2"]),
            ({"key": "other"}, [b"m2"]),
            ({"key": "U1", "_UNIQUE_KEY_QUERY": "true", "maxNum": 0}, [b"m1"]),
            ({"endTimestamp": start + 1500}, [b"m0"]),
        ):
            answer = await lab.broker.call(12, query("k") | changes)
            assert answer.code == 0, changes
            assert [one.body for one in record.decode_all(answer.body)] == expected
            assert set(answer.ext_map()) == {
                "indexLastUpdateTimestamp",
                "indexLastUpdatePhyoffset",
            }

    on_node(scenario)


def test_what_is_not_found_says_so(on_node: Callable[..., None]) -> None:
    """No such key, no topic, no key, maxNum 0 are {22}; a negative number and none are {1}."""

    async def scenario(lab: Any) -> None:
        await fill(lab)
        for changes, code in (
            ({"key": "none"}, 22),
            ({"key": ""}, 22),
            ({"topic": ""}, 22),
            ({"maxNum": 0}, 22),
            ({"maxNum": -1}, 1),
            ({"maxNum": "many"}, 1),
        ):
            answer = await lab.broker.call(12, query("k") | changes)
            assert (changes, answer.code) == (changes, code)
        without = query("k")
        del without["topic"]
        assert (await lab.broker.call(12, without)).code == 22

    on_node(scenario)


def test_an_offset_gives_the_record_that_begins_there(on_node: Callable[..., None]) -> None:
    """The record at a physical offset; anything else is {1}, whatever bytes lie there."""

    async def scenario(lab: Any) -> None:
        await fill(lab)
        answer = await lab.broker.call(33, {"offset": 0})
        assert record.decode(answer.body).body == b"m0"
        for offset in (-1, 7, 100, 10**6, 2**62):
            answer = await lab.broker.call(33, {"offset": offset})
            assert (offset, answer.code) == (offset, 1)
            assert answer.remark

    on_node(scenario)


def test_units_of_a_queue_are_told(on_node: Callable[..., None]) -> None:
    """From an offset on, with what a group wants of them; nothing behind the end."""

    async def scenario(lab: Any) -> None:
        ext = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 0}
        for number in range(14):
            await lab.broker.call(310, ext | {"i": f"TAGS\x01{'ab'[number % 2]}\x02"}, b"m")
        data = ConsumerData(group="g", subscriptions=[Subscription.parse("T", "b")])
        heartbeat = HeartbeatData(client_id="c", consumers=[data])
        await lab.broker.call(34, {}, bodies.encode(heartbeat))
        ask = {"topic": "T", "queueId": 0, "index": 1, "count": 100}
        found = bodies.decode(QueueUnits, (await lab.broker.call(321, ask)).body)
        assert (found.min_offset, found.max_offset, len(found.units)) == (0, 14, 13)
        assert [one.tags_code for one in found.units[:3]] == [98, 97, 98]
        assert (found.subscription, found.filter_data) == (None, None)
        answer = await lab.broker.call(321, ask | {"count": 2, "consumerGroup": "g"})
        found = bodies.decode(QueueUnits, answer.body)
        assert [one.passes for one in found.units] == [True, False]
        assert (found.subscription, found.filter_data) == (data.subscriptions[0], "null")
        answer = await lab.broker.call(321, ask | {"count": 1, "consumerGroup": "none"})
        assert b"none@T is not online!" in answer.body
        for changes, code, said in (
            ({"index": 14}, 0, "Index 14 of 0@T is not exist!"),
            ({"index": -1}, 0, "Index -1 of 0@T is not exist!"),
            ({"queueId": 3}, 0, "Index 1 of 3@T is not exist!"),
        ):
            answer = await lab.broker.call(321, ask | changes)
            assert (answer.code, answer.remark, answer.body) == (code, said, b"")

    on_node(scenario)


def test_what_a_condition_lets_pass_is_told(on_node: Callable[..., None]) -> None:
    """By the messages themselves; nothing where it cannot be compiled."""

    async def scenario(lab: Any) -> None:
        ext = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 0}
        for number in range(4):
            await lab.broker.call(310, ext | {"i": f"count\x01{number}\x02"}, b"m")
        ask = {"topic": "T", "queueId": 0, "index": 1, "count": 100, "consumerGroup": "g"}
        for version, text, expected in (
            (1, "count > 1", [False, True, True]),
            (2, "count >", [False, False, False]),
        ):
            wanted = Subscription.parse("T", text, type="SQL92", version=version)
            data = ConsumerData(group="g", subscriptions=[wanted])
            await lab.broker.call(
                34, {}, bodies.encode(HeartbeatData(client_id="c", consumers=[data]))
            )
            found = bodies.decode(QueueUnits, (await lab.broker.call(321, ask)).body)
            assert [one.passes for one in found.units] == expected
            assert found.subscription == wanted

    on_node(scenario)


def test_what_is_refused_after_the_disk_has_read_says_so(on_cold_node: Callable[..., None]) -> None:
    """The same as at once."""

    async def scenario(lab: Any, disk: ColdDisk) -> None:
        answer = await lab.broker.call(33, {"offset": 7})
        assert (answer.code, disk.threads) == (1, ["sprocket-read"])
        assert "can not find message by the offset, 7" in answer.remark

    on_cold_node(scenario)
