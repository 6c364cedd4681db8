"""What a master and its slaves say to each other: RocketMQ's classic way, or by epochs.

`Slaves` carries bytes, and knows neither: of each frame it asks what it means, and of each part of
the log how it is sent.

Invariants

1. No frame spans two epochs, or two files of the log.
2. By epochs, nothing counts that a slave reports for another epoch than the master's own; a slave
   that has promised a later one tells the master that its own is over.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import replication, switch_frames
from sprocket.rocketmq.codec.replication import FROM_FIRST, FROM_LAST_FILE, ReportReader
from sprocket.rocketmq.codec.switch_frames import (
    FrameReader,
    MasterHandshake,
    SlaveHandshake,
    SlaveReport,
)
from sprocket.rocketmq.errors import EpochOver, LogsDiffer
from sprocket.rocketmq.model.epochs import Epochs, ReplicaId
from sprocket.rocketmq.store.store import Store

Parts: TypeAlias = "list[bytes | memoryview]"

SlaveFrame: TypeAlias = "int | SlaveHandshake | SlaveReport"
"""What a slave sends, one way or the other."""


class Said(Struct, frozen=True):
    """What a frame of a slave means.

    Attributes:
        end: Where its log ends; −1 if it does not say.
        asked: From where on it is to be sent the log; −1 for not yet, or as before.
        is_proven: Whether it is known that its log is a beginning of the master's.
        answer: What to say back.
        replica_id: Which one it is, if it says so.
        tables: The version of this master's tables that it has.
    """

    end: int = -1
    asked: int = -1
    is_proven: bool = False
    answer: bytes = b""
    replica_id: ReplicaId | None = None
    tables: int = 0


class MasterSpeech(Protocol):
    """One of the ways."""

    def hear(self, frame: SlaveFrame, before: Said | None, /) -> Said:
        """Return what a frame means.

        Args:
            frame: It.
            before: What the slave's frame before it meant; None for its first.

        Raises:
            LogsDiffer, EpochOver, WireError: The connection is to be ended.
        """

    def parts(self, place: int, data: memoryview, part_bytes: int) -> Parts:
        """Return how bytes of the log, of one file, are sent."""

    def heartbeat(self, place: int) -> Parts:
        """Return what is sent where the next part begins at a place, and there is none yet."""


class ClassicSpeech:
    """RocketMQ's classic way: a slave only ever says where its log ends; codec: `replication`.

    Args:
        store: Of the master.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @staticmethod
    def reader() -> ReportReader:
        """Return what reads a slave's frames."""
        return ReportReader()

    def hear(self, frame: SlaveFrame, before: Said | None, /) -> Said:
        """See `MasterSpeech.hear`."""
        assert isinstance(frame, int), frame
        store = self._store
        if frame == FROM_FIRST:
            return Said(asked=-1 if before else store.first, is_proven=before is not None)
        if frame > store.written:
            raise LogsDiffer(
                f"a slave is ahead of this master: its log ends at {frame}, this one at "
                f"{store.written}; it is not that of this one"
            )
        if before is not None:
            return Said(end=frame, is_proven=True)
        return Said(
            end=frame,
            asked=store.last_file if frame == FROM_LAST_FILE else max(frame, store.first),
        )

    def parts(self, place: int, data: memoryview, part_bytes: int) -> Parts:
        """See `MasterSpeech.parts`."""
        buffers: Parts = []
        for start in range(0, len(data), part_bytes):
            part = data[start : start + part_bytes]
            buffers += (replication.part_head(place + start, len(part)), part)
        return buffers

    def heartbeat(self, place: int) -> Parts:
        """See `MasterSpeech.heartbeat`."""
        return [replication.part_head(place, 0)]


class EpochSpeech:
    """By epochs; codec: `switch_frames`.

    Args:
        store: Of the master.
        epochs: Of its log; the last one is its own.
        confirmed: Says up to where all have the log that must.
        outrun: Told of a later epoch that a slave has promised.
    """

    def __init__(
        self,
        store: Store,
        epochs: Epochs,
        confirmed: Callable[[], int],
        outrun: Callable[[int], None],
    ) -> None:
        self._store = store
        self._epochs = epochs
        self._confirmed = confirmed
        self._outrun = outrun

    @staticmethod
    def reader() -> FrameReader[SlaveHandshake | SlaveReport]:
        """Return what reads a slave's frames."""
        return switch_frames.slave_frames()

    def hear(self, frame: SlaveFrame, before: Said | None, /) -> Said:
        """See `MasterSpeech.hear`."""
        if isinstance(frame, SlaveHandshake):
            return self._greet(frame, before)
        assert isinstance(frame, SlaveReport), frame
        if before is None:
            raise WireError("a slave reports before it has said who it is")
        self._check_epoch(frame.epoch)
        if frame.epoch < self._epochs.last:
            raise WireError(
                f"a slave reports for epoch {frame.epoch}, which is over: this is "
                f"{self._epochs.last}"
            )
        if frame.end > self._store.written:
            raise LogsDiffer(
                f"a slave is ahead of this master: its log ends at {frame.end}, this one at "
                f"{self._store.written}"
            )
        asked = -1 if before.is_proven else max(frame.end, self._store.first)
        return Said(
            end=frame.end,
            asked=asked,
            is_proven=True,
            replica_id=before.replica_id,
            tables=frame.tables,
        )

    def _greet(self, frame: SlaveHandshake, before: Said | None) -> Said:
        if before is not None:
            raise WireError("a slave says twice who it is")
        if not frame.is_member:
            raise WireError(
                f"slave {frame.broker_id} does not say for which epoch it reports, as one of "
                "RocketMQ's own: it cannot be a member of this set"
            )
        self._check_epoch(frame.epoch)
        said = MasterHandshake(self._store.written, self._epochs.last, self._epochs)
        return Said(
            answer=switch_frames.master_handshake(said),
            replica_id=ReplicaId(frame.broker_id, frame.incarnation),
        )

    def _check_epoch(self, epoch: int) -> None:
        if epoch > self._epochs.last:
            self._outrun(epoch)
            raise EpochOver(f"a slave has promised epoch {epoch}: {self._epochs.last} is over")

    def parts(self, place: int, data: memoryview, part_bytes: int) -> Parts:
        """See `MasterSpeech.parts`."""
        buffers: Parts = []
        confirmed, end = self._confirmed(), place + len(data)
        at = place
        while at < end:
            epoch = self._epochs.at(at)
            assert epoch is not None, "a log's first bytes have an epoch"
            size = min(part_bytes, self._epochs.end_of(epoch.number, end) - at)
            part = data[at - place : at - place + size]
            buffers += (switch_frames.part_head(at, size, epoch, confirmed), part)
            at += size
        return buffers

    def heartbeat(self, place: int) -> Parts:
        """See `MasterSpeech.heartbeat`."""
        epoch = self._epochs.at(place)
        assert epoch is not None, "a log's first bytes have an epoch"
        return [switch_frames.part_head(place, 0, epoch, self._confirmed())]
