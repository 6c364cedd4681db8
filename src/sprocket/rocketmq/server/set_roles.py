"""What a broker of a set has beside any other: its epochs, whom it waits for, what it refuses.

Who is master is decided elsewhere (`failover`), and the log goes another way (`replication`); here
members, epochs and slaves of both are brought together.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from sprocket.base.disk import Disk
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.failover import Incarnation, Member, MemberId, Needed, Role, RoleKind
from sprocket.rocketmq.model.epochs import Epoch, ReplicaId
from sprocket.rocketmq.replication import (
    AcksByName,
    Counted,
    EpochSpeech,
    Parts,
    Required,
    Said,
    SlaveFrame,
)
from sprocket.rocketmq.server.dispatch import Answer, Handler, Row
from sprocket.rocketmq.store.epoch_file import EpochFile
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.driver import Peer

C = TypeVar("C", bound=Counted)

EARLIER = 0
"""The epoch of what a log had before it was in a set."""

_TO_SEND = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.END_TRANSACTION,
        RequestCode.RECALL_MESSAGE,
    }
)
_FENCED = Answer(
    ResponseCode.SYSTEM_BUSY, None, "[REJECTREQUEST]this broker may not be the master any more"
)
"""Clients try another broker, as they do when RocketMQ's thread pools are full."""


def replica_id(member: Member) -> ReplicaId:
    """Return how a member is named between master and slaves."""
    return ReplicaId(member.id, bytes.fromhex(member.incarnation))


def member_of(replica: ReplicaId) -> Member:
    """Return which member that is."""
    return Member(MemberId(replica.broker_id), Incarnation(replica.incarnation.hex()))


def open_epochs(disk: Disk, folder: str, store: Store, role: Role) -> EpochFile:
    """Return the epochs of a store that was just opened in a role.

    That of a master has its own then, on the disk: slaves follow no earlier one. What a log had
    before it was in a set is of epoch `EARLIER`, if it becomes the master's; a slave's without
    epochs agrees with no master, which makes it anew.

    Raises:
        ForeignStore: They are damaged, or do not belong to this log.
        DiskFull, DiskFailed: The epoch could not be noted.
    """
    epochs = EpochFile(disk, StoreLayout(folder))
    if epochs.epochs.entries:
        epochs.agree_with(store.first, store.end)
    if role.kind is RoleKind.MASTER:
        if not epochs.epochs.entries and store.end > store.first:
            epochs.begin(Epoch(EARLIER, store.first))
        if epochs.epochs.last < role.epoch:
            epochs.begin(Epoch(role.epoch, store.end))
    return epochs


class SetAcks:
    """Whom a master waits for, by name, for as long as it may acknowledge; a `replication.Acks`.

    Args:
        needed: Who.
        may_acknowledge: Says whether anything may be acknowledged now.
    """

    is_needed = True

    def __init__(self, needed: Needed, may_acknowledge: Callable[[], bool]) -> None:
        self._named = AcksByName(
            Required(
                replicas=frozenset(map(replica_id, needed.members)),
                members_in_sync=needed.in_sync_count,
                count_min=needed.in_sync_min,
            )
        )
        self._may_acknowledge = may_acknowledge

    def in_sync(self, slaves: Sequence[C]) -> list[C]:
        """See `Acks`."""
        return self._named.in_sync(slaves)

    def are_missing(self, slaves: Sequence[Counted]) -> bool:
        """See `Acks`."""
        return self._named.are_missing(slaves)

    def are_too_few(self, slaves: Sequence[Counted]) -> bool:
        """See `Acks`."""
        return self._named.are_too_few(slaves)

    def reached(self, slaves: Sequence[Counted]) -> int:
        """See `Acks`: nothing more while this broker may not be the master."""
        return self._named.reached(slaves) if self._may_acknowledge() else -1

    def shown(self, confirmed: int, slaves: Sequence[Counted]) -> int:
        """See `Acks`."""
        return self._named.shown(confirmed, slaves)


class HeardSpeech:
    """What slaves say by epochs, of which whoever decides is told as well; a `MasterSpeech`.

    Args:
        speech: Understands it.
        heard: Told which slave has the log up to where, and which version of the tables.
    """

    def __init__(self, speech: EpochSpeech, heard: Callable[[Member, int, int], None]) -> None:
        self._speech = speech
        self._heard = heard

    def hear(self, frame: SlaveFrame, before: Said | None, /) -> Said:
        """See `MasterSpeech`."""
        said = self._speech.hear(frame, before)
        if said.replica_id is not None and said.end >= 0:
            self._heard(member_of(said.replica_id), said.end, said.tables)
        return said

    def parts(self, place: int, data: memoryview, part_bytes: int) -> Parts:
        """See `MasterSpeech`."""
        return self._speech.parts(place, data, part_bytes)

    def heartbeat(self, place: int) -> Parts:
        """See `MasterSpeech`."""
        return self._speech.heartbeat(place)


def refusing_sends(rows: Iterable[Row], is_refused: Callable[[], bool]) -> list[Row]:
    """Return rows that take nothing to store while that is to be refused."""
    return [
        msgspec.structs.replace(row, handle=_unless(is_refused, row.handle))
        if row.code in _TO_SEND
        else row
        for row in rows
    ]


def _unless(is_refused: Callable[[], bool], handle: Handler) -> Handler:
    def handle_unless(peer: Peer, command: Command) -> Answer | None:
        return _FENCED if is_refused() else handle(peer, command)

    return handle_unless
