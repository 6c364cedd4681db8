"""The entities that are declared, each spelt once: its kind, its key, and the columns of its JSON.

The metadata journal writes kinds and keys, definitions and the HTTP API write rows. A column of the
name `vhost` is left out of definitions of one virtual host.

Source: `rabbit_definitions`, `rabbit_mgmt_format`.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from enum import Flag
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from msgspec import UNSET
from msgspec.structs import fields

from sprocket.rabbitmq.codec.definitions import arguments_to_json
from sprocket.rabbitmq.model.binding import Binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.policy import GlobalParameter, Policy
from sprocket.rabbitmq.model.user import TopicPermission, User, VhostPermission
from sprocket.rabbitmq.model.vhost import RemovedVhost, Vhost

OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
"""The components that have parameters."""
LIMITS: Final = "limits"
"""The one parameter of the component `vhost-limits`."""

Entity: TypeAlias = (
    Vhost
    | RemovedVhost
    | User
    | VhostPermission
    | TopicPermission
    | Policy
    | GlobalParameter
    | Exchange
    | DeclaredQueue
    | Binding
)
"""Whatever is kept."""

E = TypeVar("E", bound=Entity)
Row: TypeAlias = dict[str, object]
"""A JSON object."""


class Output(Flag):
    """Where a column is written."""

    DEFINITIONS = 1
    API = 2
    BOTH = 3


class EntityColumn(NamedTuple, Generic[E]):
    """One member of an entity's JSON."""

    name: str
    get: Callable[[E], object]
    """Gives its value; `UNSET` if this entity does not have it."""
    output: Output = Output.BOTH


class EntityTable(Generic[E]):
    """See the head of the module.

    Args:
        entity: Its type.
        kind: What lines of the metadata journal call it.
        key: The fields by which it is known in its virtual host; the attribute gives their values.
        columns: Of its JSON, in the order of the API; by default its fields.
    """

    def __init__(
        self, entity: type[E], kind: str, key: tuple[str, ...], *columns: EntityColumn[E]
    ) -> None:
        self.entity = entity
        self.kind = kind
        self.key = attrgetter(*key)
        every = columns or [
            EntityColumn[E](one.name, attrgetter(one.name)) for one in fields(entity)
        ]
        self._columns = {of: [one for one in every if of in one.output] for of in Output}

    def row(self, entity: E, output: Output, *without: str) -> Row:
        """Return an entity's JSON, without some of its columns."""
        return {
            one.name: value
            for one in self._columns[output]
            if one.name not in without and (value := one.get(entity)) is not UNSET
        }


def _metadata(vhost: Vhost) -> Row:
    return {"description": vhost.description or "", "tags": vhost.tags}


def _whole_metadata(vhost: Vhost) -> Row:
    default = vhost.default_queue_type
    return _metadata(vhost) | ({} if default is None else {"default_queue_type": default})


REMOVED_VHOST: Final = EntityTable(RemovedVhost, "removed vhost", ("name",))
GLOBAL_PARAMETER: Final = EntityTable(GlobalParameter, "global parameter", ("name",))
PERMISSION: Final = EntityTable(VhostPermission, "permission", ("user",))
TOPIC_PERMISSION: Final = EntityTable(TopicPermission, "topic permission", ("user", "exchange"))
VHOST: Final = EntityTable(
    Vhost,
    "vhost",
    ("name",),
    EntityColumn("name", lambda one: one.name),
    EntityColumn("limits", lambda one: sorted(one.limits.items()), Output.DEFINITIONS),
    EntityColumn("metadata", _whole_metadata, Output.DEFINITIONS),
    EntityColumn("description", lambda one: one.description or "", Output.API),
    EntityColumn("tags", lambda one: one.tags, Output.API),
    EntityColumn(
        "default_queue_type", lambda one: one.default_queue_type or "undefined", Output.API
    ),
    EntityColumn("metadata", _metadata, Output.API),
)
USER: Final = EntityTable(
    User,
    "user",
    ("name",),
    EntityColumn("name", lambda one: one.name),
    EntityColumn("password_hash", lambda one: base64.b64encode(one.password_hash).decode()),
    EntityColumn("hashing_algorithm", lambda one: one.hashing_algorithm),
    EntityColumn("tags", lambda one: one.tags),
    EntityColumn("limits", lambda one: one.limits),
)
POLICY: Final = EntityTable(
    Policy,
    "policy",
    ("name", "is_operator"),
    EntityColumn("vhost", lambda one: one.vhost),
    EntityColumn("name", lambda one: one.name),
    EntityColumn("pattern", lambda one: one.pattern),
    EntityColumn("apply-to", lambda one: one.apply_to),
    EntityColumn("definition", lambda one: one.definition),
    EntityColumn("priority", lambda one: one.priority),
)
"""Of users and of operators; in definitions those of operators are parameters."""
EXCHANGE: Final = EntityTable(
    Exchange,
    "exchange",
    ("name",),
    EntityColumn("name", lambda one: one.name),
    EntityColumn("vhost", lambda one: one.vhost),
    EntityColumn("type", lambda one: one.type),
    EntityColumn("durable", lambda one: one.is_durable),
    EntityColumn("auto_delete", lambda one: one.is_auto_delete),
    EntityColumn("internal", lambda one: one.is_internal, Output.API),
    EntityColumn("internal", lambda one: one.is_internal or UNSET, Output.DEFINITIONS),
    EntityColumn("arguments", lambda one: arguments_to_json(one.arguments)),
)
QUEUE: Final = EntityTable(
    DeclaredQueue,
    "queue",
    ("name",),
    EntityColumn("name", lambda one: one.name),
    EntityColumn("vhost", lambda one: one.vhost),
    EntityColumn("durable", lambda one: one.is_durable),
    EntityColumn("auto_delete", lambda one: one.is_auto_delete),
    EntityColumn("exclusive", lambda one: one.owner is not None, Output.API),
    EntityColumn("arguments", lambda one: arguments_to_json(one.arguments)),
    EntityColumn("type", lambda one: one.type, Output.DEFINITIONS),
)
BINDING: Final = EntityTable(
    Binding,
    "binding",
    ("source", "destination", "key", "arguments"),
    EntityColumn("source", lambda one: one.source),
    EntityColumn("vhost", lambda one: one.vhost),
    EntityColumn("destination", lambda one: one.destination.name),
    EntityColumn("destination_type", lambda one: one.destination.kind.value),
    EntityColumn("routing_key", lambda one: one.key),
    EntityColumn("arguments", lambda one: arguments_to_json(one.arguments)),
)


def parameters(vhost: Vhost, operators: Iterable[Policy], *without: str) -> Iterator[Row]:
    """Give the parameters of a virtual host: operators' policies, and its limits if it has any."""
    of: Row = {} if "vhost" in without else {"vhost": vhost.name}
    for one in operators:
        value = {
            "pattern": one.pattern,
            "definition": one.definition,
            "priority": one.priority,
            "apply-to": one.apply_to,
        }
        yield of | {"component": OPERATOR_POLICY, "name": one.name, "value": value}
    if vhost.limits:
        yield of | {"component": VHOST_LIMITS, "name": LIMITS, "value": vhost.limits}


TABLES: Final = (
    VHOST,
    REMOVED_VHOST,
    USER,
    PERMISSION,
    TOPIC_PERMISSION,
    POLICY,
    GLOBAL_PARAMETER,
    EXCHANGE,
    QUEUE,
    BINDING,
)
