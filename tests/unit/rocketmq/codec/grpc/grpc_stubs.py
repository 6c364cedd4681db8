"""Writes the files that tell type checkers of the messages that `schema` declares."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sprocket.rocketmq.codec.grpc import messages, standard_messages
from sprocket.rocketmq.codec.grpc.schema import ENUMS, MESSAGES, ProtoField
from sprocket.rocketmq.codec.grpc.standard_schema import (
    HEALTH_ENUMS,
    HEALTH_MESSAGES,
    REFLECTION_MESSAGES,
)

FILES: Final[Mapping[Path, Mapping[str, Sequence[ProtoField]]]] = {
    Path(messages.__file__).with_suffix(".pyi"): MESSAGES,
    Path(standard_messages.__file__).with_suffix(".pyi"): {
        **HEALTH_MESSAGES,
        **REFLECTION_MESSAGES,
    },
}
_ENUMS: Final = {*ENUMS, *HEALTH_ENUMS, "Code"}
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


def text(declared: Mapping[str, Sequence[ProtoField]]) -> str:
    """Return what a file is to have."""
    classes = [_class(name, fields) for name, fields in declared.items()]
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
    is_enum = field.kind in _ENUMS
    return "int" if is_enum else _TYPES.get(field.kind, field.kind)


def _is_message(field: ProtoField) -> bool:
    return not (field.kind in _TYPES or field.kind in _ENUMS)


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
    for file, declared in FILES.items():
        file.write_text(text(declared))
