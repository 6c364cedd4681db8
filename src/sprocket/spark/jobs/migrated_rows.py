"""Rows of the format `rabbitmq` as rows that the sink of `rocketmq` takes.

RocketMQ has names and texts for its properties, and some names are its own. So

* what a message says beside its body and its headers has names that begin with `amqp_`;
* a header keeps its name, unless that name is RocketMQ's own, begins with `amqp_`, is empty, or
  holds a byte that ends a name: then it is `amqp_header_` and the name, in which `%` and the bytes
  1 and 2 are `%25`, `%01` and `%02`. So no two headers have one name;
* the byte 2 ends a value, and becomes U+2402, its picture; a value that is empty cannot be stored,
  and is left out.
"""

from typing import Any

from sprocket.rocketmq.codec.record import properties
from sprocket.spark.jobs import routes

SOURCE_COLUMNS = (
    *("vhost", "queue", "queuePriority", "seqId", "state", "isPersistent", "expiresAt", "bodySize"),
    *("exchange", "routingKeys", "body", "contentType", "contentEncoding", "headers"),
    *("deliveryMode", "priority", "correlationId", "replyTo", "expiration", "messageId"),
    *("timestamp", "type", "userId", "appId", "clusterId", "id"),
)
"""All that is read of a message."""

OWN = "amqp_"
OF_HEADERS = f"{OWN}header_"
_TRANSIENT = "__RMQ.TRANSIENT."

_AS_TEXT = {
    "vhost": "vhost",
    "queue": "queue",
    "exchange": "exchange",
    "seqId": "seq_id",
    "contentType": "content_type",
    "contentEncoding": "content_encoding",
    "deliveryMode": "delivery_mode",
    "priority": "priority",
    "correlationId": "correlation_id",
    "replyTo": "reply_to",
    "expiration": "expiration",
    "type": "type",
    "userId": "user_id",
    "appId": "app_id",
    "clusterId": "cluster_id",
}
"""Columns whose text is a property as it is, and what its name ends in."""

_END, _END_SHOWN = "\x02", "\u2402"
_PAIR_MARKS = 2
"""Bytes that a property takes beside its name and its value."""
_UNIQUE_KEY_DIGITS = 32


def as_stored(text: Any) -> Any:
    """Return a text as a property can have it."""
    from pyspark.sql import functions as F

    return F.translate(text, _END, _END_SHOWN)


def keys() -> Any:
    """Return what a message is found by: what its publisher called it; null for nothing."""
    from pyspark.sql import functions as F

    return as_stored(F.nullif(F.col("messageId"), F.lit("")))


def unique_key() -> Any:
    """Return the unique key of a message in a queue: the same whenever it is read, and no other's.

    The id alone will not do, since all queues that a message was routed to have it.
    """
    from pyspark.sql import functions as F

    place = F.concat_ws(
        "\0", "vhost", "queue", F.coalesce("queuePriority", F.lit(-1)).cast("string"), "seqId"
    )
    whole = F.concat(F.col("id"), F.encode(place, "UTF-8"))
    return F.upper(F.substring(F.sha2(whole, 256), 1, _UNIQUE_KEY_DIGITS))


def queue_name() -> Any:
    """Return what messages of one queue, and of no other, have in common."""
    from pyspark.sql import functions as F

    return F.concat_ws("\0", "vhost", "queue")


def order() -> list[Any]:
    """Return by what a queue is sorted: as a consumer would get it, high priorities first."""
    from pyspark.sql import functions as F

    return [F.col("vhost"), F.col("queue"), F.desc_nulls_last("queuePriority"), F.col("seqId")]


def properties_map() -> Any:
    """Return the properties of a message."""
    from pyspark.sql import functions as F

    values = {name: F.col(column).cast("string") for column, name in _AS_TEXT.items()}
    values["routing_key"] = routes.routing_key()
    values["timestamp"] = F.unix_seconds("timestamp").cast("string")
    values["expires_at"] = F.unix_millis("expiresAt").cast("string")
    values["redelivered"] = F.when(F.col("state") == "delivered", F.lit("true"))
    own = F.array(*(_pair(F.lit(OWN + name), value) for name, value in values.items()))
    headers = F.transform(_headers(), lambda one: _pair(_name(one["key"]), one["value"]))
    stored = F.filter(F.concat(own, headers), lambda one: F.length(one["value"]) > 0)
    return F.map_from_entries(stored)


def has_changed_headers() -> Any:
    """Return whether a header is left out, or its value is another one than it was."""
    from pyspark.sql import functions as F

    return F.exists(
        _headers(),
        lambda one: (
            (F.coalesce(F.length(one["value"]), F.lit(0)) == 0) | one["value"].contains(_END)
        ),
    )


def properties_bytes(pairs: Any, tag: Any, keys: Any) -> Any:
    """Return how many bytes properties take, with tag, keys and the unique key."""
    from pyspark.sql import functions as F

    found: Any = F.lit(len(properties.UNIQ_KEY) + _UNIQUE_KEY_DIGITS + _PAIR_MARKS)
    for name, value in ((properties.TAGS, tag), (properties.KEYS, keys)):
        found += F.coalesce(F.octet_length(value) + len(name) + _PAIR_MARKS, F.lit(0))
    return F.aggregate(
        F.map_entries(pairs),
        found,
        lambda size, one: (
            size + F.octet_length(one["key"]) + F.octet_length(one["value"]) + _PAIR_MARKS
        ),
    )


def _headers() -> Any:
    """Return the headers as an array of `key` and `value`."""
    from pyspark.sql import functions as F

    none = F.expr("cast(array() as array<struct<key:string,value:string>>)")
    return F.coalesce(F.map_entries("headers"), none)


def _pair(name: Any, value: Any) -> Any:
    from pyspark.sql import functions as F

    return F.struct(name.alias("key"), as_stored(value).alias("value"))


def _name(name: Any) -> Any:
    """Return the name of a header's property."""
    from pyspark.sql import functions as F

    escaped = name
    for mark in ("%", "\x01", _END):
        escaped = F.replace(escaped, F.lit(mark), F.lit(f"%{ord(mark):02X}"))
    is_other = (
        name.isin(*sorted(properties.RESERVED))
        | name.startswith(OWN)
        | name.startswith(_TRANSIENT)
        | name.rlike("[\x01\x02]")
        | (name == "")
    )
    return F.when(is_other, F.concat(F.lit(OF_HEADERS), escaped)).otherwise(name)
