"""The classes of the protocol's messages, made of `schema` when this is imported.

They are in a pool of their own, so that a client of RocketMQ in the same process, which registers
the same names in the default one, does not meet them. Needs the `grpc` extra.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from google.protobuf import duration_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from msgspec import Struct

from sprocket.rocketmq.codec.grpc.schema import ENUMS, MESSAGES, PACKAGE, RPCS, ProtoField, Rpc
from sprocket.rocketmq.codec.grpc.standard_schema import (
    HEALTH_ENUMS,
    HEALTH_MESSAGES,
    HEALTH_PACKAGE,
    HEALTH_RPCS,
    REFLECTION_MESSAGES,
    REFLECTION_PACKAGES,
    REFLECTION_RPCS,
)
from sprocket.rocketmq.codec.grpc.status import Code

_TYPES: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "float": FieldDescriptorProto.TYPE_FLOAT,
}
_WELL_KNOWN: Final = {"Timestamp": timestamp_pb2, "Duration": duration_pb2}


class _Declared(Struct, frozen=True):
    """What one file of the protocol declares.

    Attributes:
        name: What the file is called.
        package: Its package.
        enums: Values and their numbers by name.
        messages: Fields by name.
        rpcs: The methods of its service.
    """

    name: str
    package: str
    enums: Mapping[str, Mapping[str, int]]
    messages: Mapping[str, Sequence[ProtoField]]
    rpcs: Sequence[Rpc]

    @property
    def has_well_known(self) -> bool:
        """Whether it needs protobuf's own messages."""
        kinds = {field.kind for fields in self.messages.values() for field in fields}
        return not kinds.isdisjoint(_WELL_KNOWN)


def _numbered(enums: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    return {
        name: dict(zip(values, range(len(values)), strict=True)) for name, values in enums.items()
    }


_FILES: Final = (
    _Declared(
        "sprocket/rocketmq.proto",
        PACKAGE,
        {**_numbered(ENUMS), "Code": {code.name: code.value for code in Code}},
        MESSAGES,
        RPCS,
    ),
    _Declared(
        "sprocket/health.proto",
        HEALTH_PACKAGE,
        _numbered(HEALTH_ENUMS),
        HEALTH_MESSAGES,
        HEALTH_RPCS,
    ),
    *(
        _Declared(f"sprocket/{package}.proto", package, {}, REFLECTION_MESSAGES, [rpc])
        for package, rpc in zip(REFLECTION_PACKAGES, REFLECTION_RPCS, strict=True)
    ),
)


def _file(declared: _Declared) -> FileDescriptorProto:
    """Return what a file declares as protobuf has it."""
    file = FileDescriptorProto(name=declared.name, package=declared.package, syntax="proto3")
    if declared.has_well_known:
        file.dependency.extend(module.DESCRIPTOR.name for module in _WELL_KNOWN.values())
    for name, values in declared.enums.items():
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in declared.messages.items():
        _fill(file.message_type.add(name=name), fields, declared)
    service = file.service.add(name=declared.rpcs[0].service.rpartition(".")[2])
    for rpc in declared.rpcs:
        service.method.add(
            name=rpc.name,
            input_type=f".{declared.package}.{rpc.request}",
            output_type=f".{declared.package}.{rpc.response}",
            client_streaming=rpc.takes_stream,
            server_streaming=rpc.gives_stream,
        )
    return file


def _fill(message: DescriptorProto, fields: Iterable[ProtoField], declared: _Declared) -> None:
    """Add fields to a message; what tells optional ones apart comes after all choices."""
    fields = [*fields]
    choices = [*dict.fromkeys(field.choice for field in fields if field.choice)]
    for choice in choices:
        message.oneof_decl.add(name=choice)
    for field in fields:
        made = message.field.add(name=field.name, number=field.number)
        made.json_name = _json_name(field.name)
        is_many = field.is_repeated or field.kind == "map"
        made.label = made.LABEL_REPEATED if is_many else made.LABEL_OPTIONAL
        if field.choice:
            made.oneof_index = choices.index(field.choice)
        if field.kind in _TYPES:
            made.type = _TYPES[field.kind]
        elif field.kind in declared.enums:
            made.type, made.type_name = made.TYPE_ENUM, f".{declared.package}.{field.kind}"
        else:
            made.type, made.type_name = made.TYPE_MESSAGE, _message_name(message, field, declared)
        if field.is_optional and made.type != made.TYPE_MESSAGE:
            made.proto3_optional = True
            made.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _message_name(message: DescriptorProto, field: ProtoField, declared: _Declared) -> str:
    """Return the full name of a field's message; that of a map is made here."""
    if field.kind in _WELL_KNOWN:
        return f".google.protobuf.{field.kind}"
    if field.kind != "map":
        return f".{declared.package}.{field.kind}"
    entry = field.name.title().replace("_", "") + "Entry"
    made = message.nested_type.add(name=entry)
    made.options.map_entry = True
    _fill(made, (ProtoField("key", 1, "string"), ProtoField("value", 2, "string")), declared)
    return f".{declared.package}.{message.name}.{entry}"


def _json_name(name: str) -> str:
    """Return what a field is called in JSON; tools that ask for it do not make it of its name."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    for module in _WELL_KNOWN.values():
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for declared in _FILES:
        pool.AddSerializedFile(_file(declared).SerializeToString())
    return pool


POOL: Final = _pool()
"""What describes the messages."""

SERVICES: Final = [rpc.service for declared in _FILES for rpc in declared.rpcs[:1]]
"""The full names of all services."""


def _classes(package: str, names: Iterable[str]) -> dict[str, type[Message]]:
    return {
        name: message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{package}.{name}"))
        for name in names
    }


def well_known(name: str) -> type[Message]:
    """Return one of protobuf's own messages, as those of this pool have it."""
    return _classes("google.protobuf", [name])[name]


CLASSES: Final = _classes(PACKAGE, MESSAGES)
"""The classes of RocketMQ's protocol, by name."""
STANDARD_CLASSES: Final = {
    **_classes(HEALTH_PACKAGE, HEALTH_MESSAGES),
    **_classes(REFLECTION_PACKAGES[0], REFLECTION_MESSAGES),
}
"""Those of health and reflection."""
