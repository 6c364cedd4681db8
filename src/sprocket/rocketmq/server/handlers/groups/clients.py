"""Requests by which clients are known: 34, 35, 38, 46, and the queue locks 41 and 42."""

from collections.abc import Callable
from dataclasses import dataclass

from sprocket.rocketmq.broker.delivery import PullService
from sprocket.rocketmq.broker.filters import FilterTurns
from sprocket.rocketmq.broker.groups import (
    ClientManager,
    Groups,
    Link,
    QueueLocks,
    make_group_of,
)
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import bodies, command
from sprocket.rocketmq.codec.bodies import ClientCheck, ConsumerIds, LockedQueues
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import (
    ConsumerGroupOnly,
    HeartbeatAnswer,
    NoFields,
    UnregisterClient,
)
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.runtime.driver import Peer


@dataclass(frozen=True, slots=True)
class ClientHandlers:
    """Who is there, and who consumes what alone."""

    _members: ClientManager
    _groups: Groups
    _topics: Topics
    _locks: QueueLocks
    _puller: PullService
    _turns: FilterTurns
    _left: Callable[[Peer], None]

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.HEART_BEAT, NoFields, self.heartbeat),
            row(RequestCode.UNREGISTER_CLIENT, UnregisterClient, self.unregister),
            row(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupOnly, self.consumers),
            row(RequestCode.CHECK_CLIENT_CONFIG, NoFields, self.check),
            row(RequestCode.LOCK_BATCH_MQ, NoFields, self.lock),
            row(RequestCode.UNLOCK_BATCH_MQ, NoFields, self.unlock),
        ]

    def heartbeat(self, request: Request, _header: NoFields) -> Answer:
        """Note a client's groups; each consumer group gets its retry topic."""
        data = bodies.decode_heartbeat(request.body)
        request.peer.when_closed(self._left)
        consumers = [
            one for one in data.consumers if make_group_of(one, self._groups, self._topics)
        ]
        has_changed = self._members.heartbeat(
            request.peer, data, request.command.language, request.command.version, consumers
        )
        return Answer(header=HeartbeatAnswer(has_changed=has_changed))

    def unregister(self, request: Request, header: UnregisterClient) -> Answer:
        """Take a client out of the groups it names."""
        self._members.unregister(request.peer, header.producer_group, header.consumer_group)
        return Answer(header=NoFields())

    def consumers(self, _: Request, header: ConsumerGroupOnly) -> Answer:
        """Answer the ids of a group's consumers."""
        name = header.consumer_group
        client_ids = self._members.consumers(name).client_ids()
        if not client_ids:
            raise Refused(Refusal.OTHER, f"no consumer for this group, {name}")
        body = bodies.encode(ConsumerIds(client_ids))
        return Answer(header=NoFields(), body=(body,))

    def check(self, request: Request, _header: NoFields) -> Answer | None:
        """Say whether the broker can filter as a consumer wants."""
        if not request.body:
            return Answer()  # nothing that could fail
        subscription = bodies.decode_request(ClientCheck, request.body).subscription

        def work() -> None:
            self._puller.check_filter(subscription)
            request.answer(Answer())

        self._turns.run(work, request.fail)
        return None

    def lock(self, request: Request, _header: NoFields) -> Answer:
        """Give a client the queues that nobody else holds."""
        wanted = bodies.decode_lock(request.body)
        held = self._locks.lock(wanted.group, wanted.client_id, wanted.queues)
        return Answer(body=(bodies.encode(LockedQueues(held)),))

    def unlock(self, request: Request, _header: NoFields) -> Answer:
        """Take queues back from a client."""
        wanted = bodies.decode_lock(request.body, is_group_needed=True)
        self._locks.unlock(wanted.group, wanted.client_id, wanted.queues)
        return Answer()


def notify_ids_changed(link: Link, group: str) -> None:
    """Tell one consumer that its group has changed; it shares the queues anew."""
    assert isinstance(link, Peer)
    assert isinstance(link.connection, Connection)
    link.send(
        command.request(
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
            link.connection.next_opaque(),
            ConsumerGroupOnly(consumer_group=group),
            oneway=True,
        )
    )
