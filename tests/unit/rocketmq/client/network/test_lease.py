"""A user of an instance has it from `begin` to `end`, and leaves nothing behind."""

import asyncio
from typing import Any

import pytest

from sprocket.base.errors import ClientError, NotConnected, SettingsError
from sprocket.rocketmq.client import (
    Admin,
    Client,
    ClientSettings,
    ConsumerSettings,
    LitePullConsumer,
    Message,
    Producer,
    Puller,
    PushConsumer,
)
from sprocket.rocketmq.client.network import Lease
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode


def test_an_instance_of_its_own_is_closed_at_the_end(world: Any) -> None:
    """With the tasks; the end may come twice."""

    async def main() -> None:
        lease = Lease("thing", world.names, world.reach)
        with pytest.raises(NotConnected, match="the thing is not open; use `async with`"):
            lease.instance  # noqa: B018 - the access is what is tested
        instance = lease.begin()
        task = lease.tasks.spawn(asyncio.sleep(1000), "sleep")
        await lease.end()
        await lease.end()
        assert task.cancelled()
        with pytest.raises(NotConnected, match="closed"):
            await instance.connections.channel(world.names)

    world.run(main)


def test_a_shared_client_serves_everybody_over_one_connection(world: Any) -> None:
    """One connection and one heartbeat for all; who leaves is unregistered, the others go on."""
    world.cluster.topics["t"] = 1
    got: list[bytes] = []

    async def main() -> None:
        async with Client(world.names, **world.reach) as client:
            instance = client.instance
            async with (
                Producer(client, group="p") as sender,
                PushConsumer(
                    client, group="g", listener=lambda m: got.extend(one.body for one in m)
                ) as consumer,
            ):
                await consumer.subscribe("t")
                await world.until(lambda: bool(consumer.queues))
                await sender.send(Message("t", b"x"))
                await world.until(lambda: got == [b"x"])
                assert len(world.cluster.servers[-1].peers) == 1
                await instance.heartbeat_all()
                beats = [
                    bodies.decode_heartbeat(one.body)
                    for one in world.cluster.requests
                    if one.code == RequestCode.HEART_BEAT
                ]
                assert {one.client_id for one in beats} == {instance.client_id}
                assert beats[-1].producers == ["p"]
                assert [one.group for one in beats[-1].consumers] == ["g"]
            assert world.cluster.members["g"] == []
            assert world.cluster.seen.count(RequestCode.UNREGISTER_CLIENT) == 2
            assert (instance.on_broker_open, instance.routes.on_change) == ([], [])
            async with Admin(client) as admin:
                assert await admin.topics() == ["t"]

    world.run(main)


def test_a_group_is_there_once_for_each_kind(world: Any) -> None:
    """A second producer or consumer of one group is refused, until the first has left."""

    async def main() -> None:
        async with Client(world.names, **world.reach) as client:
            first, second = Producer(client, group="g"), Producer(client, group="g")
            await first.start()
            with pytest.raises(ClientError, match="has a producer of group 'g' already"):
                await second.start()
            async with PushConsumer(client, group="g", listener=lambda _: None):
                with pytest.raises(ClientError, match="has a consumer of group 'g' already"):
                    await PushConsumer(client, group="g", listener=lambda _: None).start()
            await first.close()
            async with second:
                await second.send(Message("t", b"x"))

    world.run(main)


def test_what_belongs_to_the_shared_client_is_said_there(world: Any) -> None:
    """And a client that is not open is refused."""

    async def main() -> None:
        client = Client(world.names, **world.reach)
        with pytest.raises(SettingsError, match="client: say it of the shared Client"):
            Producer(client, client=ClientSettings())
        with pytest.raises(NotConnected, match="the client is not open"):
            await Admin(client).start()

    world.run(main)


def test_a_shared_client_leaves_a_consumer_its_own_arguments(world: Any) -> None:
    """What is the client's, or nobody's, is refused; the rest is the consumer's."""
    shared = Client(world.names)
    settings = ConsumerSettings()
    PushConsumer(shared, group="g", orderly=True, start="first", settings=settings)
    LitePullConsumer(shared, group="g", start="first", settings=settings)
    wrong: dict[str, Any]
    for wrong in ({"client": ClientSettings()}, {"ordrly": True}):
        with pytest.raises(SettingsError, match=f"{next(iter(wrong))}: say it of the shared"):
            PushConsumer(shared, group="g", settings=settings, **wrong)


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        (lambda **options: Producer("h:1", **options), "grup"),
        (lambda **options: PushConsumer("h:1", group="g", **options), "ordrely"),
        (lambda **options: LitePullConsumer("h:1", group="g", **options), "orderly"),
        (lambda **options: Puller("h:1", **options), "patience"),
        (lambda **options: Admin("h:1", **options), "settings"),
    ],
)
def test_an_argument_that_nobody_knows_is_refused(what: Any, wrong: str) -> None:
    """A consumer was not orderly, without a word, if `orderly` was misspelt."""
    with pytest.raises(SettingsError, match=f"takes no argument {wrong}"):
        what(**{wrong: True})
