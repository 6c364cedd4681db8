"""Who is connected: producers and consumers by group, and what each consumer group subscribes to.

A client is known by its connection. It enters with a heartbeat, and leaves when it says so, when
its connection closes, or when its last heartbeat is too old. When the consumers of a group or the
set of its topics change, all its members are told (request 40) and divide the queues again. If the
group's settings switch this off they are told only after a connection was closed, as in RocketMQ.

Invariants

1. A group is in the table exactly while somebody is in it, consumers' groups a little longer: their
   subscriptions stay for ten minutes, so that a restart of the last member loses nothing.
2. Per topic a heartbeat replaces a subscription only with a greater version; topics that it does
   not name leave the group's subscriptions: all members must subscribe alike.

Source: RocketMQ `ConsumerManager`, `ConsumerGroupInfo`, `ProducerManager`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.rocketmq.model.group import (
    BROADCASTING,
    CLUSTERING,
    CONSUME_PASSIVELY,
    Heartbeat,
    Membership,
    Subscription,
)
from sprocket.rocketmq.settings import MemberSettings

_log = log.get_limited_logger(__name__)

EMPTY_GROUP_SECONDS = 600.0
"""How long a consumer group without members keeps its subscriptions; RocketMQ's
`subscriptionExpiredTimeout`."""


class Link(Protocol):
    """A client's connection; `runtime.driver.Peer` is one."""

    @property
    def address(self) -> str:
        """Where the client is, `host:port`."""

    @property
    def proxy_address(self) -> str:
        """The load balancer that says so; empty if it is the socket's own other end."""

    def close(self) -> None:
        """Close it."""


class SubscriptionFollower(Protocol):
    """Who is told what groups want, besides their members."""

    def subscribed(self, group: str, subscriptions: Iterable[Subscription], /) -> None:
        """Note what a heartbeat says that a group wants."""

    def deserted(self, group: str, /) -> None:
        """Note that the last consumer of a group has gone."""


@dataclass(slots=True)
class ConnectedClient:
    """One member of a group."""

    client_id: str
    language: str
    version: int
    seen: float
    """Its last heartbeat, on the monotonic clock."""


@dataclass(slots=True)
class ConnectedGroup:
    """The consumers of one group that are connected, and what they want."""

    name: str
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    clients: dict[Link, ConnectedClient] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    fingerprint: int | None = None
    empty_since: float | None = None

    def client_ids(self) -> list[str]:
        """Return the id of each member once."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))

    def may_follow(self, topic: str) -> bool:
        """Tell whether the group consumes a topic, as far as its members say."""
        return not self.subscriptions or topic in self.subscriptions


@dataclass(slots=True, eq=False)
class ClientManager:
    """The tables of producers and consumers.

    Threads: event loop only.
    """

    _clock: Clock
    _expiry_seconds: float
    """How old a heartbeat may be."""
    _notify: Callable[[Link, str], None]
    """Tells one member that its group changed."""
    _notifies: Callable[[str], bool] = lambda _: True
    """Whether the settings of a group say that its members are told."""
    _follower: SubscriptionFollower | None = None
    changes: int = field(default=0, init=False)
    """Rises when consumers come or go, or what they want may have changed."""
    _producers: dict[str, dict[Link, ConnectedClient]] = field(default_factory=dict, init=False)
    _consumers: dict[str, ConnectedGroup] = field(default_factory=dict, init=False)
    _groups_of: dict[Link, tuple[set[str], set[str]]] = field(default_factory=dict, init=False)
    _repliable: dict[str, Link] = field(default_factory=dict, init=False)

    def use(self, settings: MemberSettings) -> None:
        """Change how old a heartbeat may be."""
        self._expiry_seconds = settings.expiry_ms / 1000

    def consumers(self, group: str) -> ConnectedGroup:
        """Return the group of consumers; an empty one when nobody is or was lately in it."""
        return self._consumers.get(group) or ConnectedGroup(name=group)

    def consumer_groups(self) -> list[str]:
        """Return the groups of consumers in which somebody is or was lately."""
        return list(self._consumers)

    def producers(self, group: str) -> dict[Link, ConnectedClient]:
        """Return the producers of a group."""
        return self._producers.get(group, {})

    def producer_link(self, client_id: str) -> Link | None:
        """Return the connection on which a client produces, whatever its groups."""
        return self._repliable.get(client_id)

    def producer_groups(self) -> Iterable[str]:
        """Return the groups that have producers."""
        return self._producers

    def groups_subscribed_to(self, topic: str) -> list[str]:
        """Return the groups whose consumers are there and subscribed to the topic.

        Groups that only pull, without heartbeats, are not among them.
        """
        return [
            name
            for name, group in self._consumers.items()
            if group.clients and topic in group.subscriptions
        ]

    def heartbeat(
        self,
        link: Link,
        data: Heartbeat,
        language: str,
        version: int,
        consumers: Iterable[Membership],
    ) -> bool:
        """Note that a client is there, with its groups and subscriptions.

        Args:
            link: Its connection.
            data: The heartbeat.
            language: The client's language, as its header says.
            version: Its version number.
            consumers: Those groups of the heartbeat that exist or could be made.

        Returns:
            Whether the client must send its full heartbeat again: always for an old one, otherwise
            if the group's fingerprint changed, or if a heartbeat without subscriptions names a
            group of which none are known: the broker was started again. RocketMQ does not say the
            latter, and refuses the pulls of such a group until its client sends them by itself.
        """
        client = ConnectedClient(data.client_id, language, version, self._clock.monotonic())
        producer_groups, consumer_groups = self._groups_of.setdefault(link, (set(), set()))
        if data.producers:
            self._repliable[data.client_id] = link
        for producer in data.producers:
            links = self._producers.setdefault(producer, {})
            known = links.get(link)
            if known is not None and known.client_id != client.client_id:
                self._forget_id(link, known)
            links[link] = client
            producer_groups.add(producer)
        has_changed = data.fingerprint == 0
        for wanted in consumers:
            consumer_groups.add(wanted.group)
            has_changed |= self._register(link, client, wanted, data)
        return has_changed

    def register_for_pull(self, group_name: str, subscription: Subscription, model: str) -> None:
        """Note the subscription that a pull carried, for a group that sends no heartbeats."""
        group = self._consumers.get(group_name)
        if group is None:
            group = ConnectedGroup(name=group_name, message_model=model)
            group.empty_since = self._clock.monotonic()
            self._consumers[group_name] = group
            self.changes += 1
        known = group.subscriptions.get(subscription.topic)
        if known is None or subscription.version > known.version:
            group.subscriptions[subscription.topic] = subscription
            self.changes += 1

    def unregister(
        self, link: Link, producer_group: str | None, consumer_group: str | None
    ) -> None:
        """Take one connection out of the groups it names."""
        producer_groups, consumer_groups = self._groups_of.get(link, (set(), set()))
        if producer_group is not None and producer_group in producer_groups:
            producer_groups.discard(producer_group)
            self._drop_producer(link, producer_group)
        if consumer_group is not None and consumer_group in consumer_groups:
            consumer_groups.discard(consumer_group)
            self._drop_consumer(link, consumer_group, is_notified=self._notifies(consumer_group))

    def drop(self, link: Link) -> None:
        """Take a connection that closed out of all its groups."""
        producer_groups, consumer_groups = self._groups_of.pop(link, (set(), set()))
        for group in producer_groups:
            self._drop_producer(link, group)
        for group in consumer_groups:
            self._drop_consumer(link, group, is_notified=True)

    def expire(self) -> None:
        """Close connections whose heartbeats stopped, forget groups that nobody came back to."""
        now = self._clock.monotonic()
        oldest = now - self._expiry_seconds
        tables = [*self._producers.values(), *(one.clients for one in self._consumers.values())]
        silent = {
            link: client
            for table in tables
            for link, client in table.items()
            if client.seen < oldest
        }
        for link, client in silent.items():
            _log.warning("a client sends no heartbeats any more", client=client.client_id)
            self.drop(link)
            link.close()
        for name, group in list(self._consumers.items()):
            since = group.empty_since
            if since is not None and now - since > EMPTY_GROUP_SECONDS:
                del self._consumers[name]
                self.changes += 1

    def _register(
        self, link: Link, client: ConnectedClient, wanted: Membership, data: Heartbeat
    ) -> bool:
        group = self._consumers.setdefault(wanted.group, ConnectedGroup(name=wanted.group))
        group.empty_since = None
        self.changes += 1
        is_new = link not in group.clients
        group.clients[link] = client
        has_changed = group.fingerprint is not None and group.fingerprint != data.fingerprint
        group.fingerprint = data.fingerprint
        group.consume_type = wanted.consume_type
        group.message_model = wanted.message_model
        group.consume_from_where = wanted.consume_from_where
        topics_changed = False
        if not data.without_sub:
            topics_changed = _subscribe(group, wanted.subscriptions)
            if self._follower is not None:
                self._follower.subscribed(group.name, wanted.subscriptions)
        elif not group.subscriptions:
            has_changed = True  # a short form, and nothing here that it could stand for
        if (is_new or topics_changed) and self._notifies(group.name):
            self._tell(group)
        return has_changed

    def _tell(self, group: ConnectedGroup) -> None:
        """Tell all members; those who each consume everything have nothing to share."""
        if group.message_model == BROADCASTING:
            return
        for link in list(group.clients):
            self._notify(link, group.name)

    def _drop_producer(self, link: Link, group: str) -> None:
        table = self._producers[group]
        client = table.pop(link, None)
        if client is not None:
            self._forget_id(link, client)
        if not table:
            del self._producers[group]

    def _forget_id(self, link: Link, client: ConnectedClient) -> None:
        """Push no more replies for a client id over a connection."""
        if self._repliable.get(client.client_id) is link:
            del self._repliable[client.client_id]

    def _drop_consumer(self, link: Link, name: str, *, is_notified: bool) -> None:
        group = self._consumers.get(name)
        if group is None or group.clients.pop(link, None) is None:
            return
        self.changes += 1
        if not group.clients:
            group.empty_since = self._clock.monotonic()
            if self._follower is not None:
                self._follower.deserted(name)
        if is_notified:
            self._tell(group)


def _subscribe(group: ConnectedGroup, wanted: Iterable[Subscription]) -> bool:
    """Bring the group's subscriptions up to a heartbeat's; tell whether its topics changed."""
    named = {subscription.topic: subscription for subscription in wanted}
    is_changed = False
    for topic, subscription in named.items():
        known = group.subscriptions.get(topic)
        if known is None:
            is_changed = True
        if known is None or subscription.version > known.version:
            group.subscriptions[topic] = subscription
    for topic in [topic for topic in group.subscriptions if topic not in named]:
        del group.subscriptions[topic]
        is_changed = True
    return is_changed
