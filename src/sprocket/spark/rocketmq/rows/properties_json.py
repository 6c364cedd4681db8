"""Properties as JSON text, which is how the connector of Spark 2 gave them."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_TO_ESCAPE = r'["\\\x00-\x1f]'
"""What JSON does not take as it is."""


def as_json(maps: Any) -> Any:
    """Return a JSON object for each map of a map array of text, its names in their order."""
    pairs = pc.binary_join_element_wise(_quoted(maps.keys), _quoted(maps.items), ":")
    joined = pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), ",")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _quoted(texts: Any) -> Any:
    """Return texts as JSON; those with something to escape, which are few, one by one."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    odd = pc.match_substring_regex(texts, _TO_ESCAPE)
    if not pc.any(odd).as_py():
        return plain
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(escaped, pa.string()))
