"""The NameServer's requests: 103 to 106 and 206."""

from sprocket.base.checksum import crc31
from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec import bodies, tables
from sprocket.rocketmq.codec.codes import (
    STANDARD_JSON_VERSION,
    RequestCode,
    ResponseCode,
)
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import (
    GetRoute,
    RegisterBroker,
    RegisterBrokerAnswer,
    UnregisterBroker,
)
from sprocket.rocketmq.nameserver.routes import Routes
from sprocket.rocketmq.server.dispatch import Answer, Handler
from sprocket.rocketmq.server.watch import Watch
from sprocket.runtime.driver import Peer


class NameHandlers:
    """Registrations in, routes out."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._watch = Watch(routes.drop)

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.topics,
        }

    def register(self, peer: Peer, request: Command) -> Answer:
        """Take in what a broker says of itself."""
        header = request.header(RegisterBroker)
        if header.body_crc32 != 0 and header.body_crc32 != crc31(request.body):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        body = tables.decode_register_broker(
            request.body, compressed=header.compressed, version=request.version
        )
        self._watch(peer)
        registered = self._routes.register(peer, header, body.version, body.topics)
        return Answer(
            header=RegisterBrokerAnswer(
                ha_server_addr=registered.ha_server_addr, master_addr=registered.master_addr
            ),
        )

    def unregister(self, _: Peer, request: Command) -> Answer:
        """Forget a broker that takes its leave."""
        header = request.header(UnregisterBroker)
        self._routes.unregister(header.broker_name, header.cluster_name, header.broker_addr)
        return Answer()

    def route(self, _: Peer, request: Command) -> Answer:
        """Answer where a topic lies: in strict JSON to those who can ask for it."""
        header = request.header(GetRoute)
        route = self._routes.route(header.topic)
        is_strict = header.accept_standard_json_only or request.version >= STANDARD_JSON_VERSION
        return Answer(body=(bodies.encode_route(route, standard=is_strict),))

    def cluster(self, _: Peer, request: Command) -> Answer:
        """Answer every broker and its cluster."""
        info = bodies.encode_cluster_info(
            self._routes.cluster_info(), standard=request.version >= STANDARD_JSON_VERSION
        )
        return Answer(body=(info,))

    def topics(self, _: Peer, _request: Command) -> Answer:
        """Answer the name of every topic."""
        names = bodies.encode_topic_list(self._routes.topics())
        return Answer(body=(names,))
