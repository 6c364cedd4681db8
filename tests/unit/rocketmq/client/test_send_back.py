"""Failed messages go back to a broker that takes them."""

from typing import Any

from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client.held import Held
from sprocket.rocketmq.client.process_queue import ProcessQueue
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.send_back import SendBack
from sprocket.rocketmq.codec import headers, record
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import response

BACK = RequestCode.CONSUMER_SEND_MSG_BACK


def failed(world: Any, count: int) -> tuple[Held, list[ReceivedMessage]]:
    """Store messages and return them as pulled."""
    for number in range(count):
        world.cluster.store("t", 0, b"%d" % number)
    stored = [record.decode(one) for one in world.cluster.log["t", 0]]
    limits: dict[str, Any] = {"messages_max": 1, "bytes_max": 1, "span_max": 1}
    held = Held(world.queue(0), ProcessQueue(QueueOffset(0), **limits))
    return held, [ReceivedMessage(one, world.queue(0)) for one in stored]


def test_each_message_is_named_by_its_place_in_the_log(world: Any) -> None:
    """The broker reads it there; it decides the delay, and counts to 16."""

    async def main() -> None:
        held, messages = failed(world, 2)
        instance = world.instance()
        await instance.routes.find("t")
        world.cluster.on[BACK] = lambda peer, command: peer.send(response(command, 0))
        back = SendBack("g", instance.connections, instance.routes)
        assert await back(held, messages) == []
        asked = [one.header(headers.SendMessageBack) for one in world.cluster.requests[-2:]]
        assert [one.offset for one in asked] == [one.stored.physical_offset for one in messages]
        assert {(one.group, one.delay_level, one.origin_topic) for one in asked} == {("g", 0, "t")}
        assert asked[0].max_reconsume_times == 16
        await instance.close()

    world.run(main)


def test_a_broker_that_cannot_is_asked_once(world: Any) -> None:
    """One that fails for another reason is asked again next time; nothing is lost either way."""

    async def main() -> None:
        held, messages = failed(world, 3)
        instance = world.instance()
        await instance.routes.find("t")
        back = SendBack("g", instance.connections, instance.routes)
        world.cluster.on[BACK] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.SYSTEM_ERROR, "not now"
        )
        for _ in range(2):
            assert await back(held, messages) == messages
        assert world.cluster.seen.count(BACK) == 2
        world.cluster.on.clear()
        for _ in range(2):
            assert await back(held, messages) == messages
        assert world.cluster.seen.count(BACK) == 3
        await world.cluster.stop()
        assert (
            await SendBack("g", instance.connections, instance.routes)(held, messages) == messages
        )
        await instance.close()

    world.run(main)


def test_what_was_taken_before_a_failure_is_not_delivered_again(world: Any) -> None:
    """Only the rest is returned."""

    async def main() -> None:
        held, messages = failed(world, 3)
        instance = world.instance()
        await instance.routes.find("t")
        world.cluster.on[BACK] = lambda peer, command: (
            peer.send(response(command, 0))
            if command.header(headers.SendMessageBack).offset == 0
            else world.cluster.refuse(peer, command, ResponseCode.SYSTEM_ERROR, "no")
        )
        back = SendBack("g", instance.connections, instance.routes)
        assert await back(held, messages) == messages[1:]
        await instance.close()

    world.run(main)
