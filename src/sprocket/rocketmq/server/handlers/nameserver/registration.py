"""The NameServer's requests about brokers: what they say of themselves, and what tools do to them.

Codes 103, 104, 205, 216, 217, 322, 327 and 904.

Source: RocketMQ `DefaultRequestProcessor` of the NameServer.
"""

from dataclasses import dataclass

from sprocket.base.checksum import crc31
from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.bodies import broker_bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.config import tables
from sprocket.rocketmq.codec.headers import (
    AddAnswer,
    BrokerHeartbeat,
    BrokerNameOnly,
    DeleteTopicInNames,
    QueryDataVersion,
    QueryDataVersionAnswer,
    RegisterBroker,
    RegisterBrokerAnswer,
    RegisterTopic,
    UnregisterBroker,
    WipeAnswer,
)
from sprocket.rocketmq.nameserver.config import NameServerConfig
from sprocket.rocketmq.nameserver.key_values import ORDER_NAMESPACE, KeyValues
from sprocket.rocketmq.nameserver.routes import RouteTables
from sprocket.rocketmq.remoting import Answer, Request, Row, row


@dataclass(frozen=True, slots=True)
class NameHandlers:
    """Registrations in, and what changes the routes by hand."""

    _routes: RouteTables
    _key_values: KeyValues
    _config: NameServerConfig

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.REGISTER_BROKER, RegisterBroker, self.register),
            row(RequestCode.UNREGISTER_BROKER, UnregisterBroker, self.unregister),
            row(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeat, self.heartbeat),
            row(RequestCode.QUERY_DATA_VERSION, QueryDataVersion, self.compare),
            row(RequestCode.WIPE_WRITE_PERM_OF_BROKER, BrokerNameOnly, self.wipe),
            row(RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNameOnly, self.add),
            row(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNames, self.delete_topic),
            row(RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopic, self.register_topic),
        ]

    def register(self, request: Request, header: RegisterBroker) -> Answer:
        """Take in what a broker says of itself; it learns its master and the order of topics."""
        if header.body_crc32 != 0 and header.body_crc32 != crc31(request.body):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        body = tables.decode_register_broker(
            request.body, compressed=header.compressed, version=request.command.version
        )
        request.peer.when_closed(self._routes.drop)
        registered = self._routes.register(request.peer, header, body)
        order = None
        if self._config.now.order_conf_to_brokers:
            order = self._key_values.namespace(ORDER_NAMESPACE)
        return Answer(
            header=RegisterBrokerAnswer(
                ha_server_addr=registered.ha_server_addr, master_addr=registered.master_addr
            ),
            body=() if order is None else (broker_bodies.encode_key_values(order),),
        )

    def unregister(self, _: Request, header: UnregisterBroker) -> Answer:
        """Forget a broker that unregisters."""
        self._routes.unregister(header.broker_name, header.cluster_name, header.broker_addr)
        return Answer()

    def heartbeat(self, _: Request, header: BrokerHeartbeat) -> Answer:
        """Believe in a broker for longer."""
        self._routes.refresh(header.cluster_name, header.broker_addr)
        return Answer()

    def compare(self, request: Request, header: QueryDataVersion) -> Answer:
        """Answer whether a broker has to register again, and the version that is known."""
        version = broker_bodies.decode_version(request.body) if request.body else None
        found = self._routes.compare(header.cluster_name, header.broker_addr, version)
        return Answer(
            header=QueryDataVersionAnswer(changed=found.has_changed),
            body=() if found.known is None else (broker_bodies.encode_version(found.known),),
        )

    def wipe(self, _: Request, header: BrokerNameOnly) -> Answer:
        """Stop producers from choosing a broker."""
        name = header.broker_name
        return Answer(header=WipeAnswer(wipe_topic_count=self._routes.wipe_write_permission(name)))

    def add(self, _: Request, header: BrokerNameOnly) -> Answer:
        """Let producers choose a broker again."""
        name = header.broker_name
        return Answer(header=AddAnswer(add_topic_count=self._routes.add_write_permission(name)))

    def delete_topic(self, _: Request, header: DeleteTopicInNames) -> Answer:
        """Forget a topic."""
        self._routes.delete_topic(header.topic, header.cluster_name)
        return Answer()

    def register_topic(self, request: Request, header: RegisterTopic) -> Answer:
        """Take in queues of one topic."""
        if request.body and header.topic is not None:
            self._routes.put_queues(header.topic, broker_bodies.decode_route(request.body).queues)
        return Answer()
