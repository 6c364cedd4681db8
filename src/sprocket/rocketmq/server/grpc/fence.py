"""Stands before the handlers of a broker that may not store at the moment.

A member of a set that may not be the master any more takes nothing, nor does a master with too few
slaves where its settings ask for some.
"""

from collections.abc import Callable, Iterable
from typing import Final

from google.protobuf.message import Message

from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.model.rights import Requirement
from sprocket.rocketmq.server.grpc.calls import ClientCall
from sprocket.rocketmq.server.grpc.dispatch import CallGuard

TO_STORE: Final = frozenset(
    {"SendMessage", "EndTransaction", "RecallMessage", "ForwardMessageToDeadLetterQueue"}
)


class Fence:
    """Refuses calls that store messages while there is a reason for it; a `CallGuard`.

    Args:
        refusal: Gives the reason; empty if there is none.
        behind: What looks at a call next, if there is something.
    """

    def __init__(self, refusal: Callable[[], str], behind: CallGuard | None) -> None:
        self._refusal = refusal
        self._behind = behind

    def check(self, call: ClientCall[Message, Message], needs: Iterable[Requirement]) -> None:
        """Return if a call may be handled. Raises Declined."""
        why = self._refusal() if call.method_name in TO_STORE else ""
        if why:
            raise Declined(Code.TOO_MANY_REQUESTS, why)
        if self._behind is not None:
            self._behind.check(call, needs)
