"""The bodies of what is on a revive topic: checkpoints, and acknowledgements of one or several.

JSON, its members in the order of their names; which of the three a record is, its tag says. A
checkpoint says what one pop got of one queue, an acknowledgement which messages of it are done.

Source: RocketMQ `PopCheckPoint`, `AckMsg`, `BatchAckMsg`.
"""

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from sprocket.base.errors import WireError
from sprocket.rocketmq.model.pop import PopAck, PopCheckpoint

CHECKPOINT_TAG = "ck"
ACK_TAG = "ack"
BATCH_ACK_TAG = "bAck"
MESSAGES_MAX = 32
"""Messages of one pop: the bits of a checkpoint are an int."""


class _Checkpoint(Struct, kw_only=True):
    bitmap: int = field(name="bm", default=0)
    broker: str = field(name="bn", default="")
    group: str = field(name="c")
    differences: list[int] | UnsetType = field(name="d", default=UNSET)
    invisible_ms: int = field(name="it")
    count: int = field(name="n")
    popped_at_ms: int = field(name="pt")
    queue_id: int = field(name="q")
    due_at_ms: int = field(name="reviveTime", default=0)
    revive_offset: int = field(name="ro", default=0)
    put_again: str | UnsetType = field(name="rp", default=UNSET)
    start: int = field(name="so")
    topic: str = field(name="t")


class _Ack(Struct, kw_only=True):
    offset: int = field(name="ao", default=0)
    offsets: list[int] | UnsetType = field(name="aol", default=UNSET)
    broker: str = field(name="bn", default="")
    group: str = field(name="c")
    popped_at_ms: int = field(name="pt")
    queue_id: int = field(name="q")
    start: int = field(name="so")
    topic: str = field(name="t")


_encode = msgspec.json.Encoder().encode
_decode_checkpoint = msgspec.json.Decoder(_Checkpoint).decode
_decode_ack = msgspec.json.Decoder(_Ack).decode


def encode_checkpoint(checkpoint: PopCheckpoint) -> bytes:
    """Return the body of a checkpoint."""
    bits = checkpoint.acked & 0xFFFFFFFF
    return _encode(
        _Checkpoint(
            bitmap=bits - (bits >> 31 << 32),  # an int of Java
            broker=checkpoint.broker,
            group=checkpoint.group,
            differences=[*checkpoint.differences] if checkpoint.differences else UNSET,
            invisible_ms=checkpoint.invisible_ms,
            count=checkpoint.count,
            popped_at_ms=checkpoint.popped_at_ms,
            queue_id=checkpoint.queue_id,
            due_at_ms=checkpoint.due_at_ms,
            revive_offset=checkpoint.revive_offset,
            put_again=str(checkpoint.put_again) if checkpoint.put_again else UNSET,
            start=checkpoint.start,
            topic=checkpoint.topic,
        )
    )


def decode_checkpoint(body: bytes) -> PopCheckpoint:
    """Return the checkpoint that a body is.

    Raises:
        WireError: It is none.
    """
    try:
        said = _decode_checkpoint(body)
    except ValueError as error:
        raise WireError(f"not a checkpoint of a pop: {error}") from error
    differences = () if said.differences is UNSET else tuple(said.differences)
    again = "" if said.put_again is UNSET else said.put_again
    if not 0 < said.count <= MESSAGES_MAX or (differences and len(differences) != said.count):
        raise WireError(f"a checkpoint of {said.count} messages, with {len(differences)} offsets")
    return PopCheckpoint(
        start=said.start,
        popped_at_ms=said.popped_at_ms,
        invisible_ms=said.invisible_ms,
        count=said.count,
        topic=said.topic,
        group=said.group,
        queue_id=said.queue_id,
        broker=said.broker,
        acked=said.bitmap & 0xFFFFFFFF,
        differences=differences,
        revive_offset=said.revive_offset,
        put_again=int(again) if again.isdecimal() else 0,
    )


def encode_ack(ack: PopAck) -> bytes:
    """Return the body of acknowledgements: of one message, or of several."""
    is_one = len(ack.offsets) == 1
    return _encode(
        _Ack(
            offset=ack.offsets[0] if is_one else 0,
            offsets=UNSET if is_one else [*ack.offsets],
            broker=ack.broker,
            group=ack.group,
            popped_at_ms=ack.popped_at_ms,
            queue_id=ack.queue_id,
            start=ack.start,
            topic=ack.topic,
        )
    )


def decode_ack(body: bytes) -> PopAck:
    """Return the acknowledgements that a body has, whatever its tag. Raises WireError."""
    try:
        said = _decode_ack(body)
    except ValueError as error:
        raise WireError(f"not an acknowledgement of a pop: {error}") from error
    return PopAck(
        start=said.start,
        popped_at_ms=said.popped_at_ms,
        topic=said.topic,
        group=said.group,
        queue_id=said.queue_id,
        broker=said.broker,
        offsets=[said.offset] if said.offsets is UNSET else said.offsets,
    )
