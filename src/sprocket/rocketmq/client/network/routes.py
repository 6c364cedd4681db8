"""Which brokers serve which topic: asked of the NameServers, kept, and refreshed.

What is known of a topic is never forgotten because nobody can say it at the moment: while a broker
restarts, the NameServer answers that the topic does not exist, and the last route stays in use.
"""

import contextlib
from collections.abc import Callable, Sequence

from msgspec import structs

from sprocket.base import log
from sprocket.base.errors import BrokerRefused, ClientError, SettingsError
from sprocket.base.nearest import hint
from sprocket.rocketmq.client.network.answers import granted, read
from sprocket.rocketmq.client.network.connections import Connections
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import TopicNames
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.headers import GetRoute
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.internal import TEMPLATE_TOPIC
from sprocket.rocketmq.model.route import MASTER_ID, MessageQueue, TopicRoute
from sprocket.rocketmq.model.topic import READ, WRITE

_BASIC = frozenset(
    (
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    )
)
"""What every NameServer knows, of whatever version, and no broker."""

_HELP = (
    "create it (`sprocket topic create`, Admin.create_topic), or let the broker create topics by"
    " themselves (autoCreateTopicEnable)"
)

_log = log.get_logger(__name__)


def split_addresses(text: str) -> list[str]:
    """Return the addresses of a list such as `host:9876;other:9876`.

    Raises:
        SettingsError: It is empty, or one of them has no port.
    """
    found = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    if not found:
        raise SettingsError("no NameServer given; expected host:port, or several joined by ';'")
    for one in found:
        host, colon, port = one.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise SettingsError(f"NameServer {one!r}: expected host:port, such as 127.0.0.1:9876")
    return found


class NameServers:
    """The NameServers that a client was given; the one that answered last is asked first."""

    def __init__(self, addresses: Sequence[str], connections: Connections) -> None:
        self.addresses = list(addresses)
        self._connections = connections

    async def request(self, code: RequestCode, header: Header | None = None) -> Command:
        """Return the answer of the first that gives one, whatever its code.

        Raises:
            NoRoute: None of them answered; the text names each and why.
        """
        failures: list[ClientError] = []
        for address in list(self.addresses):
            try:
                command = await self._connections.request(address, code, header)
                if command.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and code in _BASIC:
                    raise BrokerRefused(
                        command.code,
                        f"{address} is not a NameServer: it does not know {code.name}, which each "
                        "of them does. Is it the port of a broker? A NameServer's is 9876, if "
                        "nobody chose another",
                    )
            except ClientError as error:
                failures.append(error)
                self.addresses.remove(address)
                self.addresses.append(address)
            else:
                return command
        if all(isinstance(failure, BrokerRefused) for failure in failures):
            raise failures[0]  # trying on would not help
        raise NoRoute(
            "no NameServer answered; is one running there? "
            + "; ".join(str(failure) for failure in failures)
        ) from failures[0]

    async def call(self, code: RequestCode, header: Header | None = None) -> Command:
        """Like `request`, but an answer other than success is an error.

        Raises:
            BrokerRefused: With the answer's code and remark.
        """
        command = await self.request(code, header)
        granted("the NameServer", code, command)
        return command


class Routes:
    """Routes by topic."""

    def __init__(self, names: NameServers) -> None:
        self._names = names
        self.on_change: list[Callable[[str], None]] = []
        """Called with the topic after its route has changed."""
        self._addresses: dict[str, dict[int, str]] = {}
        self._routes: dict[str, TopicRoute] = {}
        self._templates: set[str] = set()
        """Topics that do not exist yet, and whose route is the template's."""

    def get(self, topic: str) -> TopicRoute | None:
        """Return what is known, without asking."""
        return self._routes.get(topic)

    async def find(self, topic: str) -> TopicRoute:
        """Return the route of a topic, asking if it is not known.

        Raises:
            NoRoute: No NameServer answered, or none knows the topic.
        """
        return self._routes.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> TopicRoute:
        """Ask for the route of a topic.

        Raises:
            NoSuchTopic: None knows the topic, and none did before.
            NoRoute: No NameServer answered.
        """
        route = await self._ask(topic)
        if route is None:
            known = self._routes.get(topic)
            if known is None:
                raise NoSuchTopic(f"no NameServer knows topic {topic!r}; {_HELP}")
            return known
        self._keep(topic, route)
        self._templates.discard(topic)
        return self._routes[topic]

    async def find_for_sending(self, topic: str, topic_queues: int = 4) -> TopicRoute:
        """Return the route of a topic; for one that does not exist, that which it will have.

        Then it has `topic_queues` queues on each broker, or fewer if the template has.

        Raises:
            NoSuchTopic: It is not there, and brokers do not create topics by themselves.
            NoRoute: No NameServer answered.
        """
        try:
            return await self.find(topic)
        except NoSuchTopic:
            pass
        route = await self._ask(TEMPLATE_TOPIC)
        if route is None:
            raise NoSuchTopic(
                f"topic {topic!r} does not exist and no broker would create it; {_HELP}"
            )
        queues = [
            structs.replace(
                one,
                read_queues=min(topic_queues, one.read_queues),
                write_queues=min(topic_queues, one.write_queues),
            )
            for one in route.queues
        ]
        self._templates.add(topic)
        self._keep(topic, structs.replace(route, queues=queues))
        return self._routes[topic]

    async def _ask(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic as the NameServers see it now, None if there is none."""
        header = GetRoute(topic=topic, accept_standard_json_only=True)
        command = await self._names.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        if command.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if command.code != ResponseCode.SUCCESS:
            raise BrokerRefused(command.code, f"the NameServer gave no route: {command.remark}")
        return read("the NameServer", lambda: bodies.decode(TopicRoute, command.body))

    async def no_such(self, topic: str) -> NoSuchTopic:
        """Return the error for a topic that is not there; it names the nearest that is.

        It asks for the names of all topics, so it is for whoever has given up, not for each try.
        """
        try:
            command = await self._names.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            names = read("the NameServer", lambda: bodies.decode(TopicNames, command.body).topics)
        except ClientError:  # a NameServer may refuse lists; the topic is not there anyway
            names = []
        meant = hint(topic, names)
        return NoSuchTopic(f"no NameServer knows topic {topic!r}{meant or f'; {_HELP}'}")

    def forget(self, topic: str) -> None:
        """Drop what is known of a topic, as it was deleted."""
        self._routes.pop(topic, None)
        self._templates.discard(topic)

    async def refresh_all(self) -> None:
        """Ask anew for every route in use; failures are logged and change nothing."""
        for topic in list(self._routes):
            try:
                await self.refresh(topic)
            except ClientError as error:
                _log.warning("route not refreshed", topic=topic, error=str(error))

    async def refresh_broker(self, broker_name: str) -> None:
        """Ask anew for one topic that the broker serves, to learn whether the broker has moved."""
        topic = self.topic_of(broker_name)
        if topic is not None:
            with contextlib.suppress(ClientError):
                await self.refresh(topic)

    def topic_of(self, broker_name: str) -> str | None:
        """Return a topic in use that the broker serves, or None."""
        for topic, route in self._routes.items():
            if any(broker.name == broker_name for broker in route.brokers):
                return topic
        return None

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that take messages: writable, of a broker whose master is there.

        Where an administrator has fixed the queues of a topic, for an order that holds for the
        whole topic, these are they, whether the broker is there or not.
        """
        route = self._routes.get(topic)
        if route is None:
            return []
        if route.order_conf:
            fixed = _fixed_queues(topic, route.order_conf)
            if fixed:
                return fixed
        masters = {broker.name for broker in route.brokers if MASTER_ID in broker.addresses}
        return [
            MessageQueue(topic, one.broker_name, queue_id)
            for one in sorted(route.queues, key=lambda queue: queue.broker_name)
            if one.perm & WRITE and one.broker_name in masters
            for queue_id in range(one.write_queues)
        ]

    def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that can be read; none of a topic that does not exist yet."""
        route = self._routes.get(topic)
        if route is None or topic in self._templates:
            return []
        return [
            MessageQueue(topic, one.broker_name, queue_id)
            for one in sorted(route.queues, key=lambda queue: queue.broker_name)
            if one.perm & READ
            for queue_id in range(one.read_queues)
        ]

    def master_address(self, broker_name: str) -> str | None:
        """Return the `host:port` of a broker's master as last heard, or None."""
        return self._addresses.get(broker_name, {}).get(MASTER_ID)

    def require_master(self, broker_name: str) -> str:
        """Return the `host:port` of a broker's master.

        Raises:
            NoRoute: No route names one.
        """
        address = self.master_address(broker_name)
        if address is None:
            raise NoRoute(f"no route names a master of broker {broker_name!r}")
        return address

    def replicas(self, broker_name: str) -> list[int]:
        """Return the ids of a broker's replicas that are there, its master's first."""
        return sorted(self._addresses.get(broker_name, ()))

    def read_address(self, broker_name: str, broker_id: int = MASTER_ID) -> str:
        """Return where to read a broker's queues, `host:port`.

        Args:
            broker_name: The broker.
            broker_id: Which of its replicas is wanted. In place of a slave that is not there the
                next one is taken, as Java's clients do, then the master, then any.

        Raises:
            NoRoute: No route names one.
        """
        addresses = self._addresses.get(broker_name, {})
        if not addresses:
            raise NoRoute(f"no route names an address of broker {broker_name!r}")
        for one in (broker_id, broker_id + 1, MASTER_ID) if broker_id else (MASTER_ID,):
            if one in addresses:
                return addresses[one]
        return next(iter(addresses.values()))

    def broker_at(self, address: str) -> str | None:
        """Return the name of the broker that lives at `host:port`, or None."""
        for name, addresses in self._addresses.items():
            if address in addresses.values():
                return name
        return None

    def broker_addresses(self, *, masters_only: bool) -> list[str]:
        """Return every broker address of the routes in use."""
        return sorted(
            {
                address
                for addresses in self._addresses.values()
                for broker_id, address in addresses.items()
                if broker_id == MASTER_ID or not masters_only
            }
        )

    def _keep(self, topic: str, route: TopicRoute) -> None:
        known = self._routes.get(topic)
        self._routes[topic] = route
        for broker in route.brokers:
            self._addresses[broker.name] = dict(broker.addresses)
        if route != known:
            for changed in list(self.on_change):
                changed(topic)


def _fixed_queues(topic: str, order_conf: str) -> list[MessageQueue]:
    """Read `broker:count;…`; another text counts as absent."""
    queues = []
    for part in order_conf.split(";"):
        broker_name, _, count = part.strip().rpartition(":")
        if not broker_name or not count.isdecimal():
            _log.warning("unreadable order configuration", topic=topic, text=order_conf)
            return []
        queues += [MessageQueue(topic, broker_name, number) for number in range(int(count))]
    return queues
