"""What a slave does not do, as the master alone may; and what a master without slaves does not.

Source: RocketMQ `SendMessageProcessor.rejectRequest`, `PullMessageProcessor.rejectRequest`,
`EndTransactionProcessor`, `RecallMessageProcessor`, `AdminBrokerProcessor.resetOffset`,
`CommitLog.asyncPutMessage`.
"""

from collections.abc import Iterable, Mapping

import msgspec

from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import Region
from sprocket.rocketmq.replication import Slaves
from sprocket.rocketmq.server.dispatch import Answer, Handler, Row
from sprocket.runtime.driver import Peer

_BUSY = "[REJECTREQUEST]system busy, start flow control for a while"
"""What RocketMQ's thread pools say of what they do not take; its clients try another broker."""
_MASTER_ONLY = "a slave does not do this: ask the master"

_TO_SEND = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)
_TO_PULL = RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE
_REFUSED: Mapping[RequestCode, Answer] = {
    **dict.fromkeys(_TO_SEND, Answer(ResponseCode.SYSTEM_BUSY, None, _BUSY)),
    **dict.fromkeys(
        (RequestCode.END_TRANSACTION, RequestCode.RECALL_MESSAGE),
        Answer(ResponseCode.SLAVE_NOT_AVAILABLE, None, _MASTER_ONLY),
    ),
    **dict.fromkeys(
        (
            RequestCode.POP_MESSAGE,
            RequestCode.ACK_MESSAGE,
            RequestCode.BATCH_ACK_MESSAGE,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
            RequestCode.SEND_REPLY_MESSAGE,
            RequestCode.SEND_REPLY_MESSAGE_V2,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        ),
        Answer(ResponseCode.SYSTEM_ERROR, None, _MASTER_ONLY),
    ),
}
_UNREAD: Mapping[RequestCode, Answer] = dict.fromkeys(
    _TO_PULL, Answer(ResponseCode.SYSTEM_BUSY, None, _BUSY)
)

_TOO_FEW = Answer(ResponseCode.SYSTEM_ERROR, Region(), "in-sync replicas not enough")
"""RocketMQ's words."""


def of_slave(rows: Iterable[Row], *, is_read: bool) -> list[Row]:
    """Return rows that refuse what only a master does.

    Args:
        rows: Of a master.
        is_read: Whether consumers may read here.
    """
    refused = _REFUSED if is_read else {**_REFUSED, **_UNREAD}
    return [
        msgspec.structs.replace(row, handle=_refusing(refused[row.code]))
        if row.code in refused
        else row
        for row in rows
    ]


def of_master(rows: Iterable[Row], slaves: Slaves) -> list[Row]:
    """Return rows that refuse to store what clients send while too few slaves follow closely."""
    return [
        msgspec.structs.replace(row, handle=_with_enough(slaves, row.handle))
        if row.code in _TO_SEND
        else row
        for row in rows
    ]


def _refusing(answer: Answer) -> Handler:
    def refuse(_peer: Peer, _command: Command) -> Answer:
        return answer

    return refuse


def _with_enough(slaves: Slaves, handle: Handler) -> Handler:
    def handle_with_enough(peer: Peer, command: Command) -> Answer | None:
        return _TOO_FEW if slaves.are_too_few else handle(peer, command)

    return handle_with_enough
