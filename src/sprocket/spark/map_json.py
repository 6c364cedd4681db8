"""Maps of text as JSON, which is how the connector of Spark 2 gave properties."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_TO_ESCAPE = r'["\\\x00-\x1f]'
"""What JSON does not take as it is."""


def as_json(maps: Any) -> Any:
    """Return a JSON object for each map of a map array of text, its names in their order.

    A value that is null is null there, too, and so is a map.
    """
    values = pc.fill_null(_quoted(maps.items), "null")
    pairs = pc.binary_join_element_wise(_quoted(maps.keys), values, ":")
    joined = pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), ",")
    objects = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(pc.is_valid(maps), objects, None) if maps.null_count else objects


def _quoted(texts: Any) -> Any:
    """Return texts as JSON; those with something to escape, which are few, one by one."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    odd = pc.fill_null(pc.match_substring_regex(texts, _TO_ESCAPE), False)
    if not pc.any(odd).as_py():
        return plain
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(escaped, pa.string()))
