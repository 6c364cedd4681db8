"""Texts that RocketMQ writes to files and into bodies: its own JSON, tables, Java's properties.

`fastjson` is the JSON of the library that RocketMQ uses, `declared` writes and reads structs in it,
`tables` are topics and groups, `values` reads single values as tolerantly as RocketMQ does.
"""

from sprocket.rocketmq.codec.config import declared, fastjson, java_properties, tables, values
from sprocket.rocketmq.codec.config.declared import (
    AS_GIVEN,
    REQUIRED,
    UNREAD,
    As,
    OneOf,
    by_name,
)
from sprocket.rocketmq.codec.config.fastjson import JsonObject, JsonValue
from sprocket.rocketmq.codec.config.tables import (
    DataVersion,
    FilterBits,
    FilterRule,
    RequestMode,
    RequestModeTable,
    TopicLine,
    TopicTable,
)

__all__ = [
    "AS_GIVEN",
    "REQUIRED",
    "UNREAD",
    "As",
    "DataVersion",
    "FilterBits",
    "FilterRule",
    "JsonObject",
    "JsonValue",
    "OneOf",
    "RequestMode",
    "RequestModeTable",
    "TopicLine",
    "TopicTable",
    "by_name",
    "declared",
    "fastjson",
    "java_properties",
    "tables",
    "values",
]
