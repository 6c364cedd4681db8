"""Requests about groups: 200, 201, 203, 204, 207, 225, 328 and 352."""

from collections.abc import Callable, Iterable

from sprocket.base.clock import Clock
from sprocket.base.errors import RequestRefused, StoreError
from sprocket.rocketmq.broker.admin import Removal
from sprocket.rocketmq.broker.groups import ClientManager, ConnectedClient, Groups, Link
from sprocket.rocketmq.codec.bodies import (
    ClientConnection,
    ConsumerConnection,
    GroupTable,
    ProducerInfo,
    group_bodies,
)
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import (
    ConsumerConnections,
    DeleteGroup,
    GroupOnly,
    ProducerConnections,
)
from sprocket.rocketmq.remoting import Answer, Handler, answering
from sprocket.rocketmq.server.slicing import SlicedHandler, body
from sprocket.runtime.driver import Peer
from sprocket.runtime.slices import Sliced


class GroupHandlers:
    """How groups are set up, and who is in them."""

    def __init__(
        self,
        groups: Groups,
        members: ClientManager,
        removal: Removal,
        clock: Clock,
        when_durable: Callable[[Callable[[StoreError | None], None]], None],
    ) -> None:
        self._groups = groups
        self._members = members
        self._removal = removal
        self._clock = clock
        self._when_durable = when_durable

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.put_all,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.config,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
        }

    def sliced_table(self) -> dict[int, SlicedHandler]:
        """Return the handler of the code that is answered in slices."""
        return {RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all}

    def put(self, peer: Peer, request: Command) -> None:
        """Make or change a group; RocketMQ takes any name here, an empty one too."""
        self._groups.put([group_bodies.decode_group(request.body)])
        self._when_durable(answering(peer, request))

    def put_all(self, peer: Peer, request: Command) -> None:
        """Make or change groups, all of them or none."""
        self._groups.put(group_bodies.decode_group_list(request.body))
        self._when_durable(answering(peer, request))

    def delete(self, peer: Peer, request: Command) -> None:
        """Delete a group; one that is not there is a success."""
        header = request.header(DeleteGroup)
        self._removal.delete_group(header.group_name, clean_offset=header.clean_offset)
        self._when_durable(answering(peer, request))

    def all(self, _: Peer, _request: Command) -> Sliced[Answer]:
        """Answer the whole table."""
        table = GroupTable(
            version=self._groups.version,
            groups=list(self._groups.all()),
            forbidden=self._groups.forbidden,
        )
        return Answer(body=(yield from body(group_bodies.group_table_pieces(table))))

    def config(self, _: Peer, request: Command) -> Answer:
        """Answer how a group is set up; one that may be made is made."""
        group = self._groups.find(request.header(GroupOnly).group)
        return Answer(body=(group_bodies.encode_group(group),))

    def consumers(self, _: Peer, request: Command) -> Answer:
        """Answer who consumes in a group, and what."""
        name = request.header(ConsumerConnections).consumer_group
        group = self._members.consumers(name)
        if group is None or not group.clients:
            raise RequestRefused(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online"
            )
        found = ConsumerConnection(
            connections=_connections(group.clients.items()),
            subscriptions=list(group.subscriptions.values()),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return Answer(body=(group_bodies.encode_consumer_connection(found),))

    def producers(self, _: Peer, request: Command) -> Answer:
        """Answer who produces in a group."""
        name = request.header(ProducerConnections).producer_group
        clients = self._members.producers(name)
        if not clients:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        found = _connections(clients.items())
        return Answer(body=(group_bodies.encode_producer_connection(found),))

    def all_producers(self, _: Peer, _request: Command) -> Answer:
        """Answer every producer by group."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        found = {
            group: [
                ProducerInfo(
                    client_id=client.client_id,
                    address=link.address,
                    language=client.language,
                    version=client.version,
                    seen_at_ms=now_ms - round(1000 * (now - client.seen)),
                )
                for link, client in self._members.producers(group).items()
            ]
            for group in self._members.producer_groups()
        }
        return Answer(body=(group_bodies.encode_producers(found),))


def _connections(clients: Iterable[tuple[Link, ConnectedClient]]) -> list[ClientConnection]:
    return [
        ClientConnection(
            client_id=client.client_id,
            address=link.address,
            language=client.language,
            version=client.version,
        )
        for link, client in clients
    ]
