"""Whether something that is declared again is what is there.

Source: `rabbit_misc:assert_field_equivalence`, `assert_args_equivalence`.
"""

import re
from collections.abc import Sequence

from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.broker.topology.matching import is_equal
from sprocket.rabbitmq.codec import erlang_text
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.declared_queue import CLASSIC, QUEUE_TYPE
from sprocket.rabbitmq.model.fields import (
    INTEGERS,
    Field,
    FieldKind,
    FieldTable,
    FieldValue,
    long_string,
)
from sprocket.rabbitmq.model.resource import Resource

_PLAIN_ATOM = re.compile(r"[a-z][A-Za-z0-9_@]*")
_WHOLE = INTEGERS | {FieldKind.DECIMAL}
_FLOATS = {FieldKind.FLOAT, FieldKind.DOUBLE}


def check_field(resource: Resource, name: str, current: bool | str, received: bool | str) -> None:
    """Refuse another value of a field.

    Raises:
        RequestRefused: PRECONDITION_FAILED.
    """
    if current != received:
        raise _differs(resource, name, f"'{_atom(received)}'", f"'{_atom(current)}'")


def check_arguments(
    resource: Resource, names: Sequence[str], current: FieldTable, received: FieldTable
) -> None:
    """Refuse another value of one of some arguments; others are not compared.

    Raises:
        RequestRefused: PRECONDITION_FAILED; about the first that differs, in the order of `names`.
    """
    for name in names:
        old, new = current.get(name), received.get(name)
        if old is None or new is None:
            if old is not new and not _is_default_type(name, old or new):
                raise _differs(resource, name, _given(new), _given(old))
        elif not _is_same(old, new):
            raise _differs(resource, name, _text(new.value), _text(old.value))


def _is_default_type(name: str, given: Field | None) -> bool:
    return name == QUEUE_TYPE and given == long_string(CLASSIC)


def _is_same(old: Field, new: Field) -> bool:
    if _class(old.kind) == _class(new.kind) and is_equal(old.value, new.value):
        return True
    return type(old.value) is type(new.value) and is_equal(old.value, new.value)


def _class(kind: FieldKind) -> str:
    if kind in _WHOLE:
        return "int"
    return "float" if kind in _FLOATS else kind.word


def _differs(resource: Resource, name: str, received: str, current: str) -> RequestRefused:
    return precondition_failed(
        f"inequivalent arg '{name}' for {resource.text}: received {received} but current is "
        f"{current}"
    )


def _given(field: Field | None) -> str:
    if field is None:
        return "none"
    return f"the value {_text(field.value)} of type '{field.kind.word}'"


def _text(value: FieldValue) -> str:
    if isinstance(value, bytes):
        return f"'{value.decode('utf-8', 'surrogateescape')}'"
    return "none" if value is None else f"'{erlang_text.value_text(value)}'"


def _atom(value: bool | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if _PLAIN_ATOM.fullmatch(value) else f"'{value}'"
