"""Texts that RocketMQ writes to files: its own JSON, tables, Java's properties.

`fastjson` is the JSON of the library that RocketMQ uses, `tables` are topics and groups, `values`
reads single values as tolerantly as RocketMQ does.
"""

from sprocket.rocketmq.codec.config import fastjson, java_properties, tables, values
from sprocket.rocketmq.codec.config.fastjson import JsonObject, JsonValue
from sprocket.rocketmq.codec.config.tables import (
    DataVersion,
    GroupLine,
    RegisterBrokerBody,
    TopicLine,
    decode_register_broker,
    decode_topic,
    encode_register_broker,
    encode_topic,
    group_from_json,
    group_to_json,
    topic_from_json,
    topic_to_json,
)

__all__ = [
    "DataVersion",
    "GroupLine",
    "JsonObject",
    "JsonValue",
    "RegisterBrokerBody",
    "TopicLine",
    "decode_register_broker",
    "decode_topic",
    "encode_register_broker",
    "encode_topic",
    "fastjson",
    "group_from_json",
    "group_to_json",
    "java_properties",
    "tables",
    "topic_from_json",
    "topic_to_json",
    "values",
]
