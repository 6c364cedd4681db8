"""Inner batches taken apart: one record that holds many messages, as its readers see them.

The body is that of a batch send (`codec.batch`). A message has its own flag, body and properties,
the queue offset of the record and its place in the batch together, and all else from the record.

Source: RocketMQ `MessageDecoder.decodeMessage`.
"""

from collections.abc import Sequence

from msgspec import structs

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.record import batch, properties, record
from sprocket.rocketmq.model.message import INNER_BATCH, NEED_UNWRAP, StoredMessage

_INNER = INNER_BATCH | NEED_UNWRAP


def decode_messages(data: Buffer) -> list[StoredMessage]:
    """Decode what a pull answered: messages, those of inner batches each by itself.

    Raises:
        WireError: As `record.decode_all`.
    """
    found = record.decode_all(data)
    if not any(one.sys_flag & INNER_BATCH for one in found):
        return found
    return [message for one in found for message in unwrapped(one)]


def unwrapped(stored: StoredMessage) -> Sequence[StoredMessage]:
    """Return the messages of a record: itself, unless it is an inner batch.

    One whose body is none is handed out whole: its checksum is right, so it is what was sent.
    """
    if stored.sys_flag & _INNER != _INNER:
        return [stored]
    try:
        parts = batch.split(stored.stored_body)
    except WireError:
        return [stored]
    return [
        structs.replace(
            stored,
            queue_offset=stored.queue_offset + number,
            sys_flag=stored.sys_flag & ~_INNER,
            flag=flag,
            properties=properties.decode(text),
            stored_body=body,
        )
        for number, (flag, body, text) in enumerate(zip(*parts, strict=True))
    ]
