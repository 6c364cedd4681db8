"""Up to where enough other machines have a master's log, so that its messages are acknowledged.

Two ways of counting: by number, RocketMQ's classic one; and by name, in a set with failover, where
whoever decides about masters says which members must have a message. What a slave of such a set has
reported in another epoch never gets here (`master_speech`).

Source: RocketMQ `GroupTransferService`, `AutoSwitchHAService.computeConfirmOffset`.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from sprocket.rocketmq.model.epochs import ReplicaId
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.settings import ReplicationSettings
from sprocket.rocketmq.store.store import Store


class Counted(Protocol):
    """A slave, as far as it counts."""

    @property
    def acknowledged(self) -> int:
        """Where its log ends, as it said last."""

    @property
    def is_proven(self) -> bool:
        """Whether its log is known to be a beginning of the master's."""

    @property
    def replica_id(self) -> ReplicaId | None:
        """Which one it is, if it has said so."""


C = TypeVar("C", bound=Counted)


class Acks(Protocol):
    """One of the ways."""

    @property
    def is_needed(self) -> bool:
        """Whether anybody waits for slaves at all."""

    def in_sync(self, slaves: Sequence[C]) -> list[C]:
        """Return those that count."""

    def are_missing(self, slaves: Sequence[Counted]) -> bool:
        """Say whether too few are there for anybody to wait for them."""

    def are_too_few(self, slaves: Sequence[Counted]) -> bool:
        """Say whether so few are there that sends are refused."""

    def reached(self, slaves: Sequence[Counted]) -> int:
        """Return up to where enough of them have the log; −1 if enough are not there."""

    def shown(self, confirmed: int, slaves: Sequence[Counted]) -> int:
        """Return up to where consumers may see."""


class AcksByNumber:
    """So many slaves that follow closely must have a message.

    Args:
        store: Of the master.
        settings: How many, and what is close.
    """

    def __init__(self, store: Store, settings: ReplicationSettings) -> None:
        self._store = store
        self._settings = settings
        self._needed = settings.acks_needed

    @property
    def is_needed(self) -> bool:
        """See `Acks.is_needed`."""
        return bool(self._needed)

    def in_sync(self, slaves: Sequence[C]) -> list[C]:
        """See `Acks.in_sync`: those that lack less than the limit."""
        least = self._store.written - self._settings.gap_bytes_max
        return [one for one in slaves if one.acknowledged >= least]

    def are_missing(self, slaves: Sequence[Counted]) -> bool:
        """See `Acks.are_missing`."""
        return bool(self._needed) and len(self.in_sync(slaves)) < self._needed

    def are_too_few(self, slaves: Sequence[Counted]) -> bool:
        """See `Acks.are_too_few`."""
        return 1 + len(self.in_sync(slaves)) < self._settings.in_sync_count_min

    def reached(self, slaves: Sequence[Counted]) -> int:
        """See `Acks.reached`."""
        close = self.in_sync(slaves)
        known = sorted([one.acknowledged for one in close if one.is_proven], reverse=True)
        needed = max(self._needed, len(close)) if self._settings.all_in_sync else self._needed
        return known[needed - 1] if len(known) >= needed else -1

    def shown(self, confirmed: int, slaves: Sequence[Counted]) -> int:
        """See `Acks.shown`: if too few are there, senders are told so, and consumers see all."""
        return ANYWHERE if self.are_missing(slaves) else confirmed


class Required(Struct, frozen=True):
    """Who must have a message before it is acknowledged.

    Attributes:
        replicas: Those besides the master: of the in-sync set, and any that are about to be of it.
        members_in_sync: How many the in-sync set has, the master among them.
        count_min: So many it must have, or sends are refused.
        is_held: Nothing is acknowledged for now, as it is not known whether the master still is.
    """

    replicas: frozenset[ReplicaId] = frozenset()
    members_in_sync: int = 1
    count_min: int = 1
    is_held: bool = False


class AcksByName:
    """The members that are named must have a message, whether they are there or not.

    Args:
        required: Who.
    """

    is_needed = True

    def __init__(self, required: Required) -> None:
        self._required = required

    def in_sync(self, slaves: Sequence[C]) -> list[C]:
        """See `Acks.in_sync`: those that are named."""
        return [one for one in slaves if one.replica_id in self._required.replicas]

    def are_missing(self, _: Sequence[Counted], /) -> bool:
        """See `Acks.are_missing`: one that is away is waited for as long as it is named."""
        return self._required.members_in_sync < self._required.count_min

    are_too_few = are_missing

    def reached(self, slaves: Sequence[Counted]) -> int:
        """See `Acks.reached`."""
        required = self._required
        if required.is_held or required.members_in_sync < required.count_min:
            return -1
        ends = {one.replica_id: one.acknowledged for one in slaves if one.is_proven}
        return min((ends.get(one, -1) for one in required.replicas), default=ANYWHERE)

    def shown(self, confirmed: int, _: Sequence[Counted], /) -> int:
        """See `Acks.shown`: nothing that another master may take back."""
        return confirmed
