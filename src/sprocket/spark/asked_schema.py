"""A schema that somebody gave: which types its columns may have, and values that do not fit it.

Spark believes a source that no value is null where the schema says so, and fails on one with a
stack trace of Java.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sprocket.base.errors import SettingsError
from sprocket.spark.mode import Mode

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})


def require_kind(name: str, kind: str, field: Any, mode: Mode) -> None:
    """Check that a column can be given as a schema has it; whole numbers may have any width.

    Args:
        name: The column.
        kind: Its own type, in Spark's words.
        field: The StructField that it is to fill.
        mode: What becomes of damage.

    Raises:
        SettingsError: It has another type, or may be null where the mode gives rows for damage.
    """
    found = field.dataType.simpleString()
    if found != kind and not {found, kind} <= _WHOLE:
        raise SettingsError(f"column {name!r} is {kind}, the schema says {found}")
    if mode is Mode.PERMISSIVE and not field.nullable:
        raise SettingsError(
            f"column {name!r} is NOT NULL in the schema, and mode PERMISSIVE gives rows for damage,"
            " where it may be null"
        )


def fitted(name: str, values: Any, field: Any, place: Callable[[int], str]) -> Any:
    """Return values of a column as a schema has them.

    Args:
        name: The column.
        values: Its Arrow array.
        field: The Arrow field that it is to fill.
        place: Returns where the row of a number was read, for errors.

    Raises:
        SettingsError: One is null, or a number too large, where the schema does not allow that.
    """
    if values.null_count and not field.nullable:
        row = pc.index(pc.is_null(values), value=True).as_py()
        raise SettingsError(
            f"column {name!r} is null {place(row)}, and NOT NULL in the schema; leave that away"
        )
    if values.type == field.type:
        return values
    try:
        return values.cast(field.type)
    except pa.ArrowInvalid:
        if not pa.types.is_integer(field.type):
            raise
    again = values.cast(field.type, safe=False).cast(values.type)
    row = pc.index(pc.not_equal(again, values), value=True).as_py()
    raise SettingsError(
        f"column {name!r} is {values[row]} {place(row)}, more than {field.type} of the schema holds"
    )
