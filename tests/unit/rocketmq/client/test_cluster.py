"""The cluster in memory that the client's tests stand on answers as a real node does."""

from collections.abc import Callable, Mapping
from typing import Any

from tests import sockets
from tests.unit.rocketmq.client.conftest import Cluster
from tests.unit.rocketmq.conftest import Lab, RawClient, message_ext

from sprocket.rocketmq.codec import bodies, headers
from sprocket.rocketmq.codec.bodies import ConsumerData, ConsumerIds, HeartbeatData, LockBatch
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.record import batch, properties
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import MessageQueue, TopicRoute
from sprocket.runtime import driver

TRIES = 500
"""So often something is asked for that comes soon after its cause; only a fault needs them all."""


class Talk:
    """What two clients ask a NameServer and a broker, and what they hear.

    Attributes:
        heard: By what was asked: the code, and what of the answer does not depend on who gives it.
    """

    def __init__(self, names: RawClient, broker: RawClient, other: RawClient) -> None:
        self.heard: dict[str, Any] = {}
        self._names = names
        self._broker = broker
        self._other = other

    async def ask(
        self,
        what: str,
        code: RequestCode,
        read: Callable[[Command], Any] = lambda _: None,
        *,
        body: bytes = b"",
        via: RawClient | None = None,
        more: Mapping[str, object] | None = None,
        **ext: object,
    ) -> Command:
        """Ask, and note what is heard."""
        answer = await (via or self._broker).call(code, ext | dict(more or {}), body)
        self.heard[what] = answer.code, None if answer.code else read(answer)
        return answer

    async def ask_until(self, *asked: Any, **more: Any) -> Command:
        """Ask until the answer is a success."""
        for _ in range(TRIES):
            answer = await self.ask(*asked, **more)
            if not answer.code:
                break
        return answer

    async def run(self) -> None:
        """Ask for everything that clients ask for."""
        await self.topics()
        await self.messages()
        await self.offsets()
        await self.members()

    async def topics(self) -> None:
        """Routes, of a topic that is not there and of one that was made."""
        route = RequestCode.GET_ROUTEINFO_BY_TOPIC
        await self.ask("a route of nothing", route, via=self._names, topic="T")
        await self.ask(
            "a topic is made",
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            topic="T",
            defaultTopic="TBW102",
            readQueueNums=3,
            writeQueueNums=3,
            perm=6,
            topicFilterType="SINGLE_TAG",
            topicSysFlag=0,
            order="false",
        )
        await self.ask_until("a route", route, routed, via=self._names, topic="T")

    async def messages(self) -> None:
        """One, some at once, and one that nobody waits for; pulled, seen and found."""
        send = RequestCode.SEND_MESSAGE_V2
        pairs = properties.encode({"UNIQ_KEY": "U1", "KEYS": "k", "TAGS": "a"}).decode()
        one = await self.ask("a send", send, sent, body=b"one", more=message_ext("T", i=pairs))
        both = batch.join([(0, b"two", b""), (0, b"three", b"")])
        several = message_ext("T", m="true", i="")
        await self.ask("a batch", RequestCode.SEND_BATCH_MESSAGE, sent, body=both, more=several)
        await self.ask("another queue", send, sent, body=b"x", more=message_ext("T", e=2))
        for number, at in enumerate((0, 1, 3, 9)):
            await self.ask(f"pull {number}", RequestCode.PULL_MESSAGE, pulled, more=pull("T", at))
        place = int(one.header(headers.SendMessageAnswer).msg_id[16:], 16)
        await self.ask("a view", RequestCode.VIEW_MESSAGE_BY_ID, stored, offset=place)
        await self.ask("a view of nothing", RequestCode.VIEW_MESSAGE_BY_ID, stored, offset=1 << 30)
        span = {"maxNum": 9, "beginTimestamp": 0, "endTimestamp": 1 << 50}
        query = RequestCode.QUERY_MESSAGE
        await self.ask_until("a query", query, stored, topic="T", key="k", more=span)
        await self.ask("a query for nothing", query, stored, topic="T", key="unknown", more=span)

    async def offsets(self) -> None:
        """Ends of queues, a place in time, and what groups have committed."""
        for end in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
            await self.ask(f"{end.name} of a queue", end, offset, topic="T", queueId=0)
            await self.ask(f"{end.name} of an empty one", end, offset, topic="T", queueId=1)
        search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        await self.ask("in the past", search, offset, topic="T", queueId=0, timestamp=0)
        await self.ask("in the future", search, offset, topic="T", queueId=0, timestamp=1 << 50)
        mine = {"consumerGroup": "g", "topic": "T", "queueId": 0}
        asked = mine | {"setZeroIfNotFound": "false"}
        await self.ask("nothing committed", RequestCode.QUERY_CONSUMER_OFFSET, offset, more=asked)
        await self.ask("a commit", RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=2, more=mine)
        await self.ask("committed", RequestCode.QUERY_CONSUMER_OFFSET, offset, more=mine)

    async def members(self) -> None:
        """Who consumes, who has which queues locked, and what is left when one leaves."""
        members = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        await self.ask("nobody", members, who, consumerGroup="g")
        for number, via in enumerate((self._broker, self._other)):
            subscribed = ConsumerData(group="g", subscriptions=[Subscription.parse("T", "*")])
            beat = HeartbeatData(client_id=f"c{number}", consumers=[subscribed])
            data = bodies.encode(beat)
            await self.ask(f"heartbeat {number}", RequestCode.HEART_BEAT, via=via, body=data)
        await self.ask("both", members, who, consumerGroup="g")
        for number, (client, queue_ids) in enumerate((("c0", (0, 1)), ("c1", (1, 2)))):
            queues = [MessageQueue("T", "b", one) for one in queue_ids]
            asked = bodies.encode(LockBatch(group="g", client_id=client, queues=queues))
            await self.ask(f"lock {number}", RequestCode.LOCK_BATCH_MQ, locked, body=asked)
        mine = bodies.encode(
            LockBatch(group="g", client_id="c0", queues=[MessageQueue("T", "b", 1)])
        )
        await self.ask("unlock", RequestCode.UNLOCK_BATCH_MQ, body=mine)
        again = bodies.encode(
            LockBatch(group="g", client_id="c1", queues=[MessageQueue("T", "b", 1)])
        )
        await self.ask("lock again", RequestCode.LOCK_BATCH_MQ, locked, body=again)
        leave = {"clientID": "c0", "consumerGroup": "g"}
        await self.ask("one leaves", RequestCode.UNREGISTER_CLIENT, more=leave)
        await self.ask("the other", members, who, consumerGroup="g")


def routed(answer: Command) -> Any:
    """Return the queues of a route."""
    route = bodies.decode(TopicRoute, bytes(answer.body))
    return [(one.read_queues, one.write_queues, one.perm) for one in route.queues]


def sent(answer: Command) -> Any:
    """Return where a message lies."""
    found = answer.header(headers.SendMessageAnswer)
    return found.queue_id, found.queue_offset, len(found.msg_id.split(","))


def pull(topic: str, queue_offset: int) -> dict[str, object]:
    """Return the fields of a pull that does not wait."""
    return {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": 0,
        "queueOffset": queue_offset,
        "maxMsgNums": 2,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
    }


def pulled(answer: Command) -> Any:
    """Return what a pull brought, and where it goes on."""
    found = answer.header(headers.PullMessageAnswer)
    return found.next_begin_offset, found.min_offset, found.max_offset, stored(answer)


def stored(answer: Command) -> list[bytes]:
    """Return the bodies of stored messages."""
    return [one.body for one in batch.decode_messages(answer.body)]


def offset(answer: Command) -> int:
    """Return an offset."""
    return answer.header(headers.OffsetAnswer).offset


def who(answer: Command) -> list[str]:
    """Return members."""
    return sorted(bodies.decode(ConsumerIds, bytes(answer.body)).client_ids)


def locked(answer: Command) -> list[int]:
    """Return the queues that were granted."""
    found = bodies.decode(bodies.LockedQueues, bytes(answer.body))
    return sorted(queue.queue_id for queue in found.queues)


def test_it_answers_as_a_node_does(on_node: Callable[..., None]) -> None:
    """To everything that clients ask: the same codes, offsets, messages, members and locks."""
    heard: list[dict[str, Any]] = []

    async def of_a_node(lab: Lab) -> None:
        talk = Talk(lab.names, lab.broker, await lab.connect())
        await talk.run()
        heard.append(talk.heard)

    async def of_the_cluster() -> None:
        cluster = Cluster()
        cluster.serve = sockets.serve
        clients = []
        for name in ("names_address", "broker_address"):
            setattr(cluster, name, "127.0.0.1:0")
            await cluster.start_one("127.0.0.1:0")
            setattr(cluster, name, f"127.0.0.1:{cluster.servers[-1].port}")
            clients.append(await RawClient.open(getattr(cluster, name)))
        names, broker = clients
        talk = Talk(names, broker, await RawClient.open(cluster.broker_address))
        await talk.run()
        heard.append(talk.heard)
        await cluster.stop()

    on_node(of_a_node)
    driver.run(of_the_cluster())
    assert heard[0] == heard[1]
    assert len(heard[0]) > 25
