"""A NameServer and a broker in memory, as far as clients can tell, that do what a test says."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import structlog
from tests import virtual_time
from tests.pipe import PipeNetwork
from tests.virtual_time import LoopClock

from sprocket.rocketmq.client import ClientSettings
from sprocket.rocketmq.client.network import ClientInstance
from sprocket.rocketmq.codec import bodies, headers
from sprocket.rocketmq.codec.bodies import ConsumerIds, LockedQueues, TopicNames
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, request, response
from sprocket.rocketmq.codec.record import batch, ids, properties, record
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.route import (
    BrokerData,
    ClusterInfo,
    MessageQueue,
    QueueData,
    TopicRoute,
)
from sprocket.rocketmq.remoting import Connection
from sprocket.runtime.driver import Peer, Server

NAMES = "10.0.0.1:9876"
BROKER = "10.0.0.2:10911"
HOST = ids.host_bytes("10.0.0.2", 10911)

Answer = Callable[[Peer, Command], None]


class Cluster:
    """One NameServer, one broker `b`, and their memory, which survives `stop` and `start`.

    What it answers by itself is what a node answers (`test_cluster`), but for one thing: it says 0
    of no queue of which nothing is committed, as a broker does while the queue's first message is
    there.

    Attributes:
        topics: Number of queues by topic; a send to another topic creates it with 4.
        log: Records by queue, as stored.
        seen: Codes of all requests, in order.
        answers: What clients answered to requests of ours.
        sends: `(queue id, bodies)` of each send request that was stored.
        committed: Offsets by group and queue.
        members: Client ids of each group, in the order of their first heartbeats.
        locked: Client id by group and queue.
        on: What answers a code instead of the usual handler.
    """

    def __init__(self) -> None:
        self.network = PipeNetwork()
        self.serve: Callable[..., Coroutine[Any, Any, Server]] = self.network.serve
        self.names_address = NAMES
        self.broker_address = BROKER
        self.topics: dict[str, int] = {}
        self.log: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.seen: list[RequestCode] = []
        self.requests: list[Command] = []
        self.answers: list[Command] = []
        self.sends: list[tuple[int, list[bytes]]] = []
        self.committed: dict[tuple[str, str, int], int] = {}
        self.members: dict[str, list[str]] = defaultdict(list)
        self.peers: dict[str, Peer] = {}
        self.locked: dict[tuple[str, str, int], str] = {}
        self.on: dict[RequestCode, Answer] = {}
        self.creates_topics = True
        self._held: list[tuple[Peer, Command]] = []
        self.servers: list[Server] = []
        self._end = 0

    async def start(self) -> None:
        """Listen at both addresses."""
        for address in (self.names_address, self.broker_address):
            await self.start_one(address)

    async def start_one(self, address: str) -> None:
        """Listen at one address."""
        host, port = address.rsplit(":", 1)
        server = await self.serve(Connection, self.handle, host, int(port))
        self.servers.append(server)

    async def stop(self) -> None:
        """Cut every connection and stop listening, as a killed process does."""
        servers, self.servers = self.servers, []
        for server in servers:
            for peer in list(server.peers):
                peer.abort("killed by the test")
            await server.close()
        self._held.clear()
        self.members.clear()
        self.locked.clear()

    def handle(self, peer: Peer, command: Command) -> None:
        """Answer one request; keep an answer to one of ours."""
        if command.is_response:
            self.answers.append(command)
            return
        code = RequestCode(command.code)
        self.seen.append(code)
        self.requests.append(command)
        handler = self.on.get(code) or getattr(self, f"_on_{code.name.lower()}", None)
        if handler is None:
            self.refuse(peer, command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not here")
        else:
            handler(peer, command)

    def refuse(self, peer: Peer, command: Command, code: int, remark: str) -> None:
        """Answer with an error."""
        peer.send(response(command, code, None, remark))

    def usual(self, code: RequestCode) -> Answer:
        """Return the usual handler of a code."""
        handler: Answer = getattr(self, f"_on_{code.name.lower()}")
        return handler

    def bodies(self, topic: str, queue_id: int) -> list[bytes]:
        """Return the bodies stored in a queue."""
        return [record.decode(one).body for one in self.log[topic, queue_id]]

    def notify_ids_changed(self, client_id: str, group: str) -> None:
        """Tell a member that the members have changed."""
        header = headers.ConsumerGroupOnly(consumer_group=group)
        peer = self.peers[client_id]
        assert isinstance(peer.connection, Connection)
        opaque = peer.connection.next_opaque()
        peer.send(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque, header, oneway=True))

    def ask(
        self, client_id: str, code: RequestCode, header: Any, body: bytes = b"", **how: Any
    ) -> None:
        """Send a client a request."""
        peer = self.peers[client_id]
        assert isinstance(peer.connection, Connection)
        peer.send(request(code, peer.connection.next_opaque(), header, body, **how))

    def store(
        self, topic: str, queue_id: int, body: bytes, encoded: bytes = b"", sys_flag: int = 0
    ) -> tuple[int, int]:
        """Put one message into a queue; return its queue offset and physical offset."""
        self.topics.setdefault(topic, 4)
        queue = self.log[topic, queue_id]
        new = NewRecord(
            topic, queue_id, body, encoded, born_host=HOST, store_host=HOST, sys_flag=sys_flag
        )
        stored = record.encode(
            new,
            queue_offset=len(queue),
            physical_offset=self._end,
            stored_at_ms=LoopClock().now_ms(),
            crc_tail=False,
        )
        queue.append(stored)
        place = len(queue) - 1, self._end
        self._end += len(stored)
        held, self._held = self._held, []
        for peer, command in held:
            self._pull(peer, command)
        return place

    def route(self, queues: int) -> TopicRoute:
        """Return the route of a topic with so many queues."""
        return TopicRoute(
            queues=[QueueData(broker_name="b", read_queues=queues, write_queues=queues, perm=6)],
            brokers=[BrokerData(cluster="c", name="b", addresses={0: self.broker_address})],
        )

    def _on_get_routeinfo_by_topic(self, peer: Peer, command: Command) -> None:
        topic = command.header(headers.GetRoute).topic
        queues = self.topics.get(topic)
        if queues is None and topic == "TBW102" and self.creates_topics:
            queues = 8
        if queues is None:
            self.refuse(peer, command, ResponseCode.TOPIC_NOT_EXIST, f"no topic {topic}")
            return
        body = bodies.encode(self.route(queues), quoted=True)
        peer.send(response(command, 0, body=[body]))

    def _on_get_broker_cluster_info(self, peer: Peer, command: Command) -> None:
        info = ClusterInfo(brokers={"b": self.route(0).brokers[0]}, clusters={"c": ["b"]})
        peer.send(response(command, 0, body=[bodies.encode(info, quoted=True)]))

    def _on_get_all_topic_list_from_nameserver(self, peer: Peer, command: Command) -> None:
        peer.send(response(command, 0, body=[bodies.encode(TopicNames(topics=list(self.topics)))]))

    def _on_update_and_create_topic(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.CreateTopic)
        self.topics[header.topic] = header.write_queue_nums
        peer.send(response(command, 0))

    def _on_send_message_v2(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.SendMessageV2)
        self.topics.setdefault(header.topic, header.default_topic_queue_nums or 0)
        parts = [(header.flag, bytes(command.body), header.properties.encode())]
        if header.batch:
            parts = list(zip(*batch.split(command.body), strict=True))
        places = [
            self.store(header.topic, header.queue_id, body, text, header.sys_flag)
            for _, body, text in parts
        ]
        self.sends.append((header.queue_id, [body for _, body, _ in parts]))
        if not command.is_oneway:
            answer = headers.SendMessageAnswer(
                msg_id=",".join(ids.offset_message_id(HOST, at) for _, at in places),
                queue_id=header.queue_id,
                queue_offset=places[0][0],
            )
            peer.send(response(command, 0, answer))

    _on_send_batch_message = _on_send_message_v2

    def _on_heart_beat(self, peer: Peer, command: Command) -> None:
        data = bodies.decode_heartbeat(command.body)
        self.peers[data.client_id] = peer
        for consumer in data.consumers:
            if data.client_id not in self.members[consumer.group]:
                self.members[consumer.group].append(data.client_id)
        peer.send(response(command, 0))

    def _on_unregister_client(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.UnregisterClient)
        if header.consumer_group is not None:
            members = self.members[header.consumer_group]
            if header.client_id in members:
                members.remove(header.client_id)
        peer.send(response(command, 0))

    def _on_get_consumer_list_by_group(self, peer: Peer, command: Command) -> None:
        members = self.members[command.header(headers.ConsumerGroupOnly).consumer_group]
        if members:
            peer.send(response(command, 0, body=[bodies.encode(ConsumerIds(members))]))
        else:
            self.refuse(peer, command, ResponseCode.SYSTEM_ERROR, "no consumer")

    def _on_query_consumer_offset(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.QueryConsumerOffset)
        offset = self.committed.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            self.refuse(peer, command, ResponseCode.QUERY_NOT_FOUND, "nothing committed")
        else:
            peer.send(response(command, 0, headers.OffsetAnswer(offset=offset)))

    def _on_update_consumer_offset(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.UpdateConsumerOffset)
        assert header.queue_id is not None
        assert header.commit_offset is not None
        key = header.consumer_group, header.topic, header.queue_id
        self.committed[key] = header.commit_offset
        peer.send(response(command, 0))

    def _on_get_max_offset(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.TopicQueue)
        offset = len(self.log[header.topic, header.queue_id])
        peer.send(response(command, 0, headers.OffsetAnswer(offset=offset)))

    def _on_get_min_offset(self, peer: Peer, command: Command) -> None:
        peer.send(response(command, 0, headers.OffsetAnswer(offset=0)))

    def _on_search_offset_by_timestamp(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.SearchOffset)
        stored = [record.decode(one) for one in self.log[header.topic, header.queue_id]]
        offset = sum(1 for one in stored if one.stored_at_ms < header.timestamp)
        peer.send(response(command, 0, headers.OffsetAnswer(offset=offset)))

    def _on_pull_message(self, peer: Peer, command: Command) -> None:
        self._pull(peer, command)

    _on_lite_pull_message = _on_pull_message

    def _pull(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.PullMessage)
        queue = self.log[header.topic, header.queue_id]
        found = queue[header.queue_offset : header.queue_offset + header.max_msg_nums]
        code = ResponseCode.SUCCESS
        if header.queue_offset > len(queue):
            code = ResponseCode.PULL_OFFSET_MOVED
        elif not found:
            if header.sys_flag & 2:
                self._held.append((peer, command))
                return
            code = ResponseCode.PULL_NOT_FOUND
        answer = headers.PullMessageAnswer(
            next_begin_offset=min(header.queue_offset, len(queue)) + len(found),
            min_offset=0,
            max_offset=len(queue),
        )
        peer.send(response(command, code, answer, body=found))

    def _on_lock_batch_mq(self, peer: Peer, command: Command) -> None:
        asked = bodies.decode_lock(command.body)
        granted = []
        for queue in asked.queues:
            key = asked.group, queue.topic, queue.queue_id
            if self.locked.setdefault(key, asked.client_id) == asked.client_id:
                granted.append(queue)
        peer.send(response(command, 0, body=[bodies.encode(LockedQueues(granted))]))

    def _on_unlock_batch_mq(self, peer: Peer, command: Command) -> None:
        asked = bodies.decode_lock(command.body)
        for queue in asked.queues:
            key = asked.group, queue.topic, queue.queue_id
            if self.locked.get(key) == asked.client_id:
                del self.locked[key]
        peer.send(response(command, 0))

    def _on_query_message(self, peer: Peer, command: Command) -> None:
        header = command.header(headers.QueryMessage)
        wanted = []
        for (topic, _), queue in self.log.items():
            for one in queue:
                found = record.decode(one)
                keys = (found.unique_key,) if header.is_unique_key else found.keys
                # as the index finds by hash, something else comes along
                if topic == header.topic and (header.key in keys or "collides" in found.keys):
                    wanted.append(one)
        if not wanted:
            self.refuse(peer, command, ResponseCode.QUERY_NOT_FOUND, "no message")
            return
        answer = headers.QueryMessageAnswer(
            index_last_update_timestamp=0, index_last_update_phyoffset=0
        )
        peer.send(response(command, 0, answer, body=wanted))

    def _on_view_message_by_id(self, peer: Peer, command: Command) -> None:
        offset = command.header(headers.ViewMessage).offset
        for queue in self.log.values():
            for one in queue:
                if record.decode(one).physical_offset == offset:
                    peer.send(response(command, 0, body=[one]))
                    return
        self.refuse(peer, command, ResponseCode.SYSTEM_ERROR, "no such offset")


class World:
    """A cluster, and what clients in the same virtual time need to reach it."""

    names = NAMES
    queue = staticmethod(lambda queue_id, topic="t": MessageQueue(topic, "b", queue_id))

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.clock = LoopClock()
        self.reach: dict[str, Any] = {
            "clock": self.clock,
            "connect": self.cluster.network.connect,
        }

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the cluster, run a test in virtual time, stop the cluster."""

        async def whole() -> None:
            await self.cluster.start()
            await main()
            await self.cluster.stop()

        virtual_time.run(whole())

    def instance(self, **settings: Any) -> ClientInstance:
        """Return what all clients have, for tests of a part; close it."""
        return ClientInstance(NAMES, ClientSettings(**settings), **self.reach)

    def encoded(self, **pairs: str) -> bytes:
        """Return properties as records hold them."""
        return properties.encode(pairs)

    def hold(self, code: RequestCode) -> Callable[[], None]:
        """Answer no request of a code; return what answers those that came, and all later ones."""
        usual, held = self.cluster.usual(code), []
        self.cluster.on[code] = lambda *asked: held.append(asked)

        def release() -> None:
            del self.cluster.on[code]
            for peer, command in held:
                usual(peer, command)

        return release

    async def until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        """Let time pass until something holds; fail if it does not within a time."""
        deadline = self.clock.monotonic() + seconds
        while not holds():
            assert self.clock.monotonic() < deadline, "it did not come to hold"
            await asyncio.sleep(0.01)


@pytest.fixture
def world() -> World:
    """Return a fresh cluster."""
    return World()


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Keep the log out of failing tests: tracebacks with locals bury what matters."""
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
