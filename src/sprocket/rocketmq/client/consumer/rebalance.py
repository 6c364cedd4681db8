"""Which member of a group reads which queue.

Every member computes this alone. They agree because each gets the same two sorted lists, the queues
of the topic and the client ids that the broker gives, and because all have the same strategy.
"""

import bisect
import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.sharing import averagely, by_circle, java_order

__all__ = [
    "Strategy",
    "allocate",
    "averagely",
    "by_circle",
    "by_config",
    "by_machine_room",
    "consistent_hash",
    "nearby",
]

Strategy = Callable[[Sequence[MessageQueue], Sequence[str], str], Iterable[MessageQueue]]
"""Gets the queues of one topic, the client ids of the group, both sorted and not empty, and the id
of who asks, one of those; returns the queues that this one reads. One of this module, or yours."""


def allocate(
    strategy: Strategy, queues: Collection[MessageQueue], members: Collection[str], me: str
) -> list[MessageQueue]:
    """Return the queues of one topic that `me` reads, by a strategy; others get none.

    A broker names a client twice while it holds two connections of it, as after a lost one. Java's
    clients then leave the share of the ghost unread; here it is one member.

    Raises:
        InvalidMessage: The strategy raised something, or gave a queue that does not exist.
    """
    if me not in members or not queues:
        return []
    ordered = sorted(queues)
    try:
        share = list(strategy(ordered, sorted(set(members), key=java_order), me))
        unknown = set(share) - set(ordered)
    except BaseException as error:  # it is the user's, and may raise anything
        raise InvalidMessage(f"the strategy failed with {error!r}") from error
    if unknown:
        names = ", ".join(str(one) for one in sorted(unknown))
        raise InvalidMessage(f"the strategy gave {names}, which the topic does not have")
    return share


def by_config(wanted: Iterable[MessageQueue]) -> Strategy:
    """Return the strategy that gives this member the wanted queues, whoever else there is.

    Queues of a topic that are not there yet are read once they are.

    Source: RocketMQ `AllocateMessageQueueByConfig`.
    """
    chosen = frozenset(wanted)

    def strategy(
        queues: Sequence[MessageQueue], _members: Sequence[str], _me: str
    ) -> Sequence[MessageQueue]:
        return [queue for queue in queues if queue in chosen]

    return strategy


def by_machine_room(rooms: Collection[str]) -> Strategy:
    """Return the strategy that shares out the queues of brokers in some machine rooms.

    Args:
        rooms: Names of rooms. A broker called `room@name` is in that room; queues of all others
            are read by nobody.

    Source: RocketMQ `AllocateMessageQueueByMachineRoom`.
    """
    chosen = frozenset(rooms)

    def strategy(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> Sequence[MessageQueue]:
        near = [queue for queue in queues if _room(queue) in chosen]
        size, rest = divmod(len(near), len(members))
        index = members.index(me)
        share = near[index * size : (index + 1) * size]
        if index < rest:
            share.append(near[len(members) * size + index])
        return share

    return strategy


def nearby(
    room_of_broker: Callable[[str], str],
    room_of_member: Callable[[str], str],
    inner: Strategy = averagely,
) -> Strategy:
    """Return the strategy by which the queues of a machine room stay in that room.

    Queues of a room without members are shared out among all members.

    Args:
        room_of_broker: Gives the room of a broker, from its name.
        room_of_member: Gives the room of a consumer, from its client id, `<ip>@<name>`.
        inner: Shares out the queues within a room.

    Source: RocketMQ `AllocateMachineRoomNearby`.
    """

    def strategy(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> Sequence[MessageQueue]:
        queues_by_room: dict[str, list[MessageQueue]] = defaultdict(list)
        members_by_room: dict[str, list[str]] = defaultdict(list)
        for queue in queues:
            queues_by_room[_named(room_of_broker, queue.broker_name)].append(queue)
        for member in members:
            members_by_room[_named(room_of_member, member)].append(member)
        mine = room_of_member(me)
        share: list[MessageQueue] = []
        if mine in queues_by_room:
            share += inner(queues_by_room[mine], members_by_room[mine], me)
        for room in sorted(queues_by_room.keys() - members_by_room.keys()):
            share += inner(queues_by_room[room], members, me)
        return share

    return strategy


def consistent_hash(nodes: int = 10) -> Strategy:
    """Return the strategy that moves few queues when a member comes or goes.

    Args:
        nodes: Places of each member on the ring; more of them make shares more even.

    Source: RocketMQ `AllocateMessageQueueConsistentHash`.
    """

    def strategy(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> Sequence[MessageQueue]:
        ring = {_md5(f"{member}-{node}"): member for member in members for node in range(nodes)}
        places = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            place = bisect.bisect_left(places, _md5(_java_text(queue)))
            return ring[places[place % len(places)]]

        return [queue for queue in queues if owner(queue) == me]

    return strategy


def _room(queue: MessageQueue) -> str | None:
    """Return the room in a broker's name, or None if there is not exactly one."""
    parts = queue.broker_name.split("@")
    return parts[0] if len(parts) == 2 else None


def _named(room_of: Callable[[str], str], name: str) -> str:
    room = room_of(name)
    if not room:
        raise InvalidMessage(f"no machine room is given for {name!r}; every one needs a name")
    return room


def _java_text(queue: MessageQueue) -> str:
    """Return a queue as Java's clients print it, which is what they hash."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name},"
        f" queueId={queue.queue_id}]"
    )


def _md5(text: str) -> int:
    """Return the place of a text on the ring: the first four bytes of its MD5."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")
