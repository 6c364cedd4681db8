"""Writes `messages.pyi`, which tells type checkers of the messages that `schema` declares."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sprocket.rocketmq.codec.grpc import messages
from sprocket.rocketmq.codec.grpc.schema import ENUMS, MESSAGES, ProtoField

FILE: Final = Path(messages.__file__).with_suffix(".pyi")
_TYPES: Final = {
    "string": "str",
    "bytes": "bytes",
    "bool": "bool",
    "int32": "int",
    "int64": "int",
    "float": "float",
    "map": "MutableMapping[str, str]",
}
_HEAD: Final = '''\
"""Made by `python -m tests.unit.rocketmq.codec.grpc.grpc_stubs`; do not edit."""

from collections.abc import Iterable, Mapping, MutableMapping

from google.protobuf.duration_pb2 import Duration
from google.protobuf.internal.containers import (
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.message import Message as _Message
from google.protobuf.timestamp_pb2 import Timestamp
'''


def text() -> str:
    """Return what the file is to have."""
    classes = [_class(name, fields) for name, fields in MESSAGES.items()]
    return "\n".join([_HEAD, *classes])


def _class(name: str, fields: Sequence[ProtoField]) -> str:
    lines = [f"class {name}(_Message):"]
    lines += [f"    {field.name}: {_held(field)}" for field in fields]
    lines.append("    def __init__(")
    lines.append("        self,")
    lines.append("        *,")
    lines += [f"        {field.name}: {_given(field)} = ...," for field in fields]
    lines.append("    ) -> None: ...")
    return "\n".join(lines) + "\n"


def _plain(field: ProtoField) -> str:
    is_enum = field.kind in ENUMS or field.kind == "Code"
    return "int" if is_enum else _TYPES.get(field.kind, field.kind)


def _is_message(field: ProtoField) -> bool:
    return not (field.kind in _TYPES or field.kind in ENUMS or field.kind == "Code")


def _held(field: ProtoField) -> str:
    plain = _plain(field)
    if not field.is_repeated:
        return plain
    kind = "Composite" if _is_message(field) else "Scalar"
    return f"Repeated{kind}FieldContainer[{plain}]"


def _given(field: ProtoField) -> str:
    if field.is_repeated:
        return f"Iterable[{_plain(field)}]"
    if field.kind == "map":
        return "Mapping[str, str]"
    return f"{_plain(field)} | None"


if __name__ == "__main__":
    FILE.write_text(text())
