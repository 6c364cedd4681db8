"""The NameServer's requests about brokers: what they say of themselves, and what tools do to them.

Codes 103, 104, 205, 216, 217, 322, 327 and 904.

Source: RocketMQ `DefaultRequestProcessor` of the NameServer.
"""

from sprocket.base.checksum import crc31
from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.bodies import broker_bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
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
from sprocket.rocketmq.remoting import Answer, Handler
from sprocket.rocketmq.server.watch import Watch
from sprocket.runtime.driver import Peer


class NameHandlers:
    """Registrations in, and what changes the routes by hand."""

    def __init__(
        self, routes: RouteTables, key_values: KeyValues, config: NameServerConfig
    ) -> None:
        self._routes = routes
        self._key_values = key_values
        self._config = config
        self._watch = Watch(routes.drop)

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.BROKER_HEARTBEAT: self.heartbeat,
            RequestCode.QUERY_DATA_VERSION: self.compare,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
        }

    def register(self, peer: Peer, request: Command) -> Answer:
        """Take in what a broker says of itself; it learns its master and the order of topics."""
        header = request.header(RegisterBroker)
        if header.body_crc32 != 0 and header.body_crc32 != crc31(request.body):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        body = tables.decode_register_broker(
            request.body, compressed=header.compressed, version=request.version
        )
        self._watch(peer)
        registered = self._routes.register(peer, header, body)
        order = None
        if self._config.now.order_conf_to_brokers:
            order = self._key_values.namespace(ORDER_NAMESPACE)
        return Answer(
            header=RegisterBrokerAnswer(
                ha_server_addr=registered.ha_server_addr, master_addr=registered.master_addr
            ),
            body=() if order is None else (broker_bodies.encode_key_values(order),),
        )

    def unregister(self, _: Peer, request: Command) -> Answer:
        """Forget a broker that unregisters."""
        header = request.header(UnregisterBroker)
        self._routes.unregister(header.broker_name, header.cluster_name, header.broker_addr)
        return Answer()

    def heartbeat(self, _: Peer, request: Command) -> Answer:
        """Believe in a broker for longer."""
        header = request.header(BrokerHeartbeat)
        self._routes.refresh(header.cluster_name, header.broker_addr)
        return Answer()

    def compare(self, _: Peer, request: Command) -> Answer:
        """Answer whether a broker has to register again, and the version that is known."""
        header = request.header(QueryDataVersion)
        version = broker_bodies.decode_version(request.body) if request.body else None
        found = self._routes.compare(header.cluster_name, header.broker_addr, version)
        return Answer(
            header=QueryDataVersionAnswer(changed=found.has_changed),
            body=() if found.known is None else (broker_bodies.encode_version(found.known),),
        )

    def wipe(self, _: Peer, request: Command) -> Answer:
        """Stop producers from choosing a broker."""
        name = request.header(BrokerNameOnly).broker_name
        return Answer(header=WipeAnswer(wipe_topic_count=self._routes.wipe_write_permission(name)))

    def add(self, _: Peer, request: Command) -> Answer:
        """Let producers choose a broker again."""
        name = request.header(BrokerNameOnly).broker_name
        return Answer(header=AddAnswer(add_topic_count=self._routes.add_write_permission(name)))

    def delete_topic(self, _: Peer, request: Command) -> Answer:
        """Forget a topic."""
        header = request.header(DeleteTopicInNames)
        self._routes.delete_topic(header.topic, header.cluster_name)
        return Answer()

    def register_topic(self, _: Peer, request: Command) -> Answer:
        """Take in queues of one topic."""
        header = request.header(RegisterTopic)
        if request.body and header.topic is not None:
            self._routes.put_queues(header.topic, broker_bodies.decode_route(request.body).queues)
        return Answer()
