"""Everything that is declared, written as RabbitMQ's definitions and taken from them.

A file of a real RabbitMQ moves its users, virtual hosts and what is in them over; only the messages
are not in it. Taking goes in RabbitMQ's order, ends at the first thing that cannot be, and may be
begun again: what is there already is left as it is, but users, permissions and policies become what
the file says.

Source: `rabbit_definitions`.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sprocket.base import log
from sprocket.base.errors import WireError
from sprocket.rabbitmq.broker import cluster_name
from sprocket.rabbitmq.broker.access import Unlimited, Users, passwords
from sprocket.rabbitmq.broker.policies import Policies, check_vhost_limits
from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.broker.topology import Requester, Vhosts, VhostTopology
from sprocket.rabbitmq.codec import entities
from sprocket.rabbitmq.codec.amqp import ReplyCode
from sprocket.rabbitmq.codec.definitions import (
    BindingDefinition,
    DefinitionsFile,
    ExchangeDefinition,
    ParameterDefinition,
    PolicyDefinition,
    QueueDefinition,
    UserDefinition,
    VhostDefinition,
    VhostMetadata,
    arguments_from_json,
    arguments_to_json,
)
from sprocket.rabbitmq.codec.entities import (
    OPERATOR_POLICY,
    VHOST_LIMITS,
    Entity,
    EntityTable,
    Output,
    Row,
)
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.binding import Destination, binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import RESERVED_PREFIX, Exchange
from sprocket.rabbitmq.model.fields import FieldTable
from sprocket.rabbitmq.model.policy import GlobalParameter, Policy
from sprocket.rabbitmq.model.resource import ResourceKind, exchange_resource, queue_resource
from sprocket.rabbitmq.model.user import MD5, SHA256, TopicPermission, User, VhostPermission
from sprocket.rabbitmq.model.vhost import QUEUES_MAX, Vhost, limit_of
from sprocket.rabbitmq.store.metadata_table import MetadataTable
from sprocket.runtime.slices import Sliced

_PIECE_ENTRIES = 32
"""What is taken in one piece of work, 1 ms."""
_OUTPUT = Output.DEFINITIONS
_INTERNAL_PREFIX = "internal"
"""Global parameters that begin with it are of one node, and are not written."""
_MD5_VERSIONS = ("3.0.", "3.1.", "3.2.", "3.3.", "3.4.", "3.5.")

_EVERYBODY = Requester(Unlimited())

_log = log.get_logger(__name__)

T = TypeVar("T")
E = TypeVar("E", bound=Entity)
Exported: TypeAlias = dict[str, str | Iterator[Row]]
"""The members of a file; the entries of its lists are made when they are asked for."""

_InVhost: TypeAlias = (
    ParameterDefinition
    | PolicyDefinition
    | QueueDefinition
    | ExchangeDefinition
    | BindingDefinition
)


class Followers(Struct, frozen=True, kw_only=True):
    """The object that is told what definitions have changed."""

    vhost_made: Callable[[VhostTopology], None]
    queue_made: Callable[[DeclaredQueue], None]
    queues_changed: Callable[[Sequence[DeclaredQueue]], None]
    """Other policies are in force for them."""


class Report:
    """What was taken from a file.

    Attributes:
        taken: How many entries, by the name of their list.
        passed_over: Why some were not, one sentence each.
    """

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.passed_over: list[str] = []

    def pass_over(self, why: str) -> None:
        """Note something that is not taken."""
        _log.warning("a definition is passed over", why=why)
        self.passed_over.append(why)


class Definitions:
    """See the head of the module.

    Args:
        table: Where the node's settings are kept.
        users: All users.
        vhosts: What there is.
        policies: And what is in force.
        version: Of the RabbitMQ that this node is like.

    Threads: event loop only.
    """

    def __init__(
        self,
        table: MetadataTable,
        users: Users,
        vhosts: Vhosts,
        policies: Policies,
        version: str,
    ) -> None:
        self._table = table
        self._users = users
        self._vhosts = vhosts
        self._policies = policies
        self._version = version

    # Writing.

    def export(self, vhost: str | None = None) -> Exported:
        """Return everything, or what is in one virtual host, which is then not named in it.

        Exclusive queues are left out, as their connections are. What changes while it is written
        is in it or not.

        Raises:
            RequestRefused: NOT_ALLOWED; there is no such virtual host.
        """
        of = list(self._vhosts) if vhost is None else [self._vhosts.get(vhost)]
        without = () if vhost is None else ("vhost",)

        def written(
            table: EntityTable[E],
            entities_of: Callable[[VhostTopology], Iterable[E]],
            is_written: Callable[[E], bool] = lambda _: True,
        ) -> Iterator[Row]:
            every = (one for topology in of for one in list(entities_of(topology)))
            return (table.row(one, _OUTPUT, *without) for one in every if is_written(one))

        def parameters() -> Iterator[Row]:
            for topology in of:
                rules = (one for one in topology.policies() if one.is_operator)
                yield from entities.parameters(topology.vhost, rules, *without)

        found: Exported = {
            "rabbit_version": self._version,
            "parameters": parameters(),
            "policies": written(
                entities.POLICY, VhostTopology.policies, lambda one: not one.is_operator
            ),
            "queues": written(entities.QUEUE, VhostTopology.queues, lambda one: one.owner is None),
            "exchanges": written(
                entities.EXCHANGE,
                VhostTopology.exchanges,
                lambda one: bool(one.name) and not one.name.startswith(RESERVED_PREFIX),
            ),
            "bindings": written(entities.BINDING, VhostTopology.bindings),
        }
        if vhost is None:
            users, settings = self._users, self._table.of_node(GlobalParameter)
            shared = [one for one in settings if not one.name.startswith(_INTERNAL_PREFIX)]
            found |= {
                "rabbitmq_version": self._version,
                "users": _rows(entities.USER, users),
                "vhosts": _rows(entities.VHOST, [one.vhost for one in of]),
                "permissions": _rows(entities.PERMISSION, users.permissions()),
                "topic_permissions": _rows(entities.TOPIC_PERMISSION, users.topic_permissions()),
                "global_parameters": _rows(entities.GLOBAL_PARAMETER, shared),
            }
        return found

    # Taking.

    def take_steps(
        self, file: DefinitionsFile, followers: Followers, report: Report, vhost: str | None = None
    ) -> Sliced[None]:
        """Take what a file says; in pieces of a millisecond, for `runtime.slices`.

        Args:
            file: As `codec.definitions` reads it.
            followers: Told of what there is then.
            report: Told of what was taken; also of what was, if it ends before the end.
            vhost: The one that is there and whose file it is; None if the file names them.

        Raises:
            RequestRefused: Something cannot be; what stands before it was taken.
            DiskFull, DiskFailed: As that.
        """

        def each(name: str, entries: Sequence[T], take: Callable[[T], object]) -> Sliced[None]:
            for start in range(0, len(entries), _PIECE_ENTRIES):
                some = entries[start : start + _PIECE_ENTRIES]
                yield partial(_taken, name, some, take, report)

        def where(one: _InVhost) -> str:
            return _where(one, vhost)

        if vhost is None:
            version = _first_set(file.rabbitmq_version, file.rabbit_version)
            yield from each("users", file.users or (), lambda one: self.put_user(one, version))
            yield from each(
                "vhosts", file.vhosts or (), lambda one: self._take_vhost(one, followers)
            )
        yield lambda: self._check_room(file, vhost)
        if vhost is None:
            yield from each("permissions", file.permissions or (), self.allow)
            yield from each("topic_permissions", file.topic_permissions or (), self.allow)
        yield from each(
            "exchanges", file.exchanges, lambda one: self.declare_exchange(where(one), one)
        )
        if vhost is None:
            yield from each(
                "global_parameters", file.global_parameters or (), self.put_global_parameter
            )
        yield from each("policies", file.policies, lambda one: self.put_policy(where(one), one))
        yield from each(
            "parameters", file.parameters, lambda one: self.put_parameter(where(one), one)
        )
        if file.policies or file.parameters:
            for topology in [self._vhost(vhost)] if vhost is not None else list(self._vhosts):
                yield from topology.reapply_steps(followers.queues_changed)
        yield from each(
            "queues", file.queues, lambda one: self._take_queue(where(one), one, followers)
        )
        yield from each("bindings", file.bindings, lambda one: self.bind(where(one), one))

    def put_user(self, given: UserDefinition, version: str | None = None) -> None:
        """Add or replace a user.

        Args:
            given: With a password or the hash of one.
            version: Of the RabbitMQ that has hashed it, if the user does not say how.

        Raises:
            RequestRefused: PRECONDITION_FAILED.
            DiskFull, DiskFailed: All is as before.
        """
        old = self._users.get(given.name)
        algorithm = SHA256
        if given.password is not UNSET and given.password_hash is not UNSET:
            raise precondition_failed(
                f"user '{given.name}': both_password_and_password_hash_are_provided"
            )
        if given.password_hash is not UNSET:
            try:
                password_hash = base64.b64decode(given.password_hash, validate=True)
            except (binascii.Error, ValueError) as error:
                raise precondition_failed(
                    f"user '{given.name}': its password hash is not in base 64"
                ) from error
            if given.hashing_algorithm is not UNSET:
                algorithm = given.hashing_algorithm
            elif version is not None and version.startswith(_MD5_VERSIONS):
                algorithm = MD5
        elif given.password:
            password_hash = passwords.hashed(given.password.encode())
        else:
            password_hash = b""
        if isinstance(given.limits, Mapping):
            limits = dict(given.limits)
        else:
            limits = {} if old is None else dict(old.limits)
        self._users.put(
            User(
                name=given.name,
                password_hash=password_hash,
                hashing_algorithm=algorithm,
                tags=given.tag_names,
                limits=limits,
            )
        )

    def put_vhost(self, given: VhostDefinition) -> VhostTopology:
        """Add a virtual host, or change what is said of it; its limits stay.

        Raises:
            RequestRefused: PRECONDITION_FAILED.
            DiskFull, DiskFailed: All is as before.
        """
        return self._vhosts.put(self._as_vhost(given))

    def check_vhost(self, given: VhostDefinition) -> None:
        """Refuse a virtual host that cannot be.

        Raises:
            RequestRefused: PRECONDITION_FAILED.
        """
        self._vhosts.check(self._as_vhost(given))

    def _as_vhost(self, given: VhostDefinition) -> Vhost:
        metadata = VhostMetadata() if given.metadata is UNSET else given.metadata
        old = self._vhosts.find(given.name)
        return Vhost(
            name=given.name,
            description=_first_set(given.description, metadata.description),
            tags=_first_set(given.tags, metadata.tags) or (),
            default_queue_type=_first_set(metadata.default_queue_type),
            limits={} if old is None else old.vhost.limits,
        )

    def put_parameter(self, vhost: str, given: ParameterDefinition) -> bool:
        """Set limits of a virtual host, or an operator's policy; say whether policies changed.

        Raises:
            RequestRefused: PRECONDITION_FAILED, also about any other component: RabbitMQ has them
                in plugins, which are not here.
            DiskFull, DiskFailed: All is as before.
        """
        topology = self._vhost(vhost)
        if given.component == VHOST_LIMITS and isinstance(given.value, Mapping):
            limits = check_vhost_limits(given.value)
            self._vhosts.put(msgspec.structs.replace(topology.vhost, limits=limits))
            return False
        if given.component == OPERATOR_POLICY and isinstance(given.value, Mapping):
            return self._policies.put(_operator_policy(vhost, given.name, given.value))
        raise precondition_failed(
            f"Validation failed\n\ncomponent {given.component} not found\n "
            f"({vhost}/{given.component}/{given.name})"
        )

    def put_global_parameter(self, given: GlobalParameter) -> None:
        """Set a setting of the node.

        Raises:
            RequestRefused: PRECONDITION_FAILED.
            DiskFull, DiskFailed: All is as before.
        """
        cluster_name.check(given)
        self._table.write(put=[given])

    def put_policy(self, vhost: str, given: PolicyDefinition) -> bool:
        """Set a policy; say whether it is another one now.

        Raises:
            RequestRefused: PRECONDITION_FAILED.
            DiskFull, DiskFailed: All is as before.
        """
        self._vhost(vhost)
        return self._policies.put(
            Policy(
                vhost=vhost,
                name=given.name,
                pattern=given.pattern,
                definition=given.definition,
                apply_to=given.apply_to,
                priority=given.priority,
            )
        )

    def allow(self, given: VhostPermission | TopicPermission) -> None:
        """Set what a user may do in a virtual host.

        Raises:
            RequestRefused: PRECONDITION_FAILED.
            DiskFull, DiskFailed: All is as before.
        """
        self._vhost(given.vhost)
        self._users.allow(given)

    def declare_exchange(self, vhost: str, given: ExchangeDefinition) -> str | None:
        """Add an exchange; say why not, if nothing is done.

        Raises:
            RequestRefused: It cannot be.
            DiskFull, DiskFailed: All is as before.
        """
        topology = self._vhost(vhost)
        resource = exchange_resource(given.name, vhost)
        if not given.name or given.name.startswith(RESERVED_PREFIX):
            return f"{resource.text} is the broker's own"
        exchange = Exchange(
            vhost=vhost,
            name=given.name,
            type=given.type,
            is_durable=given.durable,
            is_auto_delete=given.auto_delete,
            is_internal=given.internal is True,
            arguments=_arguments(given.arguments),
        )
        found = topology.find_exchange(given.name)
        if found is None:
            topology.declare_exchange(exchange, _EVERYBODY)
        elif entities.EXCHANGE.row(found, _OUTPUT) != entities.EXCHANGE.row(exchange, _OUTPUT):
            return f"{resource.text} is there already, and another one"
        return None

    def declare_queue(self, vhost: str, given: QueueDefinition) -> DeclaredQueue | str | None:
        """Add a queue and return it; say why not, if nothing is done though it is not there.

        Raises:
            RequestRefused: It cannot be.
            DiskFull, DiskFailed: All is as before.
        """
        topology = self._vhost(vhost)
        resource = queue_resource(given.name, vhost)
        if not given.name or given.name.startswith(RESERVED_PREFIX):
            return f"{resource.text} is the broker's own"
        found = topology.find_queue(given.name)
        if found is not None:
            if (found.is_durable, found.is_auto_delete, arguments_to_json(found.arguments)) != (
                given.durable,
                given.auto_delete,
                given.arguments,
            ):
                return f"{resource.text} is there already, and another one"
            return None
        queue = DeclaredQueue(
            vhost=vhost,
            name=given.name,
            is_durable=given.durable,
            is_auto_delete=given.auto_delete,
            arguments=_arguments(given.arguments),
        )
        return topology.declare_queue(queue, _EVERYBODY).queue

    def bind(self, vhost: str, given: BindingDefinition) -> str | None:
        """Add a binding; say why not, if nothing is done.

        Raises:
            RequestRefused: It cannot be.
            DiskFull, DiskFailed: All is as before.
        """
        if given.destination_type not in (kind.value for kind in ResourceKind):
            raise precondition_failed(
                f"a binding cannot lead to a {given.destination_type}, only to a queue or exchange"
            )
        destination = Destination(ResourceKind(given.destination_type), given.destination)
        wanted = binding(
            vhost, given.source, destination, given.routing_key, _arguments(given.arguments)
        )
        try:
            self._vhost(vhost).bind(wanted, _EVERYBODY)
        except RequestRefused as error:
            # A file leaves internal exchanges out, but not their bindings.
            if error.code != ReplyCode.NOT_FOUND:
                raise
            return f"a binding from {given.source!r} to {given.destination!r}: {error.remark}"
        return None

    def _vhost(self, name: str) -> VhostTopology:
        found = self._vhosts.find(name)
        if found is None:
            raise precondition_failed(
                f'Please create virtual host "{name}" prior to importing definitions.'
            )
        return found

    # Taking, one by one.

    def _take_vhost(self, given: VhostDefinition, followers: Followers) -> None:
        is_new = self._vhosts.find(given.name) is None
        topology = self.put_vhost(given)
        if is_new:
            followers.vhost_made(topology)

    def _take_queue(self, vhost: str, given: QueueDefinition, followers: Followers) -> str | None:
        came = self.declare_queue(vhost, given)
        if isinstance(came, DeclaredQueue):
            followers.queue_made(came)
            return None
        return came

    def _check_room(self, file: DefinitionsFile, vhost: str | None) -> None:
        """Refuse more queues than a virtual host may have."""
        wanted: dict[str, set[str]] = {}
        for one in file.queues:
            wanted.setdefault(_where(one, vhost), set()).add(one.name)
        for name, queues in wanted.items():
            topology = self._vhosts.find(name)
            limit = None if topology is None else limit_of(topology.vhost.limits, QUEUES_MAX)
            if topology is None or limit is None:
                continue
            count = sum(topology.find_queue(queue) is None for queue in queues)
            there = topology.queue_count
            if count and there + count > limit:
                raise precondition_failed(
                    f'Adding {count} queue(s) to virtual host "{name}" would exceed the limit of '
                    f"{limit} queue(s).\n\nThis virtual host currently has {there} queue(s) "
                    "defined.\n\nImport aborted!"
                )


def _taken(name: str, some: Sequence[T], take: Callable[[T], object], report: Report) -> None:
    """Take some entries; one that says why it is not taken is skipped."""
    for one in some:
        try:
            why = take(one)
        except WireError as error:
            raise precondition_failed(f"{name}: {error}") from error
        if isinstance(why, str):
            report.pass_over(why)
        else:
            report.taken[name] += 1


def _where(one: _InVhost, vhost: str | None) -> str:
    """Return the virtual host that something goes to."""
    if vhost is not None:
        return vhost
    if one.vhost is UNSET:
        raise precondition_failed(
            "Virtual host does not exist and is not specified in definitions file."
        )
    return one.vhost


def _first_set(*values: "T | UnsetType") -> T | None:
    return next((value for value in values if not isinstance(value, UnsetType)), None)


def _arguments(members: Mapping[str, object]) -> FieldTable:
    try:
        return arguments_from_json(members)
    except WireError as error:
        raise precondition_failed(str(error)) from error


def _operator_policy(vhost: str, name: str, value: Mapping[str, object]) -> Policy:
    try:
        definition = value.get("definition")
        if isinstance(definition, list):  # as `rabbitmqctl` writes it; the HTTP API does not
            definition = dict(msgspec.convert(definition, list[tuple[str, object]]))
            value = {**value, "definition": definition}
        shape = msgspec.convert({**value, "name": name}, PolicyDefinition)
    except msgspec.ValidationError as error:
        raise precondition_failed(f"operator policy '{name}': {error}") from error
    return Policy(
        vhost=vhost,
        name=name,
        pattern=shape.pattern,
        definition=shape.definition,
        apply_to=shape.apply_to,
        priority=shape.priority,
        is_operator=True,
    )


def _rows(table: EntityTable[E], some: Iterable[E]) -> Iterator[Row]:
    """Give the rows of what there is now."""
    return (table.row(one, _OUTPUT) for one in list(some))
