"""Offsets of groups and queues, with RocketMQ's answers for what is not there."""

from collections.abc import Callable
from typing import Any

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import GroupTable
from sprocket.testing.disk import SimulatedDisk


async def fill(lab: Any, count: int, queue: int = 0) -> None:
    """Send messages to T, one each 10 ms."""
    for _ in range(count):
        lab.clock.advance(10)
        ext = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 7, "h": 0}
        await lab.broker.call(310, ext, b"x")


def group_ext(**changes: Any) -> dict[str, Any]:
    """Return what names group g in queue 0 of T."""
    return {"consumerGroup": "g", "topic": "T", "queueId": 0} | changes


async def make_group(lab: Any, name: str = "g") -> None:
    """Have the group made by a heartbeat."""
    body = (
        f'{{"clientID":"c","consumerDataSet":[{{"groupName":"{name}","subscriptionDataSet":[]}}]}}'
    )
    await lab.broker.call(34, None, body.encode())


def test_ranges_and_store_times(on_node: Callable[..., None]) -> None:
    """First, next and oldest store time of a queue."""

    async def scenario(lab: Any) -> None:
        start = lab.clock.now_ms()
        await fill(lab, 3)
        where = {"topic": "T", "queueId": 0}
        assert (await lab.broker.call(30, where)).ext_map() == {"offset": "3"}
        assert (await lab.broker.call(31, where)).ext_map() == {"offset": "0"}
        assert (await lab.broker.call(32, where)).ext_map() == {"timestamp": str(start + 10)}

    on_node(scenario)


def test_what_is_not_there_is_no_error(on_node: Callable[..., None]) -> None:
    """Unknown topics and queues have the range 0 to 0 and no time; a missing field is {1}."""

    async def scenario(lab: Any) -> None:
        where = {"topic": "none", "queueId": 7}
        assert (await lab.broker.call(30, where)).ext_map() == {"offset": "0"}
        assert (await lab.broker.call(31, where)).ext_map() == {"offset": "0"}
        assert (await lab.broker.call(32, where)).ext_map() == {"timestamp": "-1"}
        search = await lab.broker.call(29, where | {"timestamp": 5})
        assert search.ext_map() == {"offset": "0"}
        assert (await lab.broker.call(31, {"queueId": 0})).code == 1
        for code in (29, 30, 31, 32):
            strange = await lab.broker.call(code, {"topic": "../..", "queueId": -1, "timestamp": 1})
            assert strange.code in (0, 1)

    on_node(scenario)


def test_search_by_time(on_node: Callable[..., None]) -> None:
    """LOWER is the default: the first message at the time or later; UPPER the last before."""

    async def scenario(lab: Any) -> None:
        start = lab.clock.now_ms()
        await fill(lab, 3)
        for at, boundary, expected in (
            (0, None, "0"),
            (start + 20, "LOWER", "1"),
            (start + 25, None, "2"),
            (start + 25, "UPPER", "1"),
            (start + 99, "LOWER", "3"),
            (start + 99, "UPPER", "2"),
        ):
            ext = {"topic": "T", "queueId": 0, "timestamp": at}
            if boundary is not None:
                ext["boundaryType"] = boundary
            answer = await lab.broker.call(29, ext)
            assert (at - start, boundary, answer.ext_map()["offset"]) == (
                at - start,
                boundary,
                expected,
            )

    on_node(scenario)


def test_a_commit_is_given_back(on_node: Callable[..., None]) -> None:
    """Any queue number and any offset; a later commit may go backwards; −1 counts as none."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 3)
        await make_group(lab)
        for queue, offset in ((0, 3), (0, 1), (9, 5), (-1, 7)):
            answer = await lab.broker.call(15, group_ext(queueId=queue, commitOffset=offset))
            assert answer.code == 0
            found = await lab.broker.call(14, group_ext(queueId=queue))
            assert found.ext_map()["offset"] == str(offset)
        await lab.broker.call(15, group_ext(commitOffset=-1))
        assert (await lab.broker.call(14, group_ext())).ext_map()["offset"] == "0"

    on_node(scenario)


def test_commits_are_checked(on_node: Callable[..., None]) -> None:
    """Group {26}, topic {17}, queue and offset {29}."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        assert (await lab.broker.call(15, group_ext(commitOffset=1))).code == 26
        await make_group(lab)
        assert (await lab.broker.call(15, group_ext(commitOffset=1, topic="none"))).code == 17
        assert (await lab.broker.call(15, group_ext())).code == 29
        without = group_ext(commitOffset=1)
        del without["queueId"]
        assert (await lab.broker.call(15, without)).code == 29
        assert (await lab.broker.call(15, group_ext(commitOffset=1))).code == 0

    on_node(scenario)


def test_a_new_group_may_begin_at_0(on_node: Callable[..., None]) -> None:
    """Only if message 0 is there and the client allows it; else {22}. No group is made."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 1)
        assert (await lab.broker.call(14, group_ext())).ext_map()["offset"] == "0"
        assert (await lab.broker.call(14, group_ext(setZeroIfNotFound="false"))).code == 22
        assert (await lab.broker.call(14, group_ext(queueId=1))).code == 22
        assert (await lab.broker.call(14, group_ext(consumerGroup="bad group"))).code == 0
        told = bodies.decode(GroupTable, (await lab.broker.call(201)).body)
        assert not {"g", "bad group"} & {group.name for group in told.groups}

    on_node(scenario)


def test_commits_outlive_a_kill(on_node: Callable[..., None]) -> None:
    """What was answered is in the files at once: a process that dies then loses none of it."""
    disk = SimulatedDisk()
    taken: list[SimulatedDisk] = []

    async def first(lab: Any) -> None:
        await fill(lab, 3)
        await make_group(lab)
        await lab.broker.call(15, group_ext(commitOffset=2))
        taken.append(disk.kill())

    async def second(lab: Any) -> None:
        assert (await lab.broker.call(14, group_ext())).ext_map()["offset"] == "2"

    on_node(first, disk=disk)
    on_node(second, disk=taken[0])


def test_an_offset_of_a_deleted_topic_is_not_taken_for_one_of_the_next(
    on_node: Callable[..., None],
) -> None:
    """A consumer that has not heard of it commits where it was, behind the new end."""

    async def scenario(lab: Any) -> None:
        await fill(lab, 3)
        await make_group(lab)
        assert (await lab.broker.call(15, group_ext(commitOffset=9))).code == 0
        assert (await lab.broker.call(14, group_ext())).ext_map()["offset"] == "9"
        assert (await lab.broker.call(215, {"topic": "T"})).code == 0
        await fill(lab, 2)
        for offset in (3, 9):
            told = await lab.broker.call(15, group_ext(commitOffset=offset))
            assert (told.code, told.remark) == (0, "Offset is of a topic that was deleted")
        assert (await lab.broker.call(14, group_ext(setZeroIfNotFound="false"))).code == 22
        await lab.broker.call(15, group_ext(commitOffset=2))
        assert (await lab.broker.call(14, group_ext())).ext_map()["offset"] == "2"

    on_node(scenario)
