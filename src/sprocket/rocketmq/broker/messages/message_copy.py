"""Copies of stored messages: under another topic, with other properties, everything else the same.

A delayed message is delivered as a copy of the one that waited. A message that a consumer sends
back waits, or becomes a dead letter, as a copy of the one that was consumed.
"""

from sprocket.rocketmq.codec.record import parse_host, properties
from sprocket.rocketmq.model.message import NewRecord, StoredMessage


def copy_of(
    message: StoredMessage,
    topic: str,
    queue_id: int,
    store_host: bytes,
    *,
    more_reconsume_times: int = 0,
) -> NewRecord:
    """Return the record to append.

    Args:
        message: What is copied; its properties may have been changed.
        topic: Where it goes.
        queue_id: Its queue there.
        store_host: The broker's address.
        more_reconsume_times: Deliveries to count beside those it had.
    """
    found = message.properties
    return NewRecord(
        topic=topic,
        queue_id=queue_id,
        body=message.stored_body,
        properties=properties.encode(
            {name: value for name, value in found.items() if name != properties.CRC32}
        ),
        born_host=parse_host(message.born_host),
        store_host=store_host,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_at_ms=message.born_at_ms,
        reconsume_times=message.reconsume_times + more_reconsume_times,
    )
