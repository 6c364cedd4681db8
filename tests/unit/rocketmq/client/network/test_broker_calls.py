"""Each call asks what its name says and reads what comes back."""

from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused
from sprocket.rocketmq.client.network import Pull, PullStatus
from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.model.offsets import QueueOffset


async def ready(world: Any) -> Any:
    """Return an instance that knows the route of `t`."""
    world.cluster.topics["t"] = 2
    instance = world.instance()
    await instance.routes.find("t")
    return instance


def asking(world: Any, **options: Any) -> Pull:
    """Return a pull of the first queue from its beginning."""
    usual: dict[str, Any] = {"expression": "*", "count_max": 5, "version": 9}
    return Pull(group="g", queue=world.queue(0), offset=QueueOffset(0), **(usual | options))


def test_nothing_committed_is_none(world: Any) -> None:
    """Nothing committed is None, also when a broker says −1; another refusal is an error."""

    async def main() -> None:
        instance = await ready(world)
        brokers, queue = instance.brokers, world.queue(0)
        assert await brokers.committed_offset("g", queue) is None
        asked = world.cluster.requests[-1].header(headers.QueryConsumerOffset)
        assert not asked.set_zero_if_not_found
        await brokers.commit_offset("g", queue, 7)
        assert await brokers.committed_offset("g", queue) == 7
        world.cluster.committed["g", "t", 0] = -1
        assert await brokers.committed_offset("g", queue) is None
        code = RequestCode.QUERY_CONSUMER_OFFSET
        world.cluster.on[code] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.SYSTEM_ERROR, "broken"
        )
        with pytest.raises(BrokerRefused, match="broken"):
            await brokers.committed_offset("g", queue)
        await instance.close()

    world.run(main)


def test_members_of_an_unknown_group_are_none(world: Any) -> None:
    """A broker says so by code 1; any other code is an error."""

    async def main() -> None:
        instance = await ready(world)
        assert await instance.brokers.members("g", "b") == []
        world.cluster.members["g"] = ["x", "y"]
        assert await instance.brokers.members("g", "b") == ["x", "y"]
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        world.cluster.on[code] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.SYSTEM_BUSY, "busy"
        )
        with pytest.raises(BrokerRefused, match="busy"):
            await instance.brokers.members("g", "b")
        await instance.close()

    world.run(main)


def test_locks_are_for_one_client(world: Any) -> None:
    """The answer holds what this client has; unlocking frees it for others."""

    async def main() -> None:
        instance = await ready(world)
        brokers, queues = instance.brokers, [world.queue(0), world.queue(1)]
        assert await brokers.lock("g", "me", "b", queues[:1]) == set(queues[:1])
        assert await brokers.lock("g", "other", "b", queues) == set(queues[1:])
        await brokers.unlock("g", "me", "b", queues)
        assert await brokers.lock("g", "other", "b", queues) == set(queues)
        await instance.close()

    world.run(main)


def test_a_pull_says_what_it_wants(world: Any) -> None:
    """Bits for hold, commit and subscription; the tags go with every request."""

    async def main() -> None:
        instance = await ready(world)
        world.cluster.store("t", 0, b"x")

        async def pull(**options: Any) -> headers.PullMessage:
            await instance.brokers.pull(asking(world, expression="A || B", **options))
            header: headers.PullMessage = world.cluster.requests[-1].header(headers.PullMessage)
            return header

        plain = await pull()
        assert (plain.sys_flag, plain.subscription, plain.sub_version) == (4, "A || B", 9)
        full = await pull(hold_ms=1_000, commit=3)
        assert (full.sys_flag, full.suspend_timeout_millis, full.commit_offset) == (7, 1_000, 3)
        assert (await pull(commit=0)).sys_flag == 5
        await instance.close()

    world.run(main)


def test_statuses_of_a_pull(world: Any) -> None:
    """Four codes are results, every other is an error."""

    async def main() -> None:
        instance = await ready(world)
        answer = headers.PullMessageAnswer(next_begin_offset=4, min_offset=1, max_offset=9)
        for status in PullStatus:
            world.cluster.on[RequestCode.PULL_MESSAGE] = lambda peer, command: peer.send(
                response(command, status.value, answer)  # noqa: B023 - used in this round
            )
            found = await instance.brokers.pull(asking(world))
            assert found.status is status
            assert (found.next_offset, found.min_offset, found.max_offset) == (4, 1, 9)
        world.cluster.on[RequestCode.PULL_MESSAGE] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "who?"
        )
        with pytest.raises(BrokerRefused, match=r"who\? \(code 26\)"):
            await instance.brokers.pull(asking(world))
        await instance.close()

    world.run(main)
