"""Typed values and tables of them: from Python's own values, and drawn."""

from collections.abc import Mapping

from hypothesis import strategies as st

from sprocket.rabbitmq.model.fields import (
    Field,
    FieldKind,
    FieldTable,
    FieldValue,
    ScaledInteger,
)

_RANGES = {
    FieldKind.BYTE: (-(1 << 7), (1 << 7) - 1),
    FieldKind.UNSIGNED_BYTE: (0, (1 << 8) - 1),
    FieldKind.SHORT: (-(1 << 15), (1 << 15) - 1),
    FieldKind.UNSIGNED_SHORT: (0, (1 << 16) - 1),
    FieldKind.SIGNED_INT: (-(1 << 31), (1 << 31) - 1),
    FieldKind.UNSIGNED_INT: (0, (1 << 32) - 1),
    FieldKind.LONG: (-(1 << 63), (1 << 63) - 1),
    FieldKind.LONG_CAPITAL: (-(1 << 63), (1 << 63) - 1),
    FieldKind.TIMESTAMP: (0, (1 << 32) - 1),
}

_floats32 = st.floats(allow_nan=False, allow_infinity=False, width=32)
_floats64 = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(codec="utf-8"), max_size=20)


def _simple(kind: FieldKind) -> st.SearchStrategy[Field]:
    """Draw a value of a kind that holds no others."""
    values: st.SearchStrategy[bool | int | float | bytes | ScaledInteger | None]
    if kind in _RANGES:
        values = st.integers(*_RANGES[kind])
    elif kind is FieldKind.BOOL:
        values = st.booleans()
    elif kind in (FieldKind.FLOAT, FieldKind.DOUBLE):
        values = _floats32 if kind is FieldKind.FLOAT else _floats64
    elif kind is FieldKind.DECIMAL:
        values = st.builds(ScaledInteger, st.integers(0, 20), st.integers(0, (1 << 31) - 1))
    elif kind is FieldKind.VOID:
        values = st.none()
    elif kind is FieldKind.LONG_STRING:
        values = names.map(str.encode)
    else:
        values = st.binary(max_size=20)
    return values.map(lambda value: Field(kind, value))


_simple_fields = st.sampled_from(
    [kind for kind in FieldKind if kind not in (FieldKind.ARRAY, FieldKind.TABLE)]
).flatmap(_simple)


def _table(values: st.SearchStrategy[Field]) -> st.SearchStrategy[FieldTable]:
    entries = st.lists(st.tuples(names, values), max_size=5)
    return entries.map(lambda found: FieldTable(tuple(found)))


def fields() -> st.SearchStrategy[Field]:
    """Draw a value of any kind, arrays and tables of such included."""
    return st.recursive(
        _simple_fields,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda found: Field(FieldKind.ARRAY, tuple(found))),
            _table(inner).map(lambda found: Field(FieldKind.TABLE, found)),
        ),
        max_leaves=8,
    )


def tables_of() -> st.SearchStrategy[FieldTable]:
    """Draw a table; names may come twice."""
    return _table(fields())


def flat_tables() -> st.SearchStrategy[FieldTable]:
    """Draw a table of simple values, no name twice."""
    entries = st.dictionaries(names, _simple_fields, max_size=5)
    return entries.map(lambda found: FieldTable(tuple(found.items())))


def table(members: Mapping[str, object] | None) -> FieldTable:
    """Return a table with the types that pika gives to Python's values."""
    return FieldTable(tuple((name, field(value)) for name, value in (members or {}).items()))


def field(value: object) -> Field:
    """Return a value with the type that pika gives it."""
    kind: FieldKind
    given: FieldValue
    match value:
        case None:
            kind, given = FieldKind.VOID, None
        case bool():
            kind, given = FieldKind.BOOL, value
        case int():
            is_long = not -(1 << 31) <= value < 1 << 31
            kind, given = FieldKind.LONG if is_long else FieldKind.SIGNED_INT, value
        case float():
            kind, given = FieldKind.DOUBLE, value
        case str():
            kind, given = FieldKind.LONG_STRING, value.encode()
        case list():
            kind, given = FieldKind.ARRAY, tuple(field(one) for one in value)
        case dict():
            kind, given = FieldKind.TABLE, table(value)
        case _:
            raise AssertionError(f"{value!r} has no type")
    return Field(kind, given)
