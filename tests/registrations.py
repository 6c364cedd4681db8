"""Registrations as brokers of RocketMQ send them with `compressedRegister`."""

import struct
import zlib

from sprocket.rocketmq.codec.config import declared
from sprocket.rocketmq.codec.registration_body import RegisterBrokerBody


def compressed(body: RegisterBrokerBody) -> bytes:
    """Return the body of REGISTER_BROKER 103; `order` and `sys_flag` of topics are not in it."""
    return zlib.compress(sections(body))


def sections(body: RegisterBrokerBody) -> bytes:
    """Return what is compressed: each part an int32 size and its text."""
    parts = [sized(declared.encode(body.version)), struct.pack(">i", len(body.topics))]
    for topic in body.topics:
        attributes = declared.encode(dict(topic.attributes)).decode()
        line = (
            f"{topic.name} {topic.read_queues} {topic.write_queues} {topic.perm} "
            f"{topic.filter_type} {attributes}"
        )
        parts.append(sized(line.encode()))
    parts.append(sized(declared.encode(list(body.filter_servers))))
    parts.append(struct.pack(">i", 0))
    return b"".join(parts)


def sized(text: bytes) -> bytes:
    """Return a text behind its size."""
    return struct.pack(">i", len(text)) + text
