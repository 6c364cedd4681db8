"""AMQP 0-9-1 as bytes: frames, methods, field tables, properties, and why a server refuses.

`frames` has what is sent, `methods` every method, `tables` and `properties` what messages and
arguments consist of.
"""

from sprocket.rabbitmq.codec.amqp import frames, methods, properties, tables
from sprocket.rabbitmq.codec.amqp.contents import SentMessage
from sprocket.rabbitmq.codec.amqp.properties import Envelope
from sprocket.rabbitmq.codec.amqp.reply_codes import (
    AmqpError,
    ReplyCode,
    binary_text,
    frame_error,
    numbers_text,
    reply_text,
    unexpected_frame,
)

__all__ = [
    "AmqpError",
    "Envelope",
    "ReplyCode",
    "SentMessage",
    "binary_text",
    "frame_error",
    "frames",
    "methods",
    "numbers_text",
    "properties",
    "reply_text",
    "tables",
    "unexpected_frame",
]
