"""The NameServer's requests that ask: routes, clusters, members, lists of topics.

Codes 105, 106, 206, 224, 304, 311 to 313 and 901.

Source: RocketMQ `DefaultRequestProcessor` and `ClientRequestProcessor` of the NameServer.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.bodies import broker_bodies
from sprocket.rocketmq.codec.codes import NOT_SET, STANDARD_JSON_VERSION, RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import ClusterOnly, GetMembers, GetRoute, NoFields
from sprocket.rocketmq.nameserver.config import NameServerConfig
from sprocket.rocketmq.nameserver.lookup import Lookup
from sprocket.rocketmq.remoting import Answer, Request, Row, row


@dataclass(frozen=True, slots=True)
class NameLookupHandlers:
    """Routes and lists out."""

    _lookup: Lookup
    _config: NameServerConfig

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute, self.route),
            row(RequestCode.GET_BROKER_CLUSTER_INFO, NoFields, self.cluster),
            row(RequestCode.GET_BROKER_MEMBER_GROUP, GetMembers, self.members),
            row(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NoFields, self.topics),
            row(RequestCode.GET_TOPICS_BY_CLUSTER, ClusterOnly, self.topics_of_cluster),
            row(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, NoFields, self.system_topics),
            row(RequestCode.GET_UNIT_TOPIC_LIST, NoFields, self.unit_topics),
            row(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, NoFields, self.unit_subscriptions),
            row(
                RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
                NoFields,
                self.plain_unit_subscriptions,
            ),
        ]

    def route(self, request: Request, header: GetRoute) -> Answer:
        """Answer where a topic lies: in strict JSON to those who can ask for it."""
        zone = header.zone_name if header.zone_mode and header.zone_name else None
        route = self._lookup.route(header.topic, zone=zone)
        is_strict = header.accept_standard_json_only or _is_new(request)
        return Answer(body=(broker_bodies.encode_route(route, standard=is_strict),))

    def cluster(self, request: Request, _header: NoFields) -> Answer:
        """Answer every broker and its cluster."""
        info = self._lookup.cluster_info()
        return Answer(body=(broker_bodies.encode_cluster_info(info, standard=_is_new(request)),))

    def members(self, request: Request, header: GetMembers) -> Answer:
        """Answer the processes of one broker name."""
        name = header.broker_name
        addresses = {} if name is None else self._lookup.members(name)
        body = broker_bodies.encode_members(
            addresses, header.cluster_name, name, standard=_is_new(request)
        )
        return Answer(remark=NOT_SET, body=(body,))

    def topics(self, _: Request, _header: NoFields) -> Answer:
        """Answer the name of every topic."""
        if not self._config.now.list_all_topics:
            raise _disabled()
        return _list(self._lookup.topics())

    def topics_of_cluster(self, _: Request, header: ClusterOnly) -> Answer:
        """Answer the topics of a cluster."""
        self._check_lists()
        return _list(self._lookup.topics_of_cluster(header.cluster))

    def system_topics(self, _: Request, _header: NoFields) -> Answer:
        """Answer the topics named like clusters and brokers, and a broker to ask for more."""
        found = self._lookup.system_topics()
        return Answer(body=(broker_bodies.encode_topic_list(found.names, found.broker_addr),))

    def unit_topics(self, _: Request, _header: NoFields) -> Answer:
        """Answer the topics of units."""
        self._check_lists()
        return _list(self._lookup.unit_topics())

    def unit_subscriptions(self, _: Request, _header: NoFields) -> Answer:
        """Answer the topics that units subscribe to."""
        self._check_lists()
        return _list(self._lookup.unit_subscription_topics())

    def plain_unit_subscriptions(self, _: Request, _header: NoFields) -> Answer:
        """Answer the topics of no unit that units subscribe to."""
        self._check_lists()
        return _list(self._lookup.unit_subscription_topics(without_units=True))

    def _check_lists(self) -> None:
        if not self._config.now.list_topics:
            raise _disabled()


def _list(names: Iterable[str]) -> Answer:
    return Answer(body=(broker_bodies.encode_topic_list(names),))


def _is_new(request: Request) -> bool:
    return request.command.version >= STANDARD_JSON_VERSION


def _disabled() -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, "disable")
