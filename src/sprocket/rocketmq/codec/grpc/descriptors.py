"""The classes of the protocol's messages, made of `schema` when this is imported.

They are in a pool of their own, so that a client of RocketMQ in the same process, which registers
the same names in the default one, does not meet them. Needs the `grpc` extra.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf import duration_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from sprocket.rocketmq.codec.grpc.schema import ENUMS, MESSAGES, PACKAGE, ProtoField
from sprocket.rocketmq.codec.grpc.status import Code

_FILE: Final = "sprocket/rocketmq.proto"
_TYPES: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "float": FieldDescriptorProto.TYPE_FLOAT,
}
_WELL_KNOWN: Final = {"Timestamp": timestamp_pb2, "Duration": duration_pb2}
_ENUMS: Final = {
    **{name: dict(zip(values, range(len(values)), strict=True)) for name, values in ENUMS.items()},
    "Code": {code.name: code.value for code in Code},
}


def _file() -> FileDescriptorProto:
    """Return the schema as protobuf has it."""
    file = FileDescriptorProto(name=_FILE, package=PACKAGE, syntax="proto3")
    file.dependency.extend(module.DESCRIPTOR.name for module in _WELL_KNOWN.values())
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in MESSAGES.items():
        _fill(file.message_type.add(name=name), fields)
    return file


def _fill(message: DescriptorProto, fields: Sequence[ProtoField]) -> None:
    """Add fields to a message; what tells optional ones apart comes after all choices."""
    choices = [*dict.fromkeys(field.choice for field in fields if field.choice)]
    for choice in choices:
        message.oneof_decl.add(name=choice)
    for field in fields:
        made = message.field.add(name=field.name, number=field.number)
        is_many = field.is_repeated or field.kind == "map"
        made.label = made.LABEL_REPEATED if is_many else made.LABEL_OPTIONAL
        if field.choice:
            made.oneof_index = choices.index(field.choice)
        if field.kind in _TYPES:
            made.type = _TYPES[field.kind]
        elif field.kind in _ENUMS:
            made.type, made.type_name = made.TYPE_ENUM, f".{PACKAGE}.{field.kind}"
        else:
            made.type, made.type_name = made.TYPE_MESSAGE, _message_name(message, field)
        if field.is_optional and made.type != made.TYPE_MESSAGE:
            made.proto3_optional = True
            made.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _message_name(message: DescriptorProto, field: ProtoField) -> str:
    """Return the full name of a field's message; that of a map is made here."""
    if field.kind in _WELL_KNOWN:
        return f".google.protobuf.{field.kind}"
    if field.kind != "map":
        return f".{PACKAGE}.{field.kind}"
    entry = field.name.title().replace("_", "") + "Entry"
    made = message.nested_type.add(name=entry)
    made.options.map_entry = True
    _fill(made, (ProtoField("key", 1, "string"), ProtoField("value", 2, "string")))
    return f".{PACKAGE}.{message.name}.{entry}"


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    for module in _WELL_KNOWN.values():
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_file().SerializeToString())
    return pool


POOL: Final = _pool()
"""What describes the messages."""


def _class(name: str) -> type[Message]:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


CLASSES: Final = {name: _class(name) for name in MESSAGES}
"""The classes, by name."""
