"""The JSON that `rabbitmqctl export_definitions` writes, and what stands in it.

Arguments lose their types there: a number comes back as the type `long`.

Source: `rabbit_definitions`, `rabbit_misc:amqp_table`, `to_amqp_table`.
"""

import base64
import math
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sprocket.base.errors import WireError
from sprocket.rabbitmq.model.fields import (
    Field,
    FieldKind,
    FieldTable,
    FieldValue,
    ScaledInteger,
    long_string,
)
from sprocket.rabbitmq.model.policy import GlobalParameter
from sprocket.rabbitmq.model.user import TopicPermission, VhostPermission

DEPTH_MAX = 64
"""Lists and objects in each other among arguments."""

_INT64 = 1 << 63
_LINE_CHARACTERS = 76


class _Definition(Struct, frozen=True):
    """Members that are unset are left out."""


class UserDefinition(_Definition, frozen=True, kw_only=True):
    """A user; one of `password_hash` and `password`, or neither: then no password fits."""

    name: str
    password_hash: str | UnsetType = UNSET
    """In base 64."""
    password: str | UnsetType = UNSET
    hashing_algorithm: str | UnsetType = UNSET
    tags: tuple[str, ...] | str = ()
    """Old files have a text with commas."""
    limits: Mapping[str, int] | tuple[()] | UnsetType = UNSET

    @property
    def tag_names(self) -> tuple[str, ...]:
        """The tags, one by one."""
        tags = self.tags.split(",") if isinstance(self.tags, str) else self.tags
        return tuple(tag.strip() for tag in tags if tag.strip())


class VhostMetadata(_Definition, frozen=True, kw_only=True):
    """What is said of a virtual host."""

    description: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    default_queue_type: str | UnsetType = UNSET


class VhostDefinition(_Definition, frozen=True, kw_only=True):
    """A virtual host; its limits count as the parameter `vhost-limits` only."""

    name: str
    limits: tuple[tuple[str, int], ...] | Mapping[str, int] | UnsetType = UNSET
    metadata: VhostMetadata | UnsetType = UNSET
    description: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET


class ParameterDefinition(_Definition, frozen=True, kw_only=True):
    """A setting of a component; operators' policies and the limits of virtual hosts are here."""

    vhost: str | UnsetType = UNSET
    component: str
    name: str
    value: object


class PolicyDefinition(_Definition, frozen=True, kw_only=True, rename={"apply_to": "apply-to"}):
    """A policy."""

    vhost: str | UnsetType = UNSET
    name: str
    pattern: str
    apply_to: str = "all"
    priority: int | float = 0
    definition: Mapping[str, object]


class QueueDefinition(_Definition, frozen=True, kw_only=True):
    """A queue."""

    vhost: str | UnsetType = UNSET
    name: str
    type: str | UnsetType = UNSET
    """Not read: the arguments say it."""
    durable: bool
    auto_delete: bool
    arguments: Mapping[str, object] = {}


class ExchangeDefinition(_Definition, frozen=True, kw_only=True):
    """An exchange."""

    vhost: str | UnsetType = UNSET
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool | UnsetType = UNSET
    """RabbitMQ reads it, and leaves internal exchanges out of what it writes."""
    arguments: Mapping[str, object] = {}


class BindingDefinition(_Definition, frozen=True, kw_only=True):
    """A binding."""

    vhost: str | UnsetType = UNSET
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: Mapping[str, object] = {}


class DefinitionsFile(_Definition, frozen=True, kw_only=True):
    """Everything. A file of one virtual host has no users, and its entries do not name the host."""

    rabbit_version: str | UnsetType = UNSET
    rabbitmq_version: str | UnsetType = UNSET
    users: tuple[UserDefinition, ...] | UnsetType = UNSET
    vhosts: tuple[VhostDefinition, ...] | UnsetType = UNSET
    permissions: tuple[VhostPermission, ...] | UnsetType = UNSET
    topic_permissions: tuple[TopicPermission, ...] | UnsetType = UNSET
    parameters: tuple[ParameterDefinition, ...] = ()
    global_parameters: tuple[GlobalParameter, ...] | UnsetType = UNSET
    policies: tuple[PolicyDefinition, ...] = ()
    queues: tuple[QueueDefinition, ...] = ()
    exchanges: tuple[ExchangeDefinition, ...] = ()
    bindings: tuple[BindingDefinition, ...] = ()


_decode = msgspec.json.Decoder(DefinitionsFile).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def decode(data: bytes) -> DefinitionsFile:
    """Return what a file says; members that nobody knows are skipped, as RabbitMQ does.

    Raises:
        WireError: It is not such a file; the text says where.
    """
    try:
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(f"these are not definitions: {error}") from error


def encode_entries(entries: object) -> bytes:
    """Return some entries of one list of a file, themselves a list, as they are in it."""
    return _encode(entries)


def arguments_from_json(members: Mapping[str, object]) -> FieldTable:
    """Return arguments with the types that RabbitMQ gives them.

    Raises:
        WireError: There is a null, or a number that is too large.
    """
    return _table(members, 0)


def arguments_to_json(arguments: FieldTable) -> dict[str, object]:
    """Return arguments as they are in a file; of one name the first counts."""
    found: dict[str, object] = {}
    for name, field in arguments:
        found.setdefault(name, _plain(field.value))
    return found


def _table(members: Mapping[str, object], depth: int) -> FieldTable:
    return FieldTable(tuple((name, _field(value, depth)) for name, value in members.items()))


def _field(value: object, depth: int) -> Field:
    if depth > DEPTH_MAX:
        raise WireError(f"arguments are nested deeper than {DEPTH_MAX}")
    match value:
        case bool():
            return Field(FieldKind.BOOL, value)
        case int() if -_INT64 <= value < _INT64:
            return Field(FieldKind.LONG, value)
        case float() if math.isfinite(value):
            return Field(FieldKind.DOUBLE, value)
        case str():
            return long_string(value)
        case list() | tuple():
            return Field(FieldKind.ARRAY, tuple(_field(one, depth + 1) for one in value))
        case Mapping():
            return Field(FieldKind.TABLE, _table(value, depth + 1))
        case _:
            raise WireError(f"an argument cannot be {value!r}")


def _plain(value: FieldValue) -> object:
    match value:
        case FieldTable():
            return arguments_to_json(value)
        case ScaledInteger(scale, unscaled):
            return unscaled / 10**scale
        case tuple():
            return [_plain(field.value) for field in value]
        case bytes():
            return _text(value)
        case None:
            return "undefined"  # as RabbitMQ writes a void
        case _:
            return value


def _text(octets: bytes) -> str:
    """Return a string; one that is not text is given in base 64, as by RabbitMQ."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        told = base64.b64encode(octets).decode()
        lines = (told[at : at + _LINE_CHARACTERS] for at in range(0, len(told), _LINE_CHARACTERS))
        return "Not UTF-8, base64 is: " + "\n".join(lines)
