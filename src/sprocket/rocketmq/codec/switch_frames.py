"""The frames between a master and its slaves in a set with failover; see docs/formats/epochs.md.

They are those of RocketMQ's controller mode (`AutoSwitchHAService`). All begin with a state, i32:

    slave   HANDSHAKE  4 last file only, i16 · 6 does not count, i16 · 8 broker id, i64
            TRANSFER   4 where its log ends, i64
    master  HANDSHAKE  4 size n, i32 · 8 where its log ends, i64 · 16 its epoch, i32 ·
                       20 its epochs, n bytes: each number, i32, and start, i64
            TRANSFER   4 size n, i32 · 8 where the part begins, i64 · 16 its epoch, i32 ·
                       20 where that begins, i64 · 28 what is confirmed, i64 · 36 n bytes of the log

A part lies in one file of the log and in one epoch. Without bytes it is a heartbeat. The last part
of an epoch that RocketMQ's master sends names the next one; its slaves lack the epoch then.

A slave of ours says more, under states that RocketMQ does not know: which life of its folder it is,
the highest epoch that it has promised to follow, where its log ends, and with each report the
epoch that it belongs to. RocketMQ's slave says none of that, so a master could count what another
epoch has made void: the two are told apart by the state, and not mixed in one set.

    slave   MEMBER_HANDSHAKE  as HANDSHAKE · 16 incarnation, 16 bytes · 32 epoch, i32 · 36 end, i64
            MEMBER_TRANSFER   as TRANSFER · 12 epoch, i32 · 16 version of tables, i64

And a master of ours tells such slaves that its tables (topics, groups, offsets) have changed:

    master  TABLES     4 their version, i64, which only rises while it is master
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar, cast

from msgspec import Struct

from sprocket.base.disk import Buffer
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.replication import PART_BYTES_MAX
from sprocket.rocketmq.model.epochs import NO_EPOCH, Epoch, Epochs

F = TypeVar("F")

EPOCHS_MAX = 65_536
"""Epochs of one log: with a switch each minute, those of 45 days; older ones go with its files."""

INCARNATION_BYTES = 16

_INT_MAX = (1 << 31) - 1


class State(IntEnum):
    """What a frame is; the first two are RocketMQ's `HAConnectionState`."""

    HANDSHAKE = 1
    TRANSFER = 2
    MEMBER_HANDSHAKE = 0x5301
    MEMBER_TRANSFER = 0x5302
    TABLES = 0x5303


_STATE = struct.Struct(">i")
_SLAVE_HANDSHAKE = struct.Struct(">ihhq")
_MEMBER_HANDSHAKE = struct.Struct(f">ihhq{INCARNATION_BYTES}siq")
_SLAVE_REPORT = struct.Struct(">iq")
_MEMBER_REPORT = struct.Struct(">iqiq")
_TABLES = struct.Struct(">iq")
_MASTER_HANDSHAKE = struct.Struct(">iiqi")
_EPOCH = struct.Struct(">iq")
_PART_HEAD = struct.Struct(">iiqiqq")


class SlaveHandshake(Struct, frozen=True, kw_only=True):
    """What a slave says first.

    Attributes:
        broker_id: Which member of the set it is.
        last_file_only: An empty one asks for no more than the master's last file.
        does_not_count: It never becomes one of those that must have a message.
        incarnation: Which life of its folder; empty for one of RocketMQ's, which does not say it.
        epoch: The highest that it has promised to follow; `NO_EPOCH` if it does not say.
        end: Where its log ends; −1 if it does not say.
    """

    broker_id: int
    last_file_only: bool = False
    does_not_count: bool = False
    incarnation: bytes = b""
    epoch: int = NO_EPOCH
    end: int = -1

    @property
    def is_member(self) -> bool:
        """Whether it is one of ours."""
        return bool(self.incarnation)


class SlaveReport(Struct, frozen=True, gc=False):
    """What a slave says later: where its log ends, and in which epoch, `NO_EPOCH` if not said.

    Attributes:
        tables: The version of the master's tables that it has; 0 before it has any.
    """

    end: int
    epoch: int = NO_EPOCH
    tables: int = 0


class MasterHandshake(Struct, frozen=True):
    """What a master says first.

    Attributes:
        end: Where its log ends.
        epoch: Its own.
        epochs: All of its log; the newest is its own.
    """

    end: int
    epoch: int
    epochs: Epochs


class TablesChanged(Struct, frozen=True):
    """The master has another version of its tables."""

    version: int


class EpochPart(Struct, frozen=True, gc=False):
    """A part of the master's log, a heartbeat if it has no bytes.

    Attributes:
        start: Physical offset of its first byte; of a heartbeat, that of the next part.
        epoch: The one that it was written in.
        confirmed: Up to where all have the log that must.
    """

    start: int
    epoch: Epoch
    confirmed: int
    data: bytes

    @property
    def end(self) -> int:
        """Physical offset behind its last byte."""
        return self.start + len(self.data)


def slave_handshake(said: SlaveHandshake) -> bytes:
    """Return a slave's handshake: that of one of ours if it has an incarnation."""
    flags = int(said.last_file_only), int(said.does_not_count)
    if not said.is_member:
        return _SLAVE_HANDSHAKE.pack(State.HANDSHAKE, *flags, said.broker_id)
    assert len(said.incarnation) == INCARNATION_BYTES
    return _MEMBER_HANDSHAKE.pack(
        State.MEMBER_HANDSHAKE, *flags, said.broker_id, said.incarnation, said.epoch, said.end
    )


def slave_report(said: SlaveReport) -> bytes:
    """Return what a slave says whose log has come to an end: one of ours names the epoch."""
    if said.epoch == NO_EPOCH:
        return _SLAVE_REPORT.pack(State.TRANSFER, said.end)
    return _MEMBER_REPORT.pack(State.MEMBER_TRANSFER, said.end, said.epoch, said.tables)


def tables_changed(version: int) -> bytes:
    """Return what a master says of its tables."""
    return _TABLES.pack(State.TABLES, version)


def master_handshake(said: MasterHandshake) -> bytes:
    """Return a master's handshake."""
    epochs = b"".join(_EPOCH.pack(one.number, one.start) for one in said.epochs.entries)
    return _MASTER_HANDSHAKE.pack(State.HANDSHAKE, len(epochs), said.end, said.epoch) + epochs


def part_head(start: int, size: int, epoch: Epoch, confirmed: int) -> bytes:
    """Return what comes before `size` bytes of the log from `start` on."""
    return _PART_HEAD.pack(State.TRANSFER, size, start, epoch.number, epoch.start, confirmed)


class _Kind(NamedTuple, Generic[F]):
    """How a frame begins, and what reads it at a position.

    That returns the frame and its size; None and its size if it is not all there.
    """

    head: struct.Struct
    read: Callable[[memoryview, int], tuple[F | None, int]]


class FrameReader(Generic[F]):
    """Reads frames, however they are cut. `slave_frames` and `master_frames` make one.

    Of bytes that may be overwritten later, as those of `runtime.driver.bulk`, it keeps a copy.

    Args:
        who: Who sends them, for errors.
        kinds: What there may be, by state.
        finish: Makes what is returned of the frames that some bytes complete; those may be views of
            the bytes.
    """

    def __init__(
        self,
        who: str,
        kinds: "Mapping[int, _Kind[F]]",
        finish: Callable[[list[F]], list[F]] = lambda frames: frames,
    ) -> None:
        self.broken: WireError | None = None
        self._who = who
        self._kinds = kinds
        self._finish = finish
        self._waiting = bytearray()
        self._wanted = _STATE.size

    def receive(self, data: Buffer) -> list[F]:
        """Return the frames that bytes complete.

        Raises:
            WireError: What follows cannot be one.
        """
        view = memoryview(data)
        found: list[F] = []
        at = 0
        while self._waiting:
            more = view[at : at + self._wanted - len(self._waiting)]
            at += len(more)
            self._waiting += more
            if len(self._waiting) < self._wanted:
                return []
            if self._take(memoryview(self._waiting), 0, found):
                self._waiting = bytearray()
        while (behind := self._take(view, at, found)) != at:
            at = behind
        self._waiting += view[at:]
        return self._finish(found)

    def _take(self, data: memoryview, at: int, found: list[F]) -> int:
        """Take up the frame that begins at a place, if it is whole; return where the next begins.

        If it is not, `_wanted` is how much of it is needed to know more.
        """
        self._wanted = _STATE.size
        if len(data) - at < _STATE.size:
            return at
        (state,) = _STATE.unpack_from(data, at)
        kind = self._kinds.get(state)
        if kind is None:
            raise WireError(f"{self._who} sends a frame of state {state}")
        self._wanted = kind.head.size
        if len(data) - at < self._wanted:
            return at
        frame, self._wanted = kind.read(data, at)
        if frame is None:
            return at
        found.append(frame)
        return at + self._wanted


def slave_frames() -> FrameReader[SlaveHandshake | SlaveReport]:
    """Return what reads a slave's frames, one of RocketMQ's or of ours."""
    return FrameReader("a slave", _OF_SLAVES)


def master_frames() -> FrameReader[MasterHandshake | EpochPart | TablesChanged]:
    """Return what reads a master's frames; parts of an epoch that follow each other are one."""
    return FrameReader("a master", _OF_MASTERS, _joined)


def _joined(
    frames: list[MasterHandshake | EpochPart | TablesChanged],
) -> list[MasterHandshake | EpochPart | TablesChanged]:
    """Return frames of a master, with bytes of their own; a heartbeat stays by itself."""
    found: list[MasterHandshake | EpochPart | TablesChanged] = []
    pieces: list[Buffer] = []
    for number, frame in enumerate(frames):
        if not isinstance(frame, EpochPart) or not frame.data:
            found.append(frame)
            continue
        pieces.append(frame.data)
        if number + 1 < len(frames) and _goes_on(frame, frames[number + 1]):
            continue
        data = b"".join(pieces)
        start = frame.end - len(data)
        found.append(EpochPart(start, frame.epoch, frame.confirmed, data))
        pieces = []
    return found


def _goes_on(part: EpochPart, frame: MasterHandshake | EpochPart | TablesChanged) -> bool:
    """Return whether a frame is the part that follows another one, in the same epoch."""
    return (
        isinstance(frame, EpochPart)
        and len(frame.data) > 0
        and (frame.start, frame.epoch) == (part.end, part.epoch)
    )


def _read_slave_handshake(data: memoryview, at: int) -> tuple[SlaveHandshake, int]:
    _, last_file_only, does_not_count, broker_id = _SLAVE_HANDSHAKE.unpack_from(data, at)
    said = SlaveHandshake(
        broker_id=broker_id,
        last_file_only=last_file_only == 1,
        does_not_count=does_not_count == 1,
    )
    return said, _SLAVE_HANDSHAKE.size


def _read_member_handshake(data: memoryview, at: int) -> tuple[SlaveHandshake, int]:
    _, last_file_only, does_not_count, broker_id, incarnation, epoch, end = (
        _MEMBER_HANDSHAKE.unpack_from(data, at)
    )
    if epoch < NO_EPOCH or end < 0 or not any(incarnation):
        raise WireError(
            f"a slave whose log ends at {end} in epoch {epoch} has the incarnation "
            f"{incarnation.hex()}"
        )
    said = SlaveHandshake(
        broker_id=broker_id,
        last_file_only=last_file_only == 1,
        does_not_count=does_not_count == 1,
        incarnation=incarnation,
        epoch=epoch,
        end=end,
    )
    return said, _MEMBER_HANDSHAKE.size


def _read_slave_report(data: memoryview, at: int) -> tuple[SlaveReport, int]:
    _, end = _SLAVE_REPORT.unpack_from(data, at)
    if end < 0:
        raise WireError(f"a slave reports that its log ends at {end}")
    return SlaveReport(end), _SLAVE_REPORT.size


def _read_member_report(data: memoryview, at: int) -> tuple[SlaveReport, int]:
    _, end, epoch, tables = _MEMBER_REPORT.unpack_from(data, at)
    if end < 0 or epoch < 0 or tables < 0:
        raise WireError(
            f"a slave reports that its log ends at {end} in epoch {epoch}, with tables {tables}"
        )
    return SlaveReport(end, epoch, tables), _MEMBER_REPORT.size


def _read_master_handshake(data: memoryview, at: int) -> tuple[MasterHandshake | None, int]:
    _, size, end, epoch = _MASTER_HANDSHAKE.unpack_from(data, at)
    if end < 0 or epoch < NO_EPOCH:
        raise WireError(f"a master's log ends at {end} in epoch {epoch}")
    if size % _EPOCH.size or not 0 <= size <= EPOCHS_MAX * _EPOCH.size:
        raise WireError(f"a master sends {size} bytes of epochs, {_EPOCH.size} each")
    whole = _MASTER_HANDSHAKE.size + size
    if len(data) - at < whole:
        return None, whole
    pairs = _EPOCH.iter_unpack(data[at + _MASTER_HANDSHAKE.size : at + whole])
    try:
        epochs = Epochs.of([Epoch(number, start) for number, start in pairs])
    except ValueError as error:
        raise WireError(f"a master sends its epochs: {error}") from None
    if epochs.last != epoch or epochs.last_start > end:
        raise WireError(f"a master of epoch {epoch}, whose log ends at {end}, has {epochs}")
    return MasterHandshake(end, epoch, epochs), whole


def _read_part(data: memoryview, at: int) -> tuple[EpochPart | None, int]:
    _, size, start, number, epoch_start, confirmed = _PART_HEAD.unpack_from(data, at)
    if start < 0 or not 0 <= size <= PART_BYTES_MAX:
        raise WireError(f"a master sends {size} bytes of its log from {start} on")
    if not 0 <= number <= _INT_MAX or epoch_start < 0 or confirmed < -1:
        raise WireError(
            f"a master sends its log from {start} on of epoch {number}, which begins at "
            f"{epoch_start}, confirmed up to {confirmed}"
        )
    whole = _PART_HEAD.size + size
    if len(data) - at < whole:
        return None, whole
    # A view, of which `_joined` makes bytes together with those of the parts that follow.
    part = cast("bytes", data[at + _PART_HEAD.size : at + whole]) if size else b""
    return EpochPart(start, Epoch(number, epoch_start), confirmed, part), whole


def _read_tables(data: memoryview, at: int) -> tuple[TablesChanged, int]:
    _, version = _TABLES.unpack_from(data, at)
    if version < 0:
        raise WireError(f"a master has tables of version {version}")
    return TablesChanged(version), _TABLES.size


_OF_SLAVES: Mapping[int, _Kind[SlaveHandshake | SlaveReport]] = {
    State.HANDSHAKE: _Kind(_SLAVE_HANDSHAKE, _read_slave_handshake),
    State.TRANSFER: _Kind(_SLAVE_REPORT, _read_slave_report),
    State.MEMBER_HANDSHAKE: _Kind(_MEMBER_HANDSHAKE, _read_member_handshake),
    State.MEMBER_TRANSFER: _Kind(_MEMBER_REPORT, _read_member_report),
}
_OF_MASTERS: Mapping[int, _Kind[MasterHandshake | EpochPart | TablesChanged]] = {
    State.TABLES: _Kind(_TABLES, _read_tables),
    State.HANDSHAKE: _Kind(_MASTER_HANDSHAKE, _read_master_handshake),
    State.TRANSFER: _Kind(_PART_HEAD, _read_part),
}
