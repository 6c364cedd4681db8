"""The heads of a batch body's messages, many at once; `codec.record.batch` says what they are."""

import numpy as np

from sprocket.rocketmq.codec.columns.columns import Ints
from sprocket.rocketmq.codec.record import batch

_HEAD = np.dtype(
    [("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body", ">i4")]
)
HEAD_BYTES = _HEAD.itemsize
"""What stands before the body."""
LENGTH_BYTES = batch.FRAME_BYTES - HEAD_BYTES
"""The length of the properties, between them and the body."""


def batch_heads(flags: Ints, bodies: Ints, properties: Ints) -> tuple[bytes, bytes]:
    """Return what stands before the bodies, and what stands before the properties.

    Args:
        flags: The flag of each message.
        bodies: Bytes of each body.
        properties: Bytes of each property string, at most 32,767.

    Returns:
        `HEAD_BYTES` for each message, and `LENGTH_BYTES` for each.
    """
    heads = np.zeros(len(bodies), _HEAD)
    heads["size"] = batch.FRAME_BYTES + bodies + properties
    heads["flag"] = flags
    heads["body"] = bodies
    return heads.tobytes(), properties.astype(">i2").tobytes()
