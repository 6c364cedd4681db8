"""How the parts of an admin ask: one broker, the masters of a cluster, all who serve a topic."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct

from sprocket.base.errors import BrokerRefused, ClientError
from sprocket.base.nearest import hint
from sprocket.rocketmq.client.network import ClientInstance, Lease, granted, read
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.route import MASTER_ID, ClusterInfo, TopicRoute

B = TypeVar("B", bound=Struct)
T = TypeVar("T")

TIMEOUT_MS = 15_000
"""For what a broker has to collect first; mqadmin gives these three times its 5 s."""
NAMES = "the NameServer"
"""Who answered, in errors."""


class Reach:
    """Requests to brokers by name, cluster or topic, and to NameServers."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    @property
    def instance(self) -> ClientInstance:
        """Connections and routes. Raises NotConnected while the admin is not open."""
        return self._lease.instance

    async def cluster(self) -> ClusterInfo:
        """Return every broker with its addresses, and which cluster it is in."""
        return await self.ask_names(RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo)

    async def known(self, topic: str) -> TopicRoute:
        """Return the route of a topic, asking if it is not known; errors as those of `route`."""
        return self.instance.routes.get(topic) or await self.route(topic)

    async def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic, as the NameServers see it now.

        Raises:
            NoSuchTopic: There is none of that name; the text names the nearest.
            NoRoute: No NameServer answered.
        """
        routes = self.instance.routes
        try:
            return await routes.refresh(topic)
        except NoSuchTopic:
            raise await routes.no_such(topic) from None

    async def masters(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> Mapping[str, str]:
        """Return the addresses of masters by broker name: all, of one cluster, or of one broker.

        Raises:
            NoRoute: There is none; the text names the nearest, and what there is.
        """
        info = await self.cluster()
        if not info.brokers:
            raise NoRoute("no NameServer knows a broker; is one running, and registered there?")
        found = {
            name: data.addresses[MASTER_ID]
            for name, data in info.brokers.items()
            if MASTER_ID in data.addresses
            and cluster in (None, data.cluster)
            and broker in (None, name)
        }
        if not found:
            wanted = f"broker {broker!r}" if broker else f"master in cluster {cluster!r}"
            there = sorted(info.brokers if broker else info.clusters)
            meant = hint(broker or cluster or "", there) or f"; there is {', '.join(there)}"
            raise NoRoute(f"no NameServer knows a {wanted}{meant}")
        return found

    async def master(self, broker: str) -> str:
        """Return the address of a broker's master. Raises NoRoute if there is no such broker."""
        (address,) = (await self.masters(broker=broker)).values()
        return address

    async def call(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Command:
        """Ask one broker. Raises BrokerRefused for any answer but success."""
        return await self.instance.connections.call(
            address, code, header, body, timeout_ms=timeout_ms
        )

    async def ask(
        self,
        address: str,
        code: RequestCode,
        kind: type[B],
        header: Header | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> B:
        """Ask one broker; return the body of its answer. Raises BrokerRefused, as `call`."""
        command = await self.call(address, code, header, timeout_ms=timeout_ms)
        return read(address, partial(bodies.decode, kind, command.body))

    async def ask_broker(
        self, broker: str, code: RequestCode, kind: type[B], header: Header | None = None
    ) -> B:
        """Ask the master of a broker; see `ask`. Raises NoRoute if there is no such broker."""
        return await self.ask(await self.master(broker), code, kind, header)

    async def ask_all(
        self,
        masters: Mapping[str, str],
        code: RequestCode,
        kind: type[B],
        header: Header | None = None,
    ) -> dict[str, B]:
        """Ask several brokers the same, each of which must answer; return what they say by name."""
        return {name: await self.ask(one, code, kind, header) for name, one in masters.items()}

    async def call_all(
        self,
        masters: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
    ) -> None:
        """Have several brokers, addresses by name, do the same, one after the other.

        Raises:
            ClientError: One failed; the text says which brokers have done it.
        """
        done: list[str] = []
        for name, address in masters.items():
            try:
                await self.call(address, code, header, body)
            except ClientError as error:
                if not done:
                    raise
                told = f"; done before that on {', '.join(done)}"
                if isinstance(error, BrokerRefused):
                    raise BrokerRefused(error.code, f"{error.remark}{told}") from error
                raise type(error)(f"{error}{told}") from error
            done.append(name)

    async def ask_each(
        self,
        addresses: Collection[str],
        code: RequestCode,
        header: Header | None,
        decode: Callable[[bytes], T],
        *,
        absent: Sequence[int] = (),
        timeout_ms: int = TIMEOUT_MS,
    ) -> dict[str, T]:
        """Ask several brokers the same; return what those say by address that know something.

        Codes in `absent` mean that a broker knows nothing. `timeout_ms` is for each of them.

        Raises:
            ClientError: None answered; otherwise those that failed only make the result smaller.
        """
        connections = self.instance.connections
        found: dict[str, T] = {}
        failures: list[ClientError] = []
        for address in addresses:
            try:
                command = await connections.request(address, code, header, timeout_ms=timeout_ms)
                if granted(address, code, command, absent):
                    found[address] = read(address, partial(decode, command.body))
            except ClientError as error:
                failures.append(error)
        if failures and len(failures) == len(addresses):
            raise failures[0]
        return found

    async def ask_masters(
        self,
        code: RequestCode,
        kind: type[B],
        header: Header | None = None,
        absent: Sequence[int] = (),
    ) -> list[B]:
        """Ask every master; return what those say that know something. Errors as `ask_each`."""
        masters, decode = await self.masters(), bodies.decoder(kind)
        found = await self.ask_each(masters.values(), code, header, decode, absent=absent)
        return list(found.values())

    async def ask_names(self, code: RequestCode, kind: type[B], header: Header | None = None) -> B:
        """Ask the NameServers, of which one must answer. Raises BrokerRefused if it refuses."""
        command = await self.instance.names.call(code, header)
        return read(NAMES, partial(bodies.decode, kind, command.body))

    async def names_each(
        self, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> list[Command]:
        """Ask every NameServer, as each has a memory of its own.

        Raises:
            ClientError: One of them cannot be reached, or refuses.
        """
        addresses = sorted(self.instance.names.addresses)
        return [await self.call(address, code, header, body) for address in addresses]
