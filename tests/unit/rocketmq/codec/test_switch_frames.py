"""The frames of a set with failover, however they are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bulk_reads import received
from tests.strategies import epoch_lists

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import switch_frames
from sprocket.rocketmq.codec.replication import PART_BYTES_MAX
from sprocket.rocketmq.codec.switch_frames import (
    EPOCHS_MAX,
    EpochPart,
    MasterHandshake,
    SlaveHandshake,
    SlaveReport,
    TablesChanged,
)
from sprocket.rocketmq.model.epochs import NO_EPOCH, Epoch, Epochs

INT32 = st.integers(0, 2**31 - 1)
OFFSETS = st.integers(0, 2**62)
INCARNATION = bytes(range(16))
CUTS = st.lists(st.integers(0, 400), max_size=12)

OF_SLAVES = st.one_of(
    st.builds(
        SlaveHandshake,
        broker_id=OFFSETS,
        last_file_only=st.booleans(),
        does_not_count=st.booleans(),
    ),
    st.builds(
        SlaveHandshake,
        broker_id=OFFSETS,
        incarnation=st.binary(min_size=16, max_size=16).filter(any),
        epoch=INT32,
        end=OFFSETS,
    ),
    st.builds(SlaveReport, OFFSETS),
    st.builds(SlaveReport, OFFSETS, INT32, OFFSETS),
)


@st.composite
def parts(draw: st.DrawFn) -> EpochPart:
    """Return a part of a log, in an epoch that begins no later."""
    start = draw(OFFSETS)
    epoch = Epoch(draw(INT32), draw(st.integers(0, start)))
    return EpochPart(start, epoch, draw(OFFSETS), draw(st.binary(max_size=40)))


@st.composite
def handshakes(draw: st.DrawFn) -> MasterHandshake:
    """Return what a master says first."""
    epochs = draw(epoch_lists())
    return MasterHandshake(
        draw(st.integers(max(epochs.last_start, 0), 2**63 - 1)), epochs.last, epochs
    )


@st.composite
def runs(draw: st.DrawFn) -> list[EpochPart]:
    """Return parts of an epoch that follow each other."""
    first = draw(parts())
    found = [first]
    for data in draw(st.lists(st.binary(max_size=40), max_size=4)):
        found.append(EpochPart(found[-1].end, first.epoch, draw(OFFSETS), data))
    return found


def merged(
    frames: list[MasterHandshake | EpochPart | TablesChanged],
) -> list[MasterHandshake | EpochPart | TablesChanged]:
    """Return frames, those parts as one that follow each other in an epoch."""
    found: list[MasterHandshake | EpochPart | TablesChanged] = []
    for frame in frames:
        last = found[-1] if found else None
        if (
            isinstance(frame, EpochPart)
            and isinstance(last, EpochPart)
            and frame.data
            and last.data
            and (frame.start, frame.epoch) == (last.end, last.epoch)
        ):
            frame = EpochPart(last.start, last.epoch, frame.confirmed, last.data + frame.data)
            found.pop()
        found.append(frame)
    return found


OF_MASTERS = st.one_of(parts(), handshakes(), st.builds(TablesChanged, OFFSETS))
LISTS_OF_MASTERS = st.lists(st.one_of(runs(), OF_MASTERS.map(lambda one: [one])), max_size=6).map(
    lambda lists: [one for each in lists for one in each]
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return pieces of some bytes."""
    ends = [0, *sorted(place for place in places if place < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(ends)]


def of_slave(frame: SlaveHandshake | SlaveReport) -> bytes:
    """Return a frame as a slave sends it."""
    if isinstance(frame, SlaveReport):
        return switch_frames.slave_report(frame)
    return switch_frames.slave_handshake(frame)


def of_master(frame: MasterHandshake | EpochPart | TablesChanged) -> bytes:
    """Return a frame as a master sends it."""
    if isinstance(frame, TablesChanged):
        return switch_frames.tables_changed(frame.version)
    if isinstance(frame, MasterHandshake):
        return switch_frames.master_handshake(frame)
    head = switch_frames.part_head(frame.start, len(frame.data), frame.epoch, frame.confirmed)
    return head + frame.data


@given(st.lists(OF_SLAVES, max_size=6), CUTS)
def test_a_slaves_frames_are_the_same_however_they_are_cut(
    frames: list[SlaveHandshake | SlaveReport], places: list[int]
) -> None:
    """Each once, in order, of either dialect."""
    reader = switch_frames.slave_frames()
    data = b"".join(map(of_slave, frames))
    assert received(reader, cut(data, places)) == frames


@given(LISTS_OF_MASTERS, CUTS)
def test_a_masters_frames_are_the_same_however_they_are_cut(
    frames: list[MasterHandshake | EpochPart | TablesChanged], places: list[int]
) -> None:
    """Each once, in order; parts that follow each other may come as one."""
    reader = switch_frames.master_frames()
    data = b"".join(map(of_master, frames))
    assert merged(received(reader, cut(data, places))) == merged(frames)


@given(st.binary(max_size=80), st.sampled_from([1, 2, 0x5301, 0x5302, 0x5303]))
def test_any_bytes_give_frames_or_an_error(data: bytes, state: int) -> None:
    """And none asks for more memory than a frame takes."""
    for reader in (switch_frames.slave_frames(), switch_frames.master_frames()):
        try:
            for frame in reader.receive(state.to_bytes(4, "big") + data):
                assert not isinstance(frame, EpochPart) or len(frame.data) <= PART_BYTES_MAX
        except WireError:
            pass


def test_the_examples_of_the_description() -> None:
    """Byte for byte: the sizes are 16, 12, 20 with 12 for each epoch, 36; ours 44, 24 and 12."""
    slave = SlaveHandshake(broker_id=3)
    assert of_slave(slave).hex(" ", 4) == "00000001 00000000 00000000 00000003"
    assert of_slave(SlaveReport(1024)).hex(" ", 4) == "00000002 00000000 00000400"
    member = SlaveHandshake(broker_id=3, incarnation=INCARNATION, epoch=4, end=1024)
    assert of_slave(member).hex(" ", 4) == (
        "00005301 00000000 00000000 00000003 00010203 04050607 08090a0b 0c0d0e0f "
        "00000004 00000000 00000400"
    )
    assert of_slave(SlaveReport(1024, 4, 9)).hex(" ", 4) == (
        "00005302 00000000 00000400 00000004 00000000 00000009"
    )
    assert of_master(TablesChanged(7)).hex(" ", 4) == "00005303 00000000 00000007"
    said = MasterHandshake(2048, 4, Epochs.of([Epoch(1, 0), Epoch(4, 900)]))
    assert of_master(said).hex(" ", 4) == (
        "00000001 00000018 00000000 00000800 00000004 "
        "00000001 00000000 00000000 00000004 00000000 00000384"
    )
    part = EpochPart(1024, Epoch(4, 900), 1000, b"abcd")
    assert of_master(part).hex(" ", 4) == (
        "00000002 00000004 00000000 00000400 00000004 00000000 00000384 00000000 000003e8 61626364"
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("00000000 00000000", "a slave sends a frame of state 0"),
        ("00000004", "a slave sends a frame of state 4"),
        ("00000002 ffffffff ffffffff", "its log ends at -1"),
        ("00005302 00000000 00000001 ffffffff" + "00" * 8, "ends at 1 in epoch -1"),
        ("00005302 00000000 00000001 00000001" + "ff" * 8, "with tables -1"),
        ("00005301" + "00" * 40, "has the incarnation 0000"),
        ("00005301 00000000 00000000 00000001 " + "01" * 16 + " fffffffe" + "00" * 8, "epoch -2"),
        ("00005301 00000000 00000000 00000001 " + "01" * 16 + " 00000001" + "ff" * 8, "ends at -1"),
    ],
)
def test_what_no_slave_says_is_refused(data: str, why: str) -> None:
    """A state, a place, an epoch or a life that cannot be."""
    with pytest.raises(WireError, match=why):
        switch_frames.slave_frames().receive(bytes.fromhex(data))


def handshake(size: int, end: int, epoch: int, rest: str = "") -> bytes:
    """Return a master's handshake of any numbers."""
    head = [1, size, end >> 32, end & 0xFFFFFFFF, epoch]
    return b"".join((one & 0xFFFFFFFF).to_bytes(4, "big") for one in head) + bytes.fromhex(rest)


FIRST = "00000001 00000000 00000000"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes.fromhex("00005301"), "a master sends a frame of state 21249"),
        (handshake(12, -1, 1, FIRST), "log ends at -1"),
        (handshake(0, 0, -2), "in epoch -2"),
        (handshake(11, 0, 1), "sends 11 bytes of epochs"),
        (handshake(-12, 0, 1), "sends -12 bytes of epochs"),
        (handshake(12 * EPOCHS_MAX + 12, 0, 1), "bytes of epochs"),
        (handshake(24, 9, 1, FIRST + FIRST), "1@0 cannot follow 1@0"),
        (handshake(12, 9, 2, FIRST), "a master of epoch 2, whose log ends at 9"),
        (handshake(12, 9, 1, "00000001 00000000 0000000a"), r"ends at 9, has \[1@10\]"),
        (handshake(0, 9, 1), "a master of epoch 1"),
        (switch_frames.part_head(-1, 1, Epoch(1, 0), 0), "1 bytes of its log from -1 on"),
        (switch_frames.part_head(0, -1, Epoch(1, 0), 0), "-1 bytes of its log"),
        (switch_frames.part_head(0, PART_BYTES_MAX + 1, Epoch(1, 0), 0), "bytes of its log"),
        (switch_frames.part_head(5, 1, Epoch(-1, 0), 0), "of epoch -1"),
        (switch_frames.part_head(5, 1, Epoch(1, -1), 0), "which begins at -1"),
        (switch_frames.part_head(5, 1, Epoch(1, 0), -2), "confirmed up to -2"),
    ],
)
def test_what_no_master_says_is_refused(data: bytes, why: str) -> None:
    """As soon as the head is there, before memory is taken for the rest."""
    with pytest.raises(WireError, match=why):
        switch_frames.master_frames().receive(data)


def test_a_master_without_epochs_says_so() -> None:
    """One of RocketMQ's that never was one has none."""
    said = MasterHandshake(0, NO_EPOCH, Epochs())
    assert switch_frames.master_frames().receive(of_master(said)) == [said]
