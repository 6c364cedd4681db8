"""Headers that the broker changes: as RabbitMQ does, it sorts them by name then."""

from sprocket.rabbitmq.model.fields import Field, FieldTable
from sprocket.rabbitmq.model.names import name_bytes


def put(table: FieldTable, name: str, value: Field) -> FieldTable:
    """Put a value in the place of the first of that name, or add it; the result is sorted."""
    entries = list(table.entries)
    at = _find(table, name)
    if at is None:
        entries.append((name, value))
    else:
        entries[at] = (name, value)
    return in_order(FieldTable(tuple(entries)))


def without(table: FieldTable, name: str) -> FieldTable:
    """Return a table without the first value of a name; the rest stays as it is."""
    at = _find(table, name)
    if at is None:
        return table
    return FieldTable(table.entries[:at] + table.entries[at + 1 :])


def in_order(table: FieldTable) -> FieldTable:
    """Return a table sorted by its names' octets."""
    return FieldTable(tuple(sorted(table.entries, key=lambda entry: name_bytes(entry[0]))))


def _find(table: FieldTable, name: str) -> int | None:
    return next((at for at, (known, _) in enumerate(table.entries) if known == name), None)
