"""Which master wrote which part of a log.

Each master of a set has an epoch, a number that only rises. What it writes begins where its log
ended when it became the master, and ends where the next epoch begins:

    [1@0, 3@700, 4@900] of a log that ends at 950: 1 is [0, 700), 3 is [700, 900), 4 is [900, 950)

Nobody but the master of an epoch writes in it. So two logs that both have an epoch with the same
start are equal up to where it ends in the shorter one.

Source: RocketMQ `EpochFileCache`.
"""

from collections.abc import Sequence

from msgspec import Struct

NO_EPOCH = -1
"""The epoch of a log that has none: less than any."""


class Epoch(Struct, frozen=True, gc=False):
    """One epoch.

    Attributes:
        number: Which.
        start: Physical offset of its first byte.
    """

    number: int
    start: int

    def __str__(self) -> str:
        return f"{self.number}@{self.start}"


class ReplicaId(Struct, frozen=True):
    """Which member of a set, and which life of its folder.

    Attributes:
        broker_id: Its number in the set.
        incarnation: 16 bytes, not all zero: an emptied disk is another member.
    """

    broker_id: int
    incarnation: bytes


class CommonPoint(Struct, frozen=True, gc=False):
    """Up to where two logs are known to be equal.

    Attributes:
        at: Physical offset of the first byte that may differ, or that one of them lacks.
        epoch: The newest epoch that both have with the same start.
    """

    at: int
    epoch: int


class Epochs(Struct, frozen=True):
    """The epochs of a log, oldest first.

    Numbers and starts rise from each to the next. An epoch in which nothing was written leaves no
    entry once there is a later one with the same start.
    """

    entries: tuple[Epoch, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[Epoch]) -> "Epochs":
        """Return a list of epochs.

        Raises:
            ValueError: Numbers or starts do not rise, or are negative.
        """
        before = Epoch(NO_EPOCH, -1)
        for one in entries:
            if one.number <= before.number or one.start <= before.start:
                raise ValueError(f"epoch {one} cannot follow {before}")
            before = one
        return cls(tuple(entries))

    @property
    def last(self) -> int:
        """The number of the newest, `NO_EPOCH` without any."""
        return self.entries[-1].number if self.entries else NO_EPOCH

    @property
    def last_start(self) -> int:
        """Where the newest begins, −1 without any."""
        return self.entries[-1].start if self.entries else -1

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.entries))}]"

    def at(self, place: int) -> Epoch | None:
        """Return the epoch of the byte at a place; None if it lies before the oldest."""
        return next((one for one in reversed(self.entries) if one.start <= place), None)

    def end_of(self, number: int, log_end: int) -> int:
        """Return where an epoch of the list ends, in a log that ends at `log_end`."""
        for index, one in enumerate(self.entries):
            if one.number == number:
                later = self.entries[index + 1 : index + 2]
                return min(later[0].start, log_end) if later else log_end
        raise KeyError(number)

    def begun(self, epoch: Epoch) -> "Epochs":
        """Return the list with a new epoch behind the others.

        One that begins where it does, and so has no bytes, is left out.

        Raises:
            ValueError: It is not newer than the last one, or begins before that.
        """
        kept = self.entries
        if epoch.number > self.last and kept and kept[-1].start == epoch.start:
            kept = kept[:-1]
        return Epochs.of((*kept, epoch))

    def cut(self, end: int) -> "Epochs":
        """Return the list of the log when it is cut at `end`: without epochs that begin there."""
        return Epochs(tuple(one for one in self.entries if one.start < end))

    def from_first(self, first: int) -> "Epochs":
        """Return the list of the log when what lies before `first` was cleaned away."""
        entries = self.entries
        ended = sum(1 for later in entries[1:] if later.start <= first)
        return Epochs(entries[ended:])

    def common(self, end: int, other: "Epochs", other_end: int) -> CommonPoint | None:
        """Return up to where two logs are equal; None if no epoch says that they are anywhere.

        Args:
            end: Where the log of this list ends.
            other: The epochs of the other log.
            other_end: Where that one ends.
        """
        theirs = {one.number: one.start for one in other.entries}
        for one in reversed(self.entries):
            if theirs.get(one.number) == one.start:
                ends = self.end_of(one.number, end), other.end_of(one.number, other_end)
                return CommonPoint(min(ends), one.number)
        return None
