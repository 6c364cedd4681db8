"""The exchanges, queues and bindings of one virtual host, and what clients may do with them.

What is in the queues is somebody else's: this says which there are, and as what they were declared.

    declare, delete, bind ── VhostTopology ── MetadataTable      what survives a restart
                                 │
    published ────────────── Router                              where messages go

Invariants

1. Both ends of every binding are there.
2. A change is written before it is made, all of it as one line of the table: with a queue go its
   bindings, and the exchanges that are deleted with their last one.
3. Only durable things are written, and bindings between two of them.
4. A deletion costs what goes with it, not what there is.

Source: `rabbit_exchange`, `rabbit_amqqueue`, `rabbit_binding`, `rabbit_channel`.
"""

import secrets
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct

from sprocket.base import log
from sprocket.rabbitmq.broker.access import Access, Need
from sprocket.rabbitmq.broker.policies import (
    NOTHING_IN_FORCE,
    InForce,
    VhostPolicies,
    queue_options,
)
from sprocket.rabbitmq.broker.refusals import access_refused, not_found, precondition_failed
from sprocket.rabbitmq.broker.topology import arguments, equivalence
from sprocket.rabbitmq.broker.topology.matching import X_MATCH, X_MATCHES, Headers
from sprocket.rabbitmq.broker.topology.router import Routed, Router
from sprocket.rabbitmq.codec import erlang_text
from sprocket.rabbitmq.codec.amqp import ReplyCode
from sprocket.rabbitmq.codec.entities import Entity
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.binding import Binding, Destination
from sprocket.rabbitmq.model.counts import ExchangeCounts
from sprocket.rabbitmq.model.declared_queue import QUEUE_TYPE, QUORUM, DeclaredQueue
from sprocket.rabbitmq.model.exchange import (
    ALTERNATE_EXCHANGE,
    DEFAULT_EXCHANGE,
    DELAYED,
    DELAYED_TYPE,
    DIRECT,
    FANOUT,
    HEADERS,
    RESERVED_PREFIX,
    TOPIC,
    Exchange,
    text_of,
)
from sprocket.rabbitmq.model.fields import FieldKind, FieldTable, long_string
from sprocket.rabbitmq.model.policy import Policy
from sprocket.rabbitmq.model.queue_options import QueueOptions
from sprocket.rabbitmq.model.resource import (
    Resource,
    ResourceKind,
    exchange_resource,
    queue_resource,
)
from sprocket.rabbitmq.model.vhost import QUEUES_MAX, Vhost, limit_of
from sprocket.rabbitmq.store.metadata_table import MetadataTable
from sprocket.runtime.slices import Sliced

_log = log.get_logger(__name__)

K = TypeVar("K")
V = TypeVar("V")

EXCHANGE_TYPES: Final = frozenset({DIRECT, FANOUT, TOPIC, HEADERS, DELAYED})

_OWN_EXCHANGES = {
    DEFAULT_EXCHANGE: DIRECT,
    "amq.direct": DIRECT,
    "amq.fanout": FANOUT,
    "amq.headers": HEADERS,
    "amq.match": HEADERS,
    "amq.topic": TOPIC,
    "amq.rabbitmq.trace": TOPIC,
}
_INTERNAL = "amq.rabbitmq.trace"
_GENERATED = "amq.gen-"
_GENERATED_BYTES = 16
_PIECE_NAMES = 256
"""Queues or exchanges whose policies are looked for in one piece of work, some 0.5 ms."""


class Requester(Struct, frozen=True):
    """The client that requests something."""

    access: Access
    connection: int | None = None
    """The number of its connection, which may own queues; None without a connection."""


class QueueDeclared(Struct, frozen=True):
    """What came of a declaration."""

    queue: DeclaredQueue
    is_new: bool


class Removed(Struct, frozen=True):
    """What went with something that was deleted."""

    bindings: tuple[Binding, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    """Those that were deleted with their last binding, too."""


class VhostTopology:
    """See the head of the module.

    Args:
        vhost: Which; it is in the table.
        table: Where durable things are kept.
        policies: Those of the virtual host.

    Attributes:
        vhost: With its limits.

    Durability: as the table's; whoever answers a client waits for that.
    Threads: event loop only.
    """

    def __init__(self, vhost: Vhost, table: MetadataTable, policies: VhostPolicies) -> None:
        self.vhost = vhost
        self._name = vhost.name
        self._table = table
        self._policies = policies
        self._exchanges: dict[str, Exchange] = {}
        self._exchange_counts: dict[str, ExchangeCounts] = {}
        """Of those that anything was published to."""
        self._queues: dict[str, DeclaredQueue] = {}
        self._of_owner: dict[int, dict[str, None]] = {}
        self._in_force: dict[Destination, InForce] = {}
        """Those for which anything is."""
        self._from: dict[str, dict[Binding, None]] = {}
        self._to: dict[Destination, dict[Binding, None]] = {}
        self._router = Router(self._queues)
        self._when_gone: list[Callable[[Exchange], None]] = []
        for name, kind in _OWN_EXCHANGES.items():
            self._add_exchange(
                Exchange(
                    vhost=self._name,
                    name=name,
                    type=kind,
                    is_durable=True,
                    is_internal=name == _INTERNAL,
                )
            )
        for exchange in table.of_vhost(self._name, Exchange):
            self._add_exchange(exchange)
        for queue in table.of_vhost(self._name, DeclaredQueue):
            self._add_queue(queue)
        loose = [one for one in table.of_vhost(self._name, Binding) if not self._has_ends(one)]
        for one in loose:  # what it leads from or to is damaged on the disk
            _log.error("a binding leads from or to nothing and is dropped", binding=str(one))
        table.write(gone=loose)
        for binding in table.of_vhost(self._name, Binding):
            self._add_binding(binding)

    def tell_of_deletions(self, callback: Callable[[Exchange], None]) -> None:
        """Call back with each exchange that is deleted, for whatever reason."""
        self._when_gone.append(callback)

    # What there is.

    def exchanges(self) -> Iterable[Exchange]:
        """Return every exchange."""
        return self._exchanges.values()

    def exchange_counts(self, name: str) -> ExchangeCounts:
        """Return what is counted for an exchange that is there, until it is deleted."""
        found = self._exchange_counts.get(name)
        if found is None:
            found = self._exchange_counts[name] = ExchangeCounts()
        return found

    def find_exchange_counts(self, name: str) -> ExchangeCounts | None:
        """Return what was counted for an exchange; None if nothing was published to it."""
        return self._exchange_counts.get(name)

    def counted_exchanges(self) -> Sequence[ExchangeCounts]:
        """Return the counts of those to which something was published."""
        return list(self._exchange_counts.values())

    @property
    def exchange_count(self) -> int:
        """How many exchanges there are."""
        return len(self._exchanges)

    def queues(self) -> Iterable[DeclaredQueue]:
        """Return every queue."""
        return self._queues.values()

    @property
    def queue_count(self) -> int:
        """How many queues there are."""
        return len(self._queues)

    def bindings(self) -> Iterator[Binding]:
        """Give every binding, but those of the default exchange, which nobody has made."""
        for of in self._from.values():
            yield from of

    def bindings_from(self, exchange: str) -> Sequence[Binding]:
        """Return the bindings from an exchange."""
        return list(self._from.get(exchange, ()))

    def bindings_to(self, destination: Destination) -> Sequence[Binding]:
        """Return the bindings to a queue or an exchange."""
        return list(self._to.get(destination, ()))

    def find_exchange(self, name: str) -> Exchange | None:
        """Return an exchange; None if there is none of that name."""
        return self._exchanges.get(name)

    def find_queue(self, name: str) -> DeclaredQueue | None:
        """Return a queue; None if there is none of that name."""
        return self._queues.get(name)

    def exchange(self, name: str) -> Exchange:
        """Return an exchange.

        Raises:
            RequestRefused: NOT_FOUND.
        """
        found = self._exchanges.get(name)
        if found is None:
            raise not_found(exchange_resource(name, self._name))
        return found

    def queue(self, name: str, requester: Requester) -> DeclaredQueue:
        """Return a queue that somebody wants to use.

        Raises:
            RequestRefused: NOT_FOUND; RESOURCE_LOCKED if another connection owns it.
        """
        found = self._queues.get(name)
        if found is None:
            raise not_found(queue_resource(name, self._name))
        _check_owner(found, requester)
        return found

    def queues_of(self, connection: int) -> Sequence[DeclaredQueue]:
        """Return the queues that end with a connection."""
        return [self._queues[name] for name in self._of_owner.get(connection, ())]

    def in_force(self, kind: ResourceKind, name: str) -> InForce:
        """Return what policies are in force for a queue or an exchange."""
        return self._in_force.get(Destination(kind, name), NOTHING_IN_FORCE)

    def policies(self) -> Sequence[Policy]:
        """Return the policies of the virtual host, operators' too."""
        return list(self._policies)

    def options(self, queue: DeclaredQueue) -> QueueOptions:
        """Return how a queue treats its messages: its arguments and its policies together."""
        return queue_options(queue, self.in_force(ResourceKind.QUEUE, queue.name).definition)

    # Messages.

    @property
    def changes(self) -> int:
        """How often what decides who may publish where, and which queues get it, has changed."""
        return self._router.changes

    def check_publish(self, name: str, key: str, access: Access) -> Exchange:
        """Return the exchange that somebody publishes to.

        Raises:
            RequestRefused: ACCESS_REFUSED, or NOT_FOUND for a client that may write to it.
        """
        access.check(Need.WRITE, exchange_resource(name, self._name))
        exchange = self.exchange(name)
        if exchange.is_internal:
            raise access_refused(f"cannot publish to internal {exchange.resource.text}")
        access.check_topic(Need.WRITE, exchange, key)
        return exchange

    def route(self, exchange: str, keys: Sequence[str], headers: Headers) -> Routed:
        """Return where a message goes, see `Router.route`."""
        return self._router.route(exchange, keys, headers)

    def release(self, exchange: str, keys: Sequence[str], headers: Headers) -> Routed:
        """Return where a message goes that an exchange has kept long enough."""
        return self._router.route(exchange, keys, headers, is_released=True)

    # Exchanges.

    def declare_exchange(self, wanted: Exchange, requester: Requester) -> bool:
        """Add an exchange, or find that it is there and the same; say whether it is new.

        Raises:
            RequestRefused: ACCESS_REFUSED, PRECONDITION_FAILED; COMMAND_INVALID for its type.
            DiskFull, DiskFailed: All is as before.
        """
        _check_type(wanted.type)
        name = _clean(wanted.name)
        resource = exchange_resource(name, self._name)
        _check_not_default(resource)
        access = requester.access
        access.check(Need.CONFIGURE, resource)
        found = self._exchanges.get(name)
        if found is None:
            _check_not_reserved(resource)
            alternate = arguments.exchange_named(resource, wanted.arguments, ALTERNATE_EXCHANGE)
            if alternate is not None:
                access.check(Need.READ, resource)
                access.check(Need.WRITE, exchange_resource(alternate, self._name))
            _check_delayed(wanted)
            exchange = Exchange(
                vhost=self._name,
                name=name,
                type=wanted.type,
                is_durable=wanted.is_durable,
                is_auto_delete=wanted.is_auto_delete,
                is_internal=wanted.is_internal,
                arguments=wanted.arguments,
            )
            if exchange.is_durable:
                self._table.write(put=[exchange])
            self._add_exchange(exchange)
            return True
        for field, old, new in (
            ("type", found.type, wanted.type),
            ("durable", found.is_durable, wanted.is_durable),
            ("auto_delete", found.is_auto_delete, wanted.is_auto_delete),
            ("internal", found.is_internal, wanted.is_internal),
        ):
            equivalence.check_field(resource, field, old, new)
        equivalence.check_arguments(
            resource, (ALTERNATE_EXCHANGE,), found.arguments, wanted.arguments
        )
        return False

    def check_exchange(self, name: str) -> Exchange:
        """Return an exchange that is declared passively.

        Raises:
            RequestRefused: ACCESS_REFUSED for the default exchange; NOT_FOUND.
        """
        name = _clean(name)
        _check_not_default(exchange_resource(name, self._name))
        return self.exchange(name)

    def delete_exchange(self, name: str, requester: Requester, *, if_unused: bool) -> Removed:
        """Take an exchange away, if it is there, with its bindings.

        Args:
            name: Which.
            requester: The client that requests it.
            if_unused: Refuse one with bindings from it.

        Raises:
            RequestRefused: ACCESS_REFUSED, PRECONDITION_FAILED.
            DiskFull, DiskFailed: All is as before.
        """
        name = _clean(name)
        resource = exchange_resource(name, self._name)
        _check_not_default(resource)
        if name.startswith(RESERVED_PREFIX):
            raise access_refused(f"deletion of system {resource.text} not allowed")
        requester.access.check(Need.CONFIGURE, resource)
        exchange = self._exchanges.get(name)
        if exchange is None:
            return Removed()
        if if_unused and self._from.get(name):
            raise precondition_failed(f"{resource.text} in use")
        return self._remove(exchanges=[exchange])

    # Queues.

    def declare_queue(self, wanted: DeclaredQueue, requester: Requester) -> QueueDeclared:
        """Add a queue, or find that it is there and the same.

        Args:
            wanted: Without a name it is given one. With an owner, which is the requester's
                connection, it is not durable, whatever it says.
            requester: The client that requests it.

        Raises:
            RequestRefused: ACCESS_REFUSED, PRECONDITION_FAILED, RESOURCE_LOCKED.
            DiskFull, DiskFailed: All is as before.
        """
        queue = self._completed(wanted)
        resource = queue.resource
        access = requester.access
        access.check(Need.CONFIGURE, resource)
        found = self._queues.get(queue.name)
        if found is not None:
            if found.owner != queue.owner:
                raise _locked(resource)
            equivalence.check_field(resource, "durable", found.is_durable, queue.is_durable)
            equivalence.check_field(
                resource, "auto_delete", found.is_auto_delete, queue.is_auto_delete
            )
            names = tuple(arguments.ARGUMENTS[found.type])
            equivalence.check_arguments(resource, names, found.arguments, queue.arguments)
            return QueueDeclared(found, is_new=False)
        limit = limit_of(self.vhost.limits, QUEUES_MAX)
        if limit is not None and len(self._queues) >= limit:
            raise precondition_failed(
                f"cannot declare queue '{queue.name}': queue limit in vhost '{self._name}' "
                f"({limit}) is reached"
            )
        dead = arguments.exchange_named(resource, queue.arguments, arguments.DEAD_LETTER_EXCHANGE)
        if dead is not None:
            access.check(Need.READ, resource)
            access.check(Need.WRITE, exchange_resource(dead, self._name))
        arguments.check_declaration(resource, queue.arguments)
        arguments.check_quorum(queue)
        if queue.is_durable:
            self._table.write(put=[queue])
        self._add_queue(queue)
        if queue.type == QUORUM:
            _log.info("a quorum queue is served by a durable one", queue=queue.name)
        return QueueDeclared(queue, is_new=True)

    def check_queue(self, name: str, requester: Requester) -> DeclaredQueue:
        """Return a queue that is declared passively; needs no permission.

        Raises:
            RequestRefused: NOT_FOUND, RESOURCE_LOCKED.
        """
        return self.queue(_clean(name), requester)

    def deletable_queue(self, name: str, requester: Requester) -> DeclaredQueue | None:
        """Return a queue that somebody may delete; None if it is not there.

        The caller checks what is in it and whether anybody consumes from it, and then
        calls `remove_queue`.

        Raises:
            RequestRefused: ACCESS_REFUSED, RESOURCE_LOCKED.
        """
        name = _clean(name)
        requester.access.check(Need.CONFIGURE, queue_resource(name, self._name))
        found = self._queues.get(name)
        if found is not None:
            _check_owner(found, requester)
        return found

    def remove_queue(self, name: str) -> Removed:
        """Take a queue away, if it is there, with its bindings.

        Raises:
            DiskFull, DiskFailed: All is as before.
        """
        queue = self._queues.get(name)
        return Removed() if queue is None else self._remove(queues=[queue])

    # Bindings.

    def bind(self, wanted: Binding, requester: Requester) -> bool:
        """Add a binding; say whether it is new.

        Raises:
            RequestRefused: ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED.
            DiskFull, DiskFailed: All is as before.
        """
        binding = self._checked(wanted, requester)
        source = self.exchange(binding.source)
        kind, name = binding.destination
        is_durable: bool
        if kind is ResourceKind.EXCHANGE:
            is_durable = self.exchange(name).is_durable
            _check_binding(source, binding)
        else:
            queue = self._queues.get(name)
            if queue is None:
                raise not_found(queue_resource(name, self._name))
            _check_binding(source, binding)
            _check_owner(queue, requester)
            is_durable = queue.is_durable
        if binding in self._from.get(binding.source, ()):
            return False
        if is_durable and source.is_durable:
            self._table.write(put=[binding])
        self._add_binding(binding)
        return True

    def unbind(self, wanted: Binding, requester: Requester) -> Removed:
        """Take a binding away, if it is there.

        Raises:
            RequestRefused: ACCESS_REFUSED, RESOURCE_LOCKED.
            DiskFull, DiskFailed: All is as before.
        """
        binding = self._checked(wanted, requester)
        if binding not in self._from.get(binding.source, ()):
            return Removed()
        if binding.destination.kind is ResourceKind.QUEUE:
            _check_owner(self._queues[binding.destination.name], requester)
        return self._remove(bindings=[binding])

    # Policies.

    def reapply_steps(self, changed: Callable[[Sequence[DeclaredQueue]], None]) -> Sliced[None]:
        """Look again which policies are in force; in pieces of half a millisecond, for `Slices`.

        Args:
            changed: Told of queues for which others are, as soon as they are in force.
        """
        for names in _pieces(list(self._exchanges)):
            yield partial(self._reapply_exchanges, names)
        for names in _pieces(list(self._queues)):
            yield partial(self._reapply_queues, names, changed)

    # Below.

    def _reapply_exchanges(self, names: Sequence[str]) -> None:
        for name in names:
            exchange = self._exchanges.get(name)
            if exchange is not None and self._look_up(exchange):
                self._router.change_alternate(name, self._alternate(exchange))

    def _reapply_queues(
        self, names: Sequence[str], changed: Callable[[Sequence[DeclaredQueue]], None]
    ) -> None:
        queues = [self._queues[name] for name in names if name in self._queues]
        found = [queue for queue in queues if self._look_up(queue)]
        if found:
            changed(found)

    def _completed(self, wanted: DeclaredQueue) -> DeclaredQueue:
        """Return a queue with its name and its type."""
        given = wanted.arguments
        default = self.vhost.default_queue_type
        is_durable = wanted.is_durable and wanted.owner is None
        if (
            default is not None
            and given.get(QUEUE_TYPE) is None
            and (
                default != QUORUM
                or (wanted.is_durable and wanted.owner is None and not wanted.is_auto_delete)
            )
        ):
            entries = (*given.entries, (QUEUE_TYPE, long_string(default)))
            given = FieldTable(tuple(sorted(entries, key=lambda entry: entry[0])))
        name = _clean(wanted.name)
        if not name:
            if text_of(given.get(QUEUE_TYPE)) == QUORUM:
                raise precondition_failed(
                    "Cannot declare a server-named queue for type rabbit_quorum_queue"
                )
            name = _GENERATED + secrets.token_urlsafe(_GENERATED_BYTES)
        else:
            _check_not_reserved(queue_resource(name, self._name))
        return DeclaredQueue(
            vhost=self._name,
            name=name,
            is_durable=is_durable,
            is_auto_delete=wanted.is_auto_delete,
            owner=wanted.owner,
            arguments=given,
        )

    def _checked(self, wanted: Binding, requester: Requester) -> Binding:
        """Return a binding with clean names that somebody may make or take away."""
        source = _clean(wanted.source)
        destination = Destination(wanted.destination.kind, _clean(wanted.destination.name))
        access = requester.access
        access.check(Need.WRITE, destination.in_vhost(self._name))
        if destination.kind is ResourceKind.EXCHANGE:
            _check_not_default(destination.in_vhost(self._name))
        _check_not_default(exchange_resource(source, self._name))
        access.check(Need.READ, exchange_resource(source, self._name))
        exchange = self._exchanges.get(source)
        if exchange is not None:
            access.check_topic(Need.READ, exchange, wanted.key)
        return Binding(
            vhost=self._name,
            source=source,
            destination=destination,
            key=wanted.key,
            arguments=wanted.arguments,
        )

    def _add_exchange(self, exchange: Exchange) -> None:
        self._exchanges[exchange.name] = exchange
        self._look_up(exchange)
        self._router.add_exchange(exchange, self._alternate(exchange))

    def _add_queue(self, queue: DeclaredQueue) -> None:
        self._queues[queue.name] = queue
        self._look_up(queue)
        if queue.owner is not None:
            self._of_owner.setdefault(queue.owner, {})[queue.name] = None
        self._router.count_change()

    def _add_binding(self, binding: Binding) -> None:
        self._from.setdefault(binding.source, {})[binding] = None
        self._to.setdefault(binding.destination, {})[binding] = None
        self._router.add(binding)

    def _remove(
        self,
        *,
        exchanges: Sequence[Exchange] = (),
        queues: Sequence[DeclaredQueue] = (),
        bindings: Sequence[Binding] = (),
    ) -> Removed:
        """Take things away, with all that goes with them."""
        gone_bindings, gone_exchanges = self._doomed(exchanges, queues, bindings)
        durable: list[Entity] = [one for one in gone_bindings if self._is_durable(one)]
        durable += [exchange for exchange in gone_exchanges if exchange.is_durable]
        durable += [queue for queue in queues if queue.is_durable]
        self._table.write(gone=durable)
        for binding in gone_bindings:
            _discard(self._from, binding.source, binding)
            _discard(self._to, binding.destination, binding)
            self._router.remove(binding)
        for exchange in gone_exchanges:
            del self._exchanges[exchange.name]
            self._exchange_counts.pop(exchange.name, None)
            self._in_force.pop(Destination(ResourceKind.EXCHANGE, exchange.name), None)
            self._router.remove_exchange(exchange.name)
            for callback in self._when_gone:
                callback(exchange)
        for queue in queues:
            del self._queues[queue.name]
            self._in_force.pop(Destination(ResourceKind.QUEUE, queue.name), None)
            if queue.owner is not None:
                _discard(self._of_owner, queue.owner, queue.name)
        self._router.count_change()
        return Removed(
            tuple(gone_bindings), tuple(one for one in gone_exchanges if one not in exchanges)
        )

    def _doomed(
        self,
        exchanges: Sequence[Exchange],
        queues: Sequence[DeclaredQueue],
        bindings: Sequence[Binding],
    ) -> tuple[dict[Binding, None], dict[Exchange, None]]:
        """Return the bindings and exchanges that go when some things do."""
        gone: dict[Binding, None] = {}
        doomed = dict.fromkeys(exchanges)
        left: dict[str, int] = {}
        waiting: list[Binding] = list(bindings)
        for queue in queues:
            waiting += self._to.get(Destination(ResourceKind.QUEUE, queue.name), ())
        for exchange in exchanges:
            waiting += self._to.get(Destination(ResourceKind.EXCHANGE, exchange.name), ())
            gone.update(self._from.get(exchange.name, {}))
        while waiting:
            binding = waiting.pop()
            source = self._exchanges[binding.source]
            if binding in gone or source in doomed:
                gone[binding] = None
                continue
            gone[binding] = None
            left[source.name] = left.get(source.name, len(self._from[source.name])) - 1
            if source.is_auto_delete and not left[source.name]:
                doomed[source] = None
                waiting += self._to.get(Destination(ResourceKind.EXCHANGE, source.name), ())
        return gone, doomed

    def _has_ends(self, binding: Binding) -> bool:
        kind, name = binding.destination
        ends: Container[str] = self._queues if kind is ResourceKind.QUEUE else self._exchanges
        return name in ends and binding.source in self._exchanges

    def _is_durable(self, binding: Binding) -> bool:
        kind, name = binding.destination
        end = self._queues[name] if kind is ResourceKind.QUEUE else self._exchanges[name]
        return end.is_durable and self._exchanges[binding.source].is_durable

    def _look_up(self, one: Exchange | DeclaredQueue) -> bool:
        """Find the policies in force; say whether others are than before."""
        if isinstance(one, Exchange):
            what = Destination(ResourceKind.EXCHANGE, one.name)
            found = self._policies.in_force(what.kind, one.name)
        else:
            what = Destination(ResourceKind.QUEUE, one.name)
            found = self._policies.in_force(what.kind, one.name, one.type)
        old = self._in_force.get(what, NOTHING_IN_FORCE)
        if found == old:
            return False
        if found is NOTHING_IN_FORCE:
            del self._in_force[what]
        else:
            self._in_force[what] = found
        return True

    def _alternate(self, exchange: Exchange) -> str | None:
        given = text_of(exchange.arguments.get(ALTERNATE_EXCHANGE))
        if given is not None:
            return given
        definition = self.in_force(ResourceKind.EXCHANGE, exchange.name).definition
        found = definition.get(ALTERNATE_EXCHANGE)
        return found if isinstance(found, str) else None


def _check_type(kind: str) -> None:
    if kind not in EXCHANGE_TYPES:
        raise RequestRefused(ReplyCode.COMMAND_INVALID, f"unknown exchange type '{kind}'")


def _check_delayed(exchange: Exchange) -> None:
    if exchange.type != DELAYED:
        return
    kind = text_of(exchange.arguments.get(DELAYED_TYPE))
    if kind is None:
        raise precondition_failed(
            "Invalid argument, 'x-delayed-type' must be an existing exchange type"
        )
    if kind == DELAYED:
        raise precondition_failed(
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"
        )
    _check_type(kind)


def _check_not_default(resource: Resource) -> None:
    if resource.kind is ResourceKind.EXCHANGE and resource.name == DEFAULT_EXCHANGE:
        raise access_refused("operation not permitted on the default exchange")


def _check_not_reserved(resource: Resource) -> None:
    if resource.name.startswith(RESERVED_PREFIX):
        raise access_refused(
            f"{resource.kind.value} name '{resource.name}' contains reserved prefix 'amq.*'"
        )


def _check_owner(queue: DeclaredQueue, requester: Requester) -> None:
    if queue.owner is not None and queue.owner != requester.connection:
        raise _locked(queue.resource)


def _locked(resource: Resource) -> RequestRefused:
    return RequestRefused(
        ReplyCode.RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked {resource.text}. It could be originally "
        "declared on another connection or the exclusive property value does not match that of "
        "the original declaration.",
    )


def _check_binding(source: Exchange, binding: Binding) -> None:
    """Refuse conditions that a headers exchange does not know."""
    if source.routing_type != HEADERS:
        return
    found = binding.arguments.get(X_MATCH)
    if found is None or (found.kind is FieldKind.LONG_STRING and text_of(found) in X_MATCHES):
        return
    value = erlang_text.value_text(found.value)
    if found.kind is FieldKind.LONG_STRING:
        raise precondition_failed(
            f"Invalid x-match field value {value}; expected all, any, all-with-x, or any-with-x"
        )
    raise precondition_failed(
        f"Invalid x-match field type {found.kind.word} (value {value}); expected longstr"
    )


def _clean(name: str) -> str:
    """Return a name without ends of lines."""
    return name.replace("\r", "").replace("\n", "")


def _discard(index: dict[K, dict[V, None]], key: K, value: V) -> None:
    of = index[key]
    del of[value]
    if not of:
        del index[key]


def _pieces(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _PIECE_NAMES):
        yield names[start : start + _PIECE_NAMES]
