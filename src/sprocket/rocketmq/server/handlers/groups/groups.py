"""Requests about groups: 200, 201, 203, 204, 207, 225, 328, 352 and 353."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from sprocket.base.clock import Clock
from sprocket.rocketmq.broker.admin import Removal
from sprocket.rocketmq.broker.groups import ClientManager, ConnectedClient, Groups, Link
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ClientConnection,
    ConsumerConnection,
    GroupTable,
    Permission,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import (
    ConsumerGroupOnly,
    DeleteGroup,
    GroupForbidden,
    GroupOnly,
    NoFields,
    ProducerConnections,
)
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, body, row, sliced_row
from sprocket.runtime.slices import Sliced, Slices
from sprocket.runtime.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class GroupHandlers:
    """How groups are set up, and who is in them."""

    _groups: Groups
    _members: ClientManager
    _removal: Removal
    _clock: Clock
    _snapshots: Snapshots

    def rows(self, slices: Slices) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, NoFields, self.put),
            row(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, NoFields, self.put_all),
            row(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroup, self.delete),
            row(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupOnly, self.config),
            row(RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupOnly, self.consumers),
            row(RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerConnections, self.producers),
            row(RequestCode.GET_ALL_PRODUCER_INFO, NoFields, self.all_producers),
            row(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, GroupForbidden, self.forbid),
            sliced_row(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, NoFields, self.all, slices),
        ]

    def put(self, request: Request, _header: NoFields) -> None:
        """Make or change a group; RocketMQ takes any name here, an empty one too."""
        self._groups.put([bodies.decode_group(request.body)])
        self._snapshots.when_durable(request.done)

    def put_all(self, request: Request, _header: NoFields) -> None:
        """Make or change groups, all of them or none."""
        self._groups.put(bodies.decode_groups(request.body))
        self._snapshots.when_durable(request.done)

    def delete(self, request: Request, header: DeleteGroup) -> None:
        """Delete a group; one that is not there is a success."""
        self._removal.delete_group(header.group_name, clean_offset=header.clean_offset)
        self._snapshots.when_durable(request.done)

    def all(self, _: Request, _header: NoFields) -> Sliced[Answer]:
        """Answer the whole table."""
        table = GroupTable(
            version=self._groups.table.version,
            groups=list(self._groups.all()),
            forbidden=self._groups.forbidden,
        )
        return Answer(body=(yield from body(bodies.encode_pieces(table))))

    def config(self, _: Request, header: GroupOnly) -> Answer:
        """Answer how a group is set up; one that may be made is made."""
        group = self._groups.find(header.group)
        return Answer(body=(bodies.encode(group),))

    def consumers(self, _: Request, header: ConsumerGroupOnly) -> Answer:
        """Answer who consumes in a group, and what."""
        name = header.consumer_group
        group = self._members.consumers(name)
        if not group.clients:
            raise Refused(Refusal.NO_CONSUMER, f"the consumer group[{name}] not online")
        found = ConsumerConnection(
            connections=_connections(group.clients.items()),
            subscriptions=list(group.subscriptions.values()),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return Answer(body=(bodies.encode(found),))

    def producers(self, _: Request, header: ProducerConnections) -> Answer:
        """Answer who produces in a group."""
        name = header.producer_group
        clients = self._members.producers(name)
        if not clients:
            raise Refused(Refusal.OTHER, f"the producer group[{name}] not exist")
        found = _connections(clients.items())
        return Answer(body=(bodies.encode(ProducerConnection(found)),))

    def all_producers(self, _: Request, _header: NoFields) -> Answer:
        """Answer every producer by group."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        found = {
            group: [
                ProducerInfo(
                    client_id=client.client_id,
                    address=link.address,
                    language=client.language,
                    version=client.version,
                    claimed_by=link.proxy_address or None,
                    seen_at_ms=now_ms - round(1000 * (now - client.seen)),
                )
                for link, client in self._members.producers(group).items()
            ]
            for group in self._members.producer_groups()
        }
        return Answer(body=(bodies.encode(ProducerTable(found)),))

    def forbid(self, request: Request, header: GroupForbidden) -> None:
        """Open or close a topic to a group, if asked to, and answer how it is, durably."""
        if header.readable is not None:
            self._groups.forbid(header.group, header.topic, is_readable=header.readable)
        is_readable = not self._groups.is_forbidden(header.group, header.topic)
        found = Permission(group=header.group, topic=header.topic, is_readable=is_readable)
        said = Answer(remark="", body=(bodies.encode(found),))  # as RocketMQ has it
        self._snapshots.when_durable(partial(request.done, what=said))


def _connections(clients: Iterable[tuple[Link, ConnectedClient]]) -> list[ClientConnection]:
    return [
        ClientConnection(
            client_id=client.client_id,
            address=link.address,
            language=client.language,
            version=client.version,
            claimed_by=link.proxy_address or None,
        )
        for link, client in clients
    ]
