"""How the queues of a topic are shared out among the members of a group.

Whoever does it, each consumer by itself or a broker for all of them, sorts the same two lists, the
queues and the client ids, and so comes to the same shares.

Source: RocketMQ `AllocateMessageQueueAveragely`, `AllocateMessageQueueAveragelyByCircle`.
"""

from collections.abc import Callable, Collection, Sequence

from sprocket.rocketmq.model.route import MessageQueue

AVERAGELY = "AVG"
BY_CIRCLE = "AVG_BY_CIRCLE"
"""Names of strategies on the wire."""

Share = Callable[[Sequence[MessageQueue], int, int], list[MessageQueue]]
"""Returns the queues, sorted, of one of so many members: `share(queues, count, index)`."""


def averagely(queues: Sequence[MessageQueue], count: int, index: int) -> list[MessageQueue]:
    """Return neighbours, as evenly many for each member as can be."""
    rest = len(queues) % count
    size = 1 if len(queues) <= count else len(queues) // count + (1 if index < rest else 0)
    first = index * size if rest > 0 and index < rest else index * size + rest
    return list(queues[first : first + size])


def by_circle(queues: Sequence[MessageQueue], count: int, index: int) -> list[MessageQueue]:
    """Return every queue whose turn it is when they are dealt out one by one."""
    return list(queues[index::count])


SHARES: dict[str, Share] = {AVERAGELY: averagely, BY_CIRCLE: by_circle}
"""Those that need nothing but the two lists, by their names."""


def share_of(
    strategy: str, queues: Collection[MessageQueue], members: Collection[str], me: str
) -> list[MessageQueue] | None:
    """Return the queues that one member reads.

    Args:
        strategy: A name of `SHARES`.
        queues: All queues of one topic.
        members: Client ids of the group; one that is named twice is one member.
        me: One of them; anybody else gets nothing.

    Returns:
        None if the strategy is none of `SHARES`, or there is nothing or nobody to share.
    """
    share = SHARES.get(strategy)
    if share is None or not queues or not members:
        return None
    ids = sorted(set(members), key=java_order)
    return share(sorted(queues), len(ids), ids.index(me)) if me in ids else []


def java_order(text: str) -> bytes:
    """Return a key that sorts as Java's strings do, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")
