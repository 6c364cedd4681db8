"""Half messages: how a message is hidden until its transaction has ended.

It is stored in queue 0 of `RMQ_SYS_TRANS_HALF_TOPIC`; `REAL_TOPIC` and `REAL_QID` say where it is
to go. What happens to it then is the business of `broker.transactions`.

Source: RocketMQ `SendMessageProcessor`, `TransactionalMessageBridge.parseHalfMessageInner`.
"""

from collections.abc import Mapping

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages.diverters import InboundMessage
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import HALF_TOPIC, OP_TOPIC
from sprocket.rocketmq.model.message import TRANSACTION_MASK
from sprocket.rocketmq.store.log import check_queue


def is_transactional(found: Mapping[str, str]) -> bool:
    """Tell whether properties say that a message is to be hidden."""
    return found.get(properties.TRAN_MSG, "").lower() == "true"


def hide(message: InboundMessage) -> None:
    """Hide a message that belongs to a transaction; a `Diverter`.

    Raises:
        Refused: ILLEGAL_MESSAGE; no message can ever be where it wants to go.
    """
    found = message.properties
    if not is_transactional(found) or message.topic in (HALF_TOPIC, OP_TOPIC):
        return
    message.sys_flag &= ~TRANSACTION_MASK
    if message.sent.reconsume_times > 0 and found.get(properties.DELAY, "0") not in ("0", "-1"):
        return  # a retry of one that was consumed
    try:
        check_queue(message.topic, message.queue_id)
    except StoreError as error:
        raise Refused(Refusal.ILLEGAL_MESSAGE, str(error)) from error
    found[properties.REAL_TOPIC] = message.topic
    found[properties.REAL_QID] = str(message.queue_id)
    if properties.UNIQ_KEY in found:
        found[properties.TRANSACTION_ID] = found[properties.UNIQ_KEY]
    message.topic, message.queue_id = HALF_TOPIC, 0


def refuse_transactional(message: InboundMessage) -> None:
    """Refuse a message that belongs to a transaction, where there are to be none; a `Diverter`."""
    if is_transactional(message.properties):
        raise Refused(
            Refusal.NO_PERMISSION, "transactional messages are rejected (transactions.enabled)"
        )
