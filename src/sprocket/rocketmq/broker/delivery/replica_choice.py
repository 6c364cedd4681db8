"""Which of the brokers with the same log a consumer is to ask next, and what a slave may say.

What lies far behind the end of the log is not in memory: its reader would have the master's disk
busy, so a slave is suggested. A slave sends everybody back who is near the end again, but while its
master is gone it answers itself.

A slave's log may end before its master's. So it never says that an offset is wrong: consumers would
be set back, or passed over what only the master has. It says to try again at the same one, and as
long as its master is there it does not let pulls wait, since the master has what comes sooner.

Source: RocketMQ `PullMessageProcessor.composeResponseHeader`, `DefaultPullMessageResultHandler`,
`DefaultMessageStore.nextOffsetCorrection`. Unlike there, only a master that has a slave suggests
one, and a slave without a master lets pulls wait: RocketMQ's have them come again at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import structs

from sprocket.rocketmq.broker.delivery.pull import Pulled, PullOutcome
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MASTER_ID
from sprocket.rocketmq.store.read import GetResult, GetStatus

_OUTSIDE = frozenset(
    {
        GetStatus.NO_MATCHED_LOGIC_QUEUE,
        GetStatus.NO_MESSAGE_IN_QUEUE,
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_ONE,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
    }
)
"""Nothing was looked at, so that where to go on is a guess."""


@dataclass(frozen=True, slots=True)
class ReplicaChoice:
    """See the head of the module.

    Attributes:
        is_slave: Whether this broker is a slave.
        other_is_there: Says whether the master is followed now, or, to a master, whether a slave is
            connected.
    """

    is_slave: bool
    other_is_there: Callable[[], bool]

    def next_broker(self, group: SubscriptionGroup, result: GetResult) -> int:
        """Return the number of the broker that a group is to ask next.

        Args:
            group: Who reads.
            result: What it has got.
        """
        if result.suggest_slave and (self.is_slave or self.other_is_there()):
            return group.slow_broker_id
        if self.is_slave and self.other_is_there():
            return MASTER_ID
        return group.broker_id

    def seen_here(self, pulled: Pulled, asked: int) -> Pulled:
        """Return what a slave says of a pull in the place of a master.

        Args:
            pulled: What a master would say.
            asked: The offset that was asked for.
        """
        outcome, result = pulled.outcome, pulled.result
        if outcome is PullOutcome.FOUND or result.status is GetStatus.OFFSET_RESET:
            return pulled
        if result.status in _OUTSIDE:
            result = structs.replace(result, next_offset=QueueOffset(asked))
            outcome = PullOutcome.NOTHING_NEW
        if not result.suggest_slave and self.other_is_there():
            outcome = PullOutcome.TRY_AGAIN
        return structs.replace(pulled, outcome=outcome, result=result)
