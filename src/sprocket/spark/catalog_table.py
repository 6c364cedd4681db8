"""Tables of Spark's catalog: `CREATE TABLE … USING rocketmq OPTIONS (…)`, or `rabbitmq`.

When a table is created, Spark asks for its schema with the options given, and with what the catalog
adds: each option a second time after `option.`, the properties of the table, and words such as
`owner` and `provider`. When the table is read, Spark passes none of them, but it passes the schema
that it has kept. So the schema of a table carries its options, as metadata of its first column.

What must stay secret is not kept, since a column's metadata goes wherever the column goes, into
files as well: those who read the table give it with `SELECT … FROM t WITH (…)`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

METADATA = "sprocket.options"

_ADDED = "provider"
"""Tells what a catalog passes from what a reader is given."""
_TWIN = "option."
_SECRET = re.compile("secret|password|token|credential|key$|sas$", re.IGNORECASE)
"""Names of options whose values are not kept. It is more than Spark hides: `access_key`, too."""


def options_of_table(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is created; None if no table is described."""
    lower = {name.lower(): value for name, value in given.items()}
    if _ADDED not in lower:
        return None
    return {
        name: value for name, value in lower.items() if name == "path" or f"{_TWIN}{name}" in lower
    }


def kept(options: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that keeps what is not secret of options."""
    plain = {name: value for name, value in options.items() if not _SECRET.search(name)}
    return {METADATA: json.dumps(plain, sort_keys=True)}


def with_kept(schema: Any, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read: those that its schema keeps, where no others are given.

    Args:
        schema: The StructType that Spark wants filled.
        given: What the read was given.
    """
    found = {name.lower(): value for name, value in given.items()}
    for field in schema.fields:
        text = (field.metadata or {}).get(METADATA)
        if text is not None:
            remembered: dict[str, str] = json.loads(text)
            return remembered | found
    return found
