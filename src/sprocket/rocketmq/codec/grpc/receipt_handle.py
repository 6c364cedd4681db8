"""The handle by which a consumer names a message that it received.

It is the broker's handle of a popped message, of eight fields (`codec.pop_info`), and a ninth:
where the message lies in the log. To clients it is a text that they give back.

    start popped_at_ms invisible_ms revive_queue topic broker queue offset place

Source: RocketMQ `ReceiptHandle`.
"""

from typing import Final

from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import pop_info
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.model.pop import PopHandle

_PLACE_BITS: Final = 63


class Receipt(Struct, frozen=True, gc=False):
    """What a handle says.

    Attributes:
        handle: The broker's, with the message's offset in its queue.
        offset: That offset.
        place: Where the message lies, bytes into the log.
    """

    handle: PopHandle
    offset: int
    place: int


def encode(receipt: Receipt) -> str:
    """Return the text of a handle."""
    handle = receipt.handle
    return (
        f"{handle.start} {handle.popped_at_ms} {handle.invisible_ms} {handle.revive_queue} "
        f"{handle.topic.value} {handle.broker} {handle.queue_id} {receipt.offset} {receipt.place}"
    )


def decode(text: str) -> Receipt:
    """Return what a handle says.

    Raises:
        Declined: INVALID_RECEIPT_HANDLE; it is none.
    """
    rest, _, place = text.rpartition(" ")
    try:
        handle = pop_info.read_handle(rest)
    except WireError as error:
        raise Declined(
            Code.INVALID_RECEIPT_HANDLE, f"Parse receipt handle failed. ReceiptHandle: {text[:200]}"
        ) from error
    is_number = (
        place.isascii() and place.isdecimal() and int(place[:20]).bit_length() <= _PLACE_BITS
    )
    if handle.queue_offset is None or not is_number or len(place) > len(str(1 << _PLACE_BITS)):
        raise Declined(
            Code.INVALID_RECEIPT_HANDLE, f"Parse receipt handle failed. ReceiptHandle: {text[:200]}"
        )
    return Receipt(handle, handle.queue_offset, int(place))
