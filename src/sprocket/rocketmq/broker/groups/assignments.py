"""Which queues a consumer reads that leaves rebalancing to brokers.

It asks one of them for its queues of a topic, on every broker, and gets those that it would have
computed itself with the strategy that it names.

Source: RocketMQ `QueryAssignmentProcessor`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sprocket.rocketmq.broker.groups.client_manager import ClientManager
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.model import sharing
from sprocket.rocketmq.model.group import BROADCASTING
from sprocket.rocketmq.model.internal import LIGHT_PREFIX
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.sharing import ShareQuery


@dataclass(frozen=True, slots=True)
class Assignments:
    """Divides queues among the members of a group."""

    _members: ClientManager
    _topics: Topics
    _broker_name: str

    def share(
        self,
        query: ShareQuery,
        queues: Sequence[MessageQueue] | None,
        pop_shares: int | None = None,
    ) -> list[MessageQueue] | None:
        """Return a consumer's queues, None if it is to keep those that it has.

        Args:
            query: Who asks, for which topic.
            queues: The topic's on all brokers; None for those that this broker has.
            pop_shares: Of a group that pops, how many other shares each member has; None of one
                that pulls.
        """
        if queues is None:
            topic = self._topics.get(query.topic)
            count = 0 if topic is None else topic.read_queues
            queues = [MessageQueue(query.topic, self._broker_name, n) for n in range(count)]
        if query.topic.startswith(LIGHT_PREFIX):
            return [MessageQueue(query.topic, self._broker_name, 0)]
        if query.message_model == BROADCASTING:
            return sorted(queues) or None
        if not query.client_id:
            return None
        ids = self._members.consumers(query.group).client_ids()
        if pop_shares is not None:
            return sharing.pop_share_of(query.strategy, queues, ids, query.client_id, pop_shares)
        return sharing.share_of(query.strategy, queues, ids, query.client_id)
