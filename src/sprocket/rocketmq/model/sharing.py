"""How the queues of a topic are shared out among the members of a group.

Each consumer by itself, or a broker for all of them, sorts the same two lists, the
queues and the client ids, and so comes to the same shares.
"""

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct, field

from sprocket.rocketmq.model.route import MessageQueue

AVERAGELY = "AVG"
BY_CIRCLE = "AVG_BY_CIRCLE"
"""Names of strategies on the wire."""


class ShareQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a consumer says that asks for its queues of a topic; id and strategy may be empty."""

    topic: str
    group: str = field(name="consumerGroup")
    client_id: str
    strategy: str = field(name="strategyName")
    message_model: str


ALL_QUEUES = -1
"""The queue id that stands for all queues of a broker."""

Share = Callable[[Sequence[MessageQueue], Sequence[str], str], Sequence[MessageQueue]]
"""Returns the queues of one member: `share(queues, members, me)`, the two lists sorted and not
empty, `me` one of the members."""


def averagely(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> Sequence[MessageQueue]:
    """Give each member neighbours, as evenly many as can be.

    Source: RocketMQ `AllocateMessageQueueAveragely`.
    """
    count, share_count, index = len(queues), len(members), members.index(me)
    rest = count % share_count
    size = 1 if count <= share_count else count // share_count + (1 if index < rest else 0)
    first = index * size if rest > 0 and index < rest else index * size + rest
    return queues[first : first + size]


def by_circle(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> Sequence[MessageQueue]:
    """Deal the queues out one by one, like cards.

    Source: RocketMQ `AllocateMessageQueueAveragelyByCircle`.
    """
    return queues[members.index(me) :: len(members)]


SHARES: dict[str, Share] = {AVERAGELY: averagely, BY_CIRCLE: by_circle}
"""Those that need nothing but the two lists, by their names."""


def share_of(
    strategy: str, queues: Collection[MessageQueue], members: Collection[str], me: str
) -> list[MessageQueue] | None:
    """Return the queues of one topic that one member of a group reads.

    Members are client ids; one that is named twice is one member. Another client gets nothing.

    Returns:
        None if the strategy is not one of `SHARES`, or there is nothing or nobody to share.
    """
    share = SHARES.get(strategy)
    if share is None or not queues or not members:
        return None
    ids = sorted(set(members), key=java_order)
    return list(share(sorted(queues), ids, me)) if me in ids else []


def pop_share_of(
    strategy: str,
    queues: Collection[MessageQueue],
    members: Collection[str],
    me: str,
    more_shares: int,
) -> list[MessageQueue] | None:
    """Return the queues from which one member of a group pops; queue -1 stands for all of a broker.

    Args:
        strategy: By which shares are made, where there are any.
        queues: Of the topic.
        members: Client ids.
        me: One of them.
        more_shares: How many other members' shares each has beside its own; 0 or less, or all the
            others': each pops from all queues.

    Returns:
        As `share_of`.

    Source: RocketMQ `AllocateMessageQueueStrategyByPop` of `QueryAssignmentProcessor`.
    """
    ids = sorted(set(members), key=java_order)
    if more_shares <= 0 or more_shares >= len(ids) - 1:
        brokers = sorted({queue.broker_name for queue in queues})
        topic = next(iter(queues)).topic if queues else ""
        return [MessageQueue(topic, broker, ALL_QUEUES) for broker in brokers] or None
    if strategy not in SHARES or not queues:
        return None
    if me not in ids:
        return []
    index, ordered = ids.index(me), sorted(queues)
    if len(ids) > len(ordered):
        return [ordered[index % len(ordered)]]
    found: list[MessageQueue] = []
    for number in range(index, index + more_shares + 1):
        found += SHARES[strategy](ordered, ids, ids[number % len(ids)])
    return found


def java_order(text: str) -> bytes:
    """Return a key that sorts as Java's strings do, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")
