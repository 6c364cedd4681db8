"""Copies of stored messages: under another topic, with other properties, everything else the same.

A delayed message is delivered as a copy of the one that waited. A message that a consumer sends
back waits, or becomes a dead letter, as a copy of the one that was consumed.
"""

from msgspec import Struct

from sprocket.base.disk import Buffer
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.message import NewRecord, StoredMessage


class MessageOriginal(Struct, frozen=True):
    """A stored message and what of it is needed in its stored form.

    Attributes:
        message: The message; its properties may be changed before `copy`.
        born_host: As records hold it.
    """

    message: StoredMessage
    born_host: bytes

    @classmethod
    def read(cls, stored: Buffer) -> "MessageOriginal":
        """Take a record apart and compare its body with its checksum.

        Raises:
            WireError: It is damaged.
        """
        fields = record_layout.parts(stored, 0)[0]
        message = record.decode(stored)
        message.properties.pop(properties.CRC32, None)
        return cls(message, fields[9])

    def copy(
        self, topic: str, queue_id: int, store_host: bytes, *, more_reconsume_times: int = 0
    ) -> NewRecord:
        """Return the record to append.

        Args:
            topic: Where it goes.
            queue_id: Its queue there.
            store_host: The broker's address.
            more_reconsume_times: Deliveries to count beside those it had.
        """
        message = self.message
        found = message.properties
        return NewRecord(
            topic=topic,
            queue_id=queue_id,
            body=message.stored_body,
            properties=properties.encode(found),
            born_host=self.born_host,
            store_host=store_host,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_at_ms=message.born_at_ms,
            reconsume_times=message.reconsume_times + more_reconsume_times,
        )
