"""Who of a group reads which queue.

Every member computes this alone. They agree because each sorts the same two lists: the queues of
the topic, and the client ids that the broker gives.
"""

from collections.abc import Collection

from sprocket.rocketmq.model.route import MessageQueue


def allocate(
    queues: Collection[MessageQueue], members: Collection[str], me: str
) -> list[MessageQueue]:
    """Return the queues that `me` reads: neighbours, as evenly many for each member as can be.

    Args:
        queues: All queues of one topic.
        members: Client ids of the group, in any order. A broker names a client twice while it
            holds two connections of it, as after a lost one; Java's clients then leave the share
            of the ghost unread, here it is one member.
        me: One of them; anybody else gets nothing.

    Source: RocketMQ `AllocateMessageQueueAveragely`.
    """
    if me not in members or not queues:
        return []
    ids = sorted(set(members), key=_java_order)
    count, share_count, index = len(queues), len(ids), ids.index(me)
    rest = count % share_count
    size = 1 if count <= share_count else count // share_count + (1 if index < rest else 0)
    first = index * size if rest > 0 and index < rest else index * size + rest
    return sorted(queues)[first : first + size]


def _java_order(text: str) -> bytes:
    """Return a key that sorts as Java's strings do, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")
