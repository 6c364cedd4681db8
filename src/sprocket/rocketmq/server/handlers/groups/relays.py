"""What administrators ask of consumers through their broker: 223, 307 and 309.

The broker finds the consumer's connection, passes the question on and gives back what it answers.

Source: RocketMQ `AdminBrokerProcessor.callConsumer`, `Broker2Client.getConsumeStatus`.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sprocket.base.disk import Buffer
from sprocket.base.errors import ClientError, RequestTimeout, WireError
from sprocket.rocketmq.broker.groups import ClientManager, ConnectedGroup, Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ConsumerStatus,
    DirectOutcome,
    DirectResult,
    RunningInfo,
)
from sprocket.rocketmq.codec.codes import NOT_SET, RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.headers import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    GetConsumerStatus,
)
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.rights import Action
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.remoting import Channels
from sprocket.rocketmq.server.client_links import CalledClient, ClientAnswer
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer

RELAY_SECONDS = 10.0
STATUS_SECONDS = 5.0
"""How long consumers may take, RocketMQ's limits."""

RELAY_VERSION_MIN = 62
"""3.1.8: older clients do not know what they are asked."""


@dataclass(frozen=True, slots=True)
class RelayHandlers:
    """Questions on their way to consumers, with what the broker knows of group and topic."""

    _members: ClientManager
    _topics: Topics
    _groups: Groups
    _store: Store
    _channels: Channels
    _broker_name: str

    def rows(self, reads: ColdReads) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningInfo, self.running_info),
            row(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeMessageDirectly, self.consume, reads),
            row(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, GetConsumerStatus, self.status),
        ]

    def running_info(self, request: Request, header: GetConsumerRunningInfo) -> None:
        """Have a consumer say what it is doing."""
        called = self._called(header.consumer_group, header.client_id)
        if called is not None:
            called.ask_threads(partial(_threads, request))
            return
        consumer = self._consumer(header.consumer_group, header.client_id)
        self._relay(request, consumer, header)

    def consume(self, request: Request, header: ConsumeMessageDirectly) -> None:
        """Have a consumer's listener try one message."""
        called = self._called(header.consumer_group, header.client_id or "")
        consumer = None
        if called is None:
            consumer = self._consumer(header.consumer_group, header.client_id or "")
        stored = self._message(header.msg_id)
        if request.command.signer is not None:
            request.check_topic(record.decode(stored).topic, Action.SUB)
        if called is not None:
            called.ask_to_consume(record.decode(stored), partial(_consumed, request))
            return
        assert consumer is not None
        topic = None if header.topic is None else self._topics.get(header.topic)
        group = self._groups.get(header.consumer_group)
        passed_on = ConsumeMessageDirectly(
            consumer_group=header.consumer_group,
            client_id=header.client_id,
            msg_id=header.msg_id,
            broker_name=self._broker_name,
            topic=header.topic,
            topic_sys_flag=None if topic is None else topic.sys_flag,
            group_sys_flag=None if group is None else group.sys_flag,
        )
        self._relay(request, consumer, passed_on, stored)

    def status(self, request: Request, header: GetConsumerStatus) -> None:
        """Have the members of a group say where they are in a topic."""
        members = _peers_by_id(self._members.consumers(header.group))
        if not members:
            raise Refused(Refusal.OTHER, f"no consumer of group [{header.group}] is online")
        if header.client_addr:
            members = {name: one for name, one in members.items() if name == header.client_addr}
        statuses: dict[str, Mapping[MessageQueue, int]] = {}
        waiting = set(members)

        def noted(client_id: str, found: Command | None, _: ClientError | None) -> None:
            waiting.discard(client_id)
            if found is not None and found.code == ResponseCode.SUCCESS:
                with suppress(WireError):  # as if it had not answered
                    statuses[client_id] = bodies.decode_request(ConsumerStatus, found.body).offsets
            if not waiting:
                done()

        def done() -> None:
            body = bodies.encode(ConsumerStatus(clients=statuses))
            request.answer(Answer(remark=NOT_SET, body=(body,)))

        question = GetConsumerStatus(topic=header.topic, group=header.group)
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        for name, member in members.items():
            self._channels.call(member, code, question, b"", STATUS_SECONDS, partial(noted, name))
        if not members:
            done()

    def _called(self, group_name: str, client_id: str) -> CalledClient | None:
        """Return a consumer that speaks gRPC, None if there is none of this id."""
        clients = self._members.consumers(group_name).clients
        return next(
            (
                link
                for link, client in clients.items()
                if isinstance(link, CalledClient) and client.client_id == client_id
            ),
            None,
        )

    def _consumer(self, group_name: str, client_id: str) -> Peer:
        """Return a consumer's connection.

        Raises:
            Refused: It is not there, or too old to be asked.
        """
        group = self._members.consumers(group_name)
        found = _peers_by_id(group).get(client_id)
        if found is None:
            raise Refused(Refusal.OTHER, f"The Consumer <{group_name}> <{client_id}> not online")
        version = group.clients[found].version
        if version < RELAY_VERSION_MIN:
            raise Refused(
                Refusal.OTHER,
                f"The Consumer <{client_id}> Version <{version}> too low to finish, please upgrade "
                "it to V3_1_8_SNAPSHOT",
            )
        return found

    def _message(self, message_id: str | None) -> memoryview:
        """Return the message with an offset id. Raises Refused."""
        try:
            stored = self._store.find_by_id(message_id or "")
        except WireError as error:
            raise Refused(Refusal.OTHER, str(error)) from error
        if stored is None:
            raise Refused(Refusal.OTHER, f"no message of this broker has the id {message_id}")
        return stored

    def _relay(self, request: Request, consumer: Peer, header: Header, body: Buffer = b"") -> None:
        def done(found: Command | None, error: ClientError | None) -> None:
            if found is not None:
                answer = Answer(found.code, None, found.remark, (found.body,), found.ext_map())
            elif isinstance(error, RequestTimeout):
                remark = f"the consumer was asked: {error}"
                answer = Answer(ResponseCode.CONSUME_MSG_TIMEOUT, None, remark)
            else:
                remark = f"the consumer could not be asked: {error}"
                answer = Answer(ResponseCode.SYSTEM_ERROR, None, remark)
            request.answer(answer)

        self._channels.call(consumer, request.command.code, header, body, RELAY_SECONDS, done)


def _threads(request: Request, said: ClientAnswer | None) -> None:
    """Answer what the threads of an SDK are at."""
    if said is None:
        request.answer(_silent())
        return
    found = RunningInfo(properties={}, stacks=said.text)
    request.answer(Answer(body=(bodies.encode(found),)))


def _consumed(request: Request, said: ClientAnswer | None) -> None:
    """Answer what the listener of an SDK made of a message."""
    if said is None:
        request.answer(_silent())
        return
    result: DirectResult = "CR_SUCCESS" if said.is_success else "CR_THROW_EXCEPTION"
    remark = "" if said.is_success else said.text
    outcome = DirectOutcome(result=result, remark=remark)
    request.answer(Answer(body=(bodies.encode(outcome),)))


def _silent() -> Answer:
    remark = "the consumer was asked, and says nothing: it is gone, or does not know the question"
    return Answer(ResponseCode.CONSUME_MSG_TIMEOUT, None, remark)


def _peers_by_id(group: ConnectedGroup) -> dict[str, Peer]:
    """Return the connections of a group's members by client id."""
    return {
        client.client_id: link for link, client in group.clients.items() if isinstance(link, Peer)
    }
