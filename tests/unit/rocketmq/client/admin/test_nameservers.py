"""NameServers keep values, settings, and who may be written to."""

from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused, ClientError
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import KeyValueTable
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import AddAnswer, ValueAnswer, WipeAnswer
from sprocket.rocketmq.errors import NoRoute


def admin(world: Any) -> Admin:
    """Return an admin in the world."""
    return Admin(world.names, **world.reach)


def answer(world: Any, code: RequestCode, body: bytes = b"", header: Any = None) -> None:
    """Have the cluster answer a code."""
    world.cluster.on[code] = lambda peer, command: peer.send(
        response(command, 0, header, body=[body] if body else [])
    )


def asked(world: Any, code: RequestCode) -> list[Command]:
    """Return the requests with a code."""
    return [one for one in world.cluster.requests if one.code == code]


def test_values_by_namespace_and_key(world: Any) -> None:
    """None and nothing for what is not there; other refusals are errors."""
    for code in (RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG):
        answer(world, code)

    async def main() -> None:
        async with admin(world) as looking:
            await looking.nameserver.put("n", "k", "v")
            await looking.nameserver.delete("n", "k")
            for number in (ResponseCode.QUERY_NOT_FOUND, ResponseCode.SYSTEM_ERROR):
                for code in (RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE):
                    world.cluster.on[code] = lambda p, c, number=number: world.cluster.refuse(
                        p, c, number, "none"
                    )
                if number == ResponseCode.QUERY_NOT_FOUND:
                    assert await looking.nameserver.get("n", "k") is None
                    assert await looking.nameserver.values("n") == {}
                    continue
                with pytest.raises(BrokerRefused):
                    await looking.nameserver.get("n", "k")
                with pytest.raises(BrokerRefused):
                    await looking.nameserver.values("n")
            answer(world, RequestCode.GET_KV_CONFIG, header=ValueAnswer(value="v"))
            table = bodies.encode(KeyValueTable({"k": "v"}))
            answer(world, RequestCode.GET_KVLIST_BY_NAMESPACE, table)
            assert await looking.nameserver.get("n", "k") == "v"
            assert await looking.nameserver.values("n") == {"k": "v"}

    world.run(main)


def test_settings_of_each_nameserver(world: Any) -> None:
    """By address; changes go to all, and one that cannot be reached is an error."""
    answer(world, RequestCode.GET_NAMESRV_CONFIG, b"b=2\na=1\n")
    answer(world, RequestCode.UPDATE_NAMESRV_CONFIG)

    async def main() -> None:
        async with admin(world) as looking:
            assert await looking.nameserver.config() == {world.names: {"a": "1", "b": "2"}}
            await looking.nameserver.update_config({"a": "2"})
            (command,) = asked(world, RequestCode.UPDATE_NAMESRV_CONFIG)
            assert command.body == b"a=2\n"
        async with Admin([world.names, "10.0.0.9:9876"], **world.reach) as looking:
            with pytest.raises(ClientError, match=r"10\.0\.0\.9"):
                await looking.nameserver.config()

    world.run(main)


def test_a_broker_is_closed_to_producers_and_opened_again(world: Any) -> None:
    """The number of its topics comes back."""
    wiped, added = WipeAnswer(wipe_topic_count=3), AddAnswer(add_topic_count=3)
    answer(world, RequestCode.WIPE_WRITE_PERM_OF_BROKER, header=wiped)
    answer(world, RequestCode.ADD_WRITE_PERM_OF_BROKER, header=added)

    async def main() -> None:
        async with admin(world) as looking:
            assert await looking.nameserver.wipe_write_permission("b") == 3
            assert await looking.nameserver.add_write_permission("b") == 3
            with pytest.raises(NoRoute, match="'x'; there is b"):
                await looking.nameserver.wipe_write_permission("x")

    world.run(main)
