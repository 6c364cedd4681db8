"""An admin asks those who know, and says who there is."""

from typing import Any

import pytest

from sprocket.base.errors import (
    BrokerRefused,
    ClientError,
    NotConnected,
    WireError,
)
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.client.network import Lease
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.codec.headers import TopicOnly


def admin(world: Any) -> Admin:
    """Return an admin in the world."""
    return Admin(world.names, **world.reach)


def unreadable(_: bytes) -> None:
    """Fail to decode."""
    raise WireError("no")


def test_those_that_fail_make_the_result_smaller(world: Any) -> None:
    """All failing is an error; an answer that means "nothing here" is none."""

    async def main() -> None:
        lease = Lease("admin", world.names, world.reach)
        lease.begin()
        reach = Reach(lease)
        address, code = world.cluster.broker_address, RequestCode.GET_TOPIC_CONFIG
        header = TopicOnly(topic="t")
        with pytest.raises(ClientError, match=r"10\.0\.0\.9"):
            await reach.ask_each(["10.0.0.9:1"], code, header, bytes)
        with pytest.raises(BrokerRefused, match="not here"):
            await reach.ask_each([address], code, header, bytes)
        absent = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,)
        assert await reach.ask_each([address], code, header, bytes, absent=absent) == {}
        world.cluster.on[code] = lambda peer, command: peer.send(response(command, 0))
        found = await reach.ask_each(["10.0.0.9:1", address], code, header, bytes)
        assert found == {address: b""}
        with pytest.raises(BrokerRefused, match=f"unreadable answer of {address}: no"):
            await reach.ask_each([address], code, header, unreadable)
        await lease.end()

    world.run(main)


def test_what_was_done_before_a_broker_failed_is_told(world: Any) -> None:
    """Of a refusal and of a broker that is away; nothing where nothing was done."""
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    codes = [ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION]

    def answer(peer: Any, command: Any) -> None:
        peer.send(response(command, codes.pop(0), None, "no"))

    async def main() -> None:
        lease = Lease("admin", world.names, world.reach)
        lease.begin()
        reach = Reach(lease)
        address = world.cluster.broker_address
        world.cluster.on[code] = answer
        with pytest.raises(BrokerRefused, match="no; done before that on a ") as refused:
            await reach.call_all({"a": address, "b": address, "c": address}, code)
        assert refused.value.code == ResponseCode.NO_PERMISSION
        codes[:] = [ResponseCode.SUCCESS] * 2
        with pytest.raises(NotConnected, match=r"10\.0\.0\.9.*; done before that on a, b"):
            await reach.call_all({"a": address, "b": address, "c": "10.0.0.9:1"}, code)
        with pytest.raises(NotConnected) as away:
            await reach.call_all({"c": "10.0.0.9:1", "a": address}, code)
        assert "done before" not in str(away.value)
        await lease.end()

    world.run(main)
