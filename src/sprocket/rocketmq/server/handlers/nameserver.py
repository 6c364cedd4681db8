"""The NameServer's requests: what brokers tell it, what clients and tools ask.

About brokers 103, 104, 205, 216, 217, 322, 327 and 904; routes, clusters, members and lists of
topics 105, 106, 206, 224, 304, 311 to 313 and 901; key-value pairs and its own settings 100 to 102,
219, 318 and 319.

Source: RocketMQ `DefaultRequestProcessor` and `ClientRequestProcessor` of the NameServer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from sprocket.base.checksum import crc31
from sprocket.rocketmq.codec import bodies, registration_body
from sprocket.rocketmq.codec.bodies import KeyValueTable, MemberGroup, MemberGroups, TopicNames
from sprocket.rocketmq.codec.codes import NOT_SET, STANDARD_JSON_VERSION, RequestCode
from sprocket.rocketmq.codec.config import DataVersion, java_properties
from sprocket.rocketmq.codec.headers import (
    AddAnswer,
    BrokerHeartbeat,
    BrokerNameOnly,
    ClusterOnly,
    DeleteTopicInNames,
    GetMembers,
    GetRoute,
    Key,
    KeyValue,
    Namespace,
    NoFields,
    QueryDataVersion,
    QueryDataVersionAnswer,
    RegisterBroker,
    RegisterBrokerAnswer,
    RegisterTopic,
    UnregisterBroker,
    ValueAnswer,
    WipeAnswer,
)
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.live_settings import LiveSettings
from sprocket.rocketmq.model.route import TopicRoute
from sprocket.rocketmq.nameserver import (
    ORDER_NAMESPACE,
    BrokerRegistration,
    KeyValues,
    Lookup,
    RouteTables,
)
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row


@dataclass(frozen=True, slots=True)
class NameServerHandlers:
    """Registrations in, routes and lists out, and what tools keep here."""

    _routes: RouteTables
    _lookup: Lookup
    _key_values: KeyValues
    _settings: LiveSettings

    def rows(self) -> list[Row]:
        """Return the table."""
        units, subscribed = self._lookup.unit_topics, self._lookup.unit_subscription_topics
        only = partial(subscribed, without_units=True)
        return [
            row(RequestCode.REGISTER_BROKER, RegisterBroker, self.register),
            row(RequestCode.UNREGISTER_BROKER, UnregisterBroker, self.unregister),
            row(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeat, self.heartbeat),
            row(RequestCode.QUERY_DATA_VERSION, QueryDataVersion, self.compare),
            row(RequestCode.WIPE_WRITE_PERM_OF_BROKER, BrokerNameOnly, self.wipe),
            row(RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNameOnly, self.add),
            row(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNames, self.delete_topic),
            row(RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopic, self.register_topic),
            row(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute, self.route),
            row(RequestCode.GET_BROKER_CLUSTER_INFO, NoFields, self.cluster),
            row(RequestCode.GET_BROKER_MEMBER_GROUP, GetMembers, self.members),
            row(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NoFields, self.topics),
            row(RequestCode.GET_TOPICS_BY_CLUSTER, ClusterOnly, self.topics_of_cluster),
            row(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, NoFields, self.system_topics),
            row(RequestCode.GET_UNIT_TOPIC_LIST, NoFields, self._listed(units)),
            row(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, NoFields, self._listed(subscribed)),
            row(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, NoFields, self._listed(only)),
            row(RequestCode.PUT_KV_CONFIG, KeyValue, self.put),
            row(RequestCode.GET_KV_CONFIG, Key, self.get),
            row(RequestCode.DELETE_KV_CONFIG, Key, self.delete),
            row(RequestCode.GET_KVLIST_BY_NAMESPACE, Namespace, self.namespace),
            row(RequestCode.UPDATE_NAMESRV_CONFIG, NoFields, self.update),
            row(RequestCode.GET_NAMESRV_CONFIG, NoFields, self.config),
        ]

    def register(self, request: Request, header: RegisterBroker) -> Answer:
        """Take in what a broker says of itself; it learns its master and the order of topics."""
        if header.body_crc32 != 0 and header.body_crc32 != crc31(request.body):
            raise Refused(Refusal.OTHER, "crc32 not match")
        body = registration_body.decode(
            request.body, compressed=header.compressed, version=request.command.version
        )
        request.peer.when_closed(self._routes.drop)
        registration = BrokerRegistration(
            name=header.broker_name,
            cluster=header.cluster_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            ha_server_addr=header.ha_server_addr,
            version=body.version,
            topics=body.topics,
            timeout_ms=header.heartbeat_timeout_millis,
            enable_acting_master=header.enable_acting_master,
            zone=header.zone_name,
            filter_servers=body.filter_servers,
        )
        registered = self._routes.register(request.peer, registration)
        order = None
        if self._settings.now.nameserver.order_conf_to_brokers:
            order = self._key_values.namespace(ORDER_NAMESPACE)
        return Answer(
            header=RegisterBrokerAnswer(
                ha_server_addr=registered.ha_server_addr, master_addr=registered.master_addr
            ),
            body=() if order is None else (bodies.encode(KeyValueTable(order)),),
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
        version = bodies.decode_request(DataVersion, request.body) if request.body else None
        found = self._routes.compare(header.cluster_name, header.broker_addr, version)
        return Answer(
            header=QueryDataVersionAnswer(changed=found.has_changed),
            body=() if found.known is None else (bodies.encode(found.known),),
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
            self._routes.put_queues(header.topic, bodies.decode(TopicRoute, request.body).queues)
        return Answer()

    def route(self, request: Request, header: GetRoute) -> Answer:
        """Answer where a topic lies: in strict JSON to those who can ask for it."""
        zone = header.zone_name if header.zone_mode and header.zone_name else None
        route = self._lookup.route(header.topic, zone=zone)
        is_strict = header.accept_standard_json_only or _is_new(request)
        return Answer(body=(bodies.encode(route, quoted=is_strict),))

    def cluster(self, request: Request, _header: NoFields) -> Answer:
        """Answer every broker and its cluster."""
        info = self._lookup.cluster_info()
        return Answer(body=(bodies.encode(info, quoted=_is_new(request)),))

    def members(self, request: Request, header: GetMembers) -> Answer:
        """Answer the processes of one broker name."""
        name = header.broker_name
        addresses = {} if name is None else self._lookup.members(name)
        group = MemberGroup(addresses=addresses, cluster=header.cluster_name, name=name)
        body = bodies.encode(MemberGroups(group), quoted=_is_new(request))
        return Answer(remark=NOT_SET, body=(body,))

    def topics(self, _: Request, _header: NoFields) -> Answer:
        """Answer the name of every topic."""
        if not self._settings.now.nameserver.list_all_topics:
            raise _disabled()
        return _list(self._lookup.topics())

    def topics_of_cluster(self, _: Request, header: ClusterOnly) -> Answer:
        """Answer the topics of a cluster."""
        self._check_lists()
        return _list(self._lookup.topics_of_cluster(header.cluster))

    def system_topics(self, _: Request, _header: NoFields) -> Answer:
        """Answer the topics named like clusters and brokers, and a broker to ask for more."""
        found = self._lookup.system_topics()
        return Answer(
            body=(bodies.encode(TopicNames(topics=found.names, broker_address=found.broker_addr)),)
        )

    def _listed(self, names: Callable[[], list[str]]) -> Callable[[Request, NoFields], Answer]:
        """Return what answers a list that settings may close."""

        def answer(_: Request, _header: NoFields) -> Answer:
            self._check_lists()
            return _list(names())

        return answer

    def _check_lists(self) -> None:
        if not self._settings.now.nameserver.list_topics:
            raise _disabled()

    def put(self, _: Request, header: KeyValue) -> Answer:
        """Keep a value."""
        self._key_values.put(header.namespace, header.key, header.value)
        return Answer()

    def get(self, _: Request, header: Key) -> Answer:
        """Answer a value."""
        value = self._key_values.get(header.namespace, header.key)
        if value is None:
            raise Refused(
                Refusal.NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return Answer(header=ValueAnswer(value=value))

    def delete(self, _: Request, header: Key) -> Answer:
        """Forget a value."""
        self._key_values.delete(header.namespace, header.key)
        return Answer()

    def namespace(self, _: Request, header: Namespace) -> Answer:
        """Answer all values of a namespace."""
        name = header.namespace
        texts = self._key_values.namespace(name)
        if texts is None:
            raise Refused(Refusal.NOT_FOUND, f"No config item, Namespace: {name}")
        return Answer(body=(bodies.encode(KeyValueTable(texts)),))

    def update(self, request: Request, _header: NoFields) -> Answer:
        """Change settings."""
        self._settings.update(java_properties.read(request.body))
        return Answer()

    def config(self, _: Request, _header: NoFields) -> Answer:
        """Answer all settings."""
        return Answer(body=(java_properties.write(self._settings.texts()),))


def _list(names: Iterable[str]) -> Answer:
    return Answer(body=(bodies.encode(TopicNames(topics=list(names))),))


def _is_new(request: Request) -> bool:
    return request.command.version >= STANDARD_JSON_VERSION


def _disabled() -> Refused:
    return Refused(Refusal.OTHER, "disable")
