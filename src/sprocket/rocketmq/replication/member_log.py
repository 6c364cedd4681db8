"""The log of a slave in a set with failover: it agrees with its master by epochs.

    handshake → the master's epochs … compared … promised → reports · parts → `LogIntake`
                                      └ goes on where the master's does not: `MustCut`

Invariants

1. Nothing is reported on a link whose master's epoch is lower than one that was promised, and each
   report names the epoch of the link: it counts for no other one.
2. An epoch's entry is on the disk before a byte of it is reported.
3. A part is of the last epoch of this log, or begins a later one exactly where this log ends.

Source: RocketMQ `AutoSwitchHAClient`; unlike it the report names an epoch, and a log is not cut
here: its store is open.
"""

from collections.abc import Callable

from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import switch_frames
from sprocket.rocketmq.codec.switch_frames import (
    EpochPart,
    FrameReader,
    MasterHandshake,
    SlaveHandshake,
    SlaveReport,
    TablesChanged,
)
from sprocket.rocketmq.errors import EpochOver, LogsDiffer
from sprocket.rocketmq.model.epochs import NO_EPOCH, Epoch, Epochs, ReplicaId
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.replication.log_intake import AppendStored, Done, LogIntake, MasterFrame
from sprocket.rocketmq.replication.table_versions import TableVersions
from sprocket.rocketmq.store.epoch_file import EpochFile
from sprocket.rocketmq.store.store import Store


class MustCut(Struct, frozen=True):
    """Why a slave cannot follow a master: its own log goes on where the master's goes on otherwise.

    Attributes:
        at: Where it is to be cut; where it begins, or before that, nothing of it is common.
        epoch: The newest that both have, `NO_EPOCH` if none.
        master_epoch: That of the master which says so.
    """

    at: int
    epoch: int
    master_epoch: int


class MemberLog:
    """See the head of the module.

    Args:
        store: It follows another log; nothing else appends to it.
        append: Its way in.
        epochs: Those of the store, in agreement with its log.
        replica_id: Which one this is.
        to_disk: Whether it is reported what is on the disk, else what is written.
        goes_on: Told that this log goes on where the master's goes on otherwise: whoever has opened
            the store is to close it, cut the log, and open it again. Until then each link ends so.
        tables: Which version of the master's tables this slave has.

    Attributes:
        must_cut: What `goes_on` was told of the last link; None if nothing.
        confirmed: Up to where the master says that all have the log that must; −1 if it has not.

    Threads: event loop only.
    """

    def __init__(
        self,
        store: Store,
        append: AppendStored,
        epochs: EpochFile,
        replica_id: ReplicaId,
        *,
        to_disk: bool,
        goes_on: Callable[[MustCut], None],
        tables: TableVersions,
    ) -> None:
        self.must_cut: MustCut | None = None
        self.confirmed = -1
        self._store = store
        self._intake = LogIntake(store, append)
        self._epochs = epochs
        self._replica_id = replica_id
        self._to_disk = to_disk
        self._goes_on = goes_on
        self._tables = tables
        self._link_epoch = NO_EPOCH
        self._masters = Epochs()
        self._is_greeted = False

    @property
    def unstored_bytes(self) -> int:
        """How much was appended and is not stored yet."""
        return self._intake.unstored_bytes

    @property
    def is_following(self) -> bool:
        """Whether it is known that this is a beginning of the master's log."""
        return self._is_greeted

    @property
    def received(self) -> int:
        """Where the next byte of the master's log goes."""
        return self._intake.received if self._intake.is_open else self._store.end

    @property
    def safe_end(self) -> int:
        """What is reported: where the log ends that this machine has; −1 while it is not yet."""
        if not self._is_greeted:
            return -1
        return self._store.synced if self._to_disk else self._store.written

    @property
    def unanswered(self) -> str:
        """What to say of a master that ends the link before this log follows it."""
        return (
            "the master closed the connection before it said its epochs: its own is over, or it is "
            "not a member of a set with failover, as a RocketMQ is not"
        )

    @staticmethod
    def reader() -> FrameReader[MasterHandshake | EpochPart | TablesChanged]:
        """Return what reads what a master sends."""
        return switch_frames.master_frames()

    def begin(self, moved: Done, _: int | None = None, /) -> None:
        """Begin a link; nothing of an earlier one may be on its way (`unstored_bytes`).

        Args:
            moved: Told each time that there may be something to report, or why something was not
                stored: then the link is over.
        """
        self._intake.begin(moved)
        self._tables.begin_link()
        self._is_greeted, self.must_cut = False, None

    def opening(self) -> bytes:
        """Return what to say first: who this is."""
        return switch_frames.slave_handshake(
            SlaveHandshake(
                broker_id=self._replica_id.broker_id,
                incarnation=self._replica_id.incarnation,
                epoch=self._epochs.promised,
                end=self._store.end,
            )
        )

    def report(self) -> bytes:
        """Return what to say of how much there is; nothing before the master has said its epochs.

        Raises:
            EpochOver: A later epoch was promised meanwhile.
        """
        if not self._is_greeted:
            return b""
        self._check_epoch()
        said = SlaveReport(self.safe_end, self._link_epoch, self._tables.had)
        return switch_frames.slave_report(said)

    def take(self, frame: MasterFrame) -> None:
        """Take what the master has sent.

        Raises:
            EpochOver: Its epoch is over.
            LogsDiffer: This log goes beyond what both have (`must_cut`), or lacks what the master
                has not any more. It was not changed.
            WireError: It does not follow what was sent before, or is not a log.
            StoreError: It is not taken now.
        """
        self._intake.check()
        if isinstance(frame, MasterHandshake):
            self._take_handshake(frame)
            return
        if isinstance(frame, TablesChanged):
            self._tables.want(frame.version)
            return
        assert isinstance(frame, EpochPart), frame
        if not self._is_greeted:
            raise WireError("a master sends its log before its epochs")
        self._take_part(frame)

    def _take_handshake(self, said: MasterHandshake) -> None:
        if self._is_greeted:
            raise WireError("a master says its epochs twice")
        self._link_epoch = said.epoch
        self._check_epoch()
        epochs, end = self._epochs, self._store.end
        if end > self._store.first:
            point = epochs.epochs.common(end, said.epochs, said.end)
            at = self._store.first if point is None else point.at
            if at < end:
                epoch = NO_EPOCH if point is None else point.epoch
                self.must_cut = MustCut(at, epoch, said.epoch)
                self._goes_on(self.must_cut)
                raise LogsDiffer(
                    f"this log ends at {end} and has {epochs.epochs}, the master's ends at "
                    f"{said.end} and has {said.epochs}: what is beyond {at} is to be cut"
                )
            if point is not None and epochs.epochs.last > point.epoch:
                epochs.cut(end)  # those in which nothing was written
        elif epochs.epochs.entries:
            epochs.cut(0)
        epochs.promise(said.epoch)
        self._masters, self._is_greeted = said.epochs, True
        if end:
            self._intake.open()
        self._intake.moved()

    def _take_part(self, part: EpochPart) -> None:
        self._check_epoch()
        self.confirmed = max(self.confirmed, part.confirmed)
        self._store.show_to(PhysicalOffset(max(self.confirmed, 0)))
        if not part.data:
            return
        if self._masters.at(part.start) != part.epoch:
            raise WireError(
                f"a master that has {self._masters} sends its log from {part.start} on as of "
                f"epoch {part.epoch}"
            )
        if not self._intake.is_open:
            if part.start:
                self._store.begin_at(part.start)
            self._intake.open()
        elif part.start > self._intake.received == self._store.end:
            raise LogsDiffer(
                f"the master's log begins at {part.start}, this one ends at {self._store.end}: "
                "what lies between is gone there"
            )
        if part.epoch.number != self._epochs.epochs.last:
            self._begin_epoch(part.epoch, part.start)
        self._intake.take(part.start, part.data)

    def _begin_epoch(self, epoch: Epoch, start: int) -> None:
        """Note an epoch before a byte of it is taken."""
        is_first = not self._epochs.epochs.entries
        is_here = epoch.start == start == self._intake.received
        if not (is_first or (is_here and self._intake.is_between_records)):
            raise WireError(
                f"epoch {epoch} begins in a record, or not at {self._intake.received}, where this "
                f"log goes on, which has {self._epochs.epochs}"
            )
        try:
            self._epochs.follow(epoch)
        except ValueError as error:
            raise WireError(f"a master sends its log as of {error}") from None

    def _check_epoch(self) -> None:
        if self._link_epoch < self._epochs.promised:
            raise EpochOver(
                f"the master's epoch {self._link_epoch} is over: {self._epochs.promised} was "
                "promised"
            )
