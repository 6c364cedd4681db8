"""Epochs as the real RocketMQ keeps, compares and sends them."""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.auto_switch import AutoSwitch
from tests.waits import LONG_SECONDS

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec import epoch_file, switch_frames
from sprocket.rocketmq.codec.switch_frames import (
    EpochPart,
    FrameReader,
    MasterHandshake,
    SlaveHandshake,
    SlaveReport,
)
from sprocket.rocketmq.model.epochs import Epoch, Epochs
from sprocket.rocketmq.store.cutting import log_cut

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SIZE = 1 << 20


@pytest.fixture(scope="module")
def real(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AutoSwitch]:
    """Run the real classes."""
    with AutoSwitch(jars, tmp_path_factory.mktemp("auto-switch")) as process:
        yield process


def said(epochs: Epochs) -> str:
    """Return epochs as the real class is told of them, and tells them."""
    return " ".join(f"{one.number}-{one.start}" for one in epochs.entries)


def drawn(random: random.Random) -> Epochs:
    """Return epochs of a small log, of which two are often alike."""
    count = random.randrange(1, 5)
    numbers = sorted(random.sample(range(1, 6), count))
    starts = sorted(random.sample(range(0, 50, 10), count))
    return Epochs.of([Epoch(*pair) for pair in zip(numbers, starts, strict=True)])


def test_the_file_is_the_real_one(real: AutoSwitch, tmp_path: Path) -> None:
    """Byte for byte what the real class writes; the real class reads what we write."""
    draw = random.Random(1)
    for number in range(50):
        epochs = drawn(draw)
        theirs, ours = tmp_path / f"theirs{number}", tmp_path / f"ours{number}"
        assert real.ask("write", theirs, *said(epochs).split()) == said(epochs)
        assert epoch_file.encode(epochs) == theirs.read_bytes()
        assert epoch_file.decode(theirs.read_bytes()) == epochs
        ours.write_bytes(epoch_file.encode(epochs))
        assert real.ask("read", ours) == said(epochs)


def test_an_epoch_without_bytes_is_lost_there(real: AutoSwitch, tmp_path: Path) -> None:
    """Where the next one begins at the same place, the real class refuses it; ours is read."""
    assert real.ask("write", tmp_path / "theirs", "1-0", "2-70", "3-70") == "1-0 2-70"
    ours = Epochs.of([Epoch(1, 0), Epoch(2, 70)]).begun(Epoch(3, 70))
    (tmp_path / "ours").write_bytes(epoch_file.encode(ours))
    assert real.ask("read", tmp_path / "ours") == "1-0 3-70"


def test_the_backup_stands_in_there_too(real: AutoSwitch, tmp_path: Path) -> None:
    """For a file that is damaged: so ours must have the newest epoch, as it has."""
    epochs = Epochs.of([Epoch(1, 0), Epoch(2, 70)])
    for damaged in (b"1\n5\n1-0\n", b"2\n0\n1-0\n", b"x", b""):
        (tmp_path / "file").write_bytes(damaged)
        (tmp_path / "file.bak").write_bytes(epoch_file.encode(epochs))
        if damaged not in (b"x", b""):  # the real one throws at what is not a number
            assert real.ask("read", tmp_path / "file") == said(epochs)


def test_two_lists_part_where_the_real_class_says(real: AutoSwitch, tmp_path: Path) -> None:
    """Whatever they are; and both ends are cut alike."""
    draw = random.Random(2)
    own_file, other_file = tmp_path / "own", tmp_path / "other"
    met = set()
    for _ in range(150):
        own, other = drawn(draw), drawn(draw)
        ends = [one.last_start + draw.randrange(0, 30) for one in (own, other)]
        own_file.write_bytes(epoch_file.encode(own))
        other_file.write_bytes(epoch_file.encode(other))
        point = own.common(ends[0], other, ends[1])
        there = int(real.ask("common", own_file, other_file, *ends))
        assert there == (-1 if point is None else point.at), (str(own), str(other), ends)
        met.add(point is None)
        place = draw.randrange(0, 60)
        if own.cut(place).entries:
            assert real.ask("after", own_file, place) == said(own.cut(place))
            own_file.write_bytes(epoch_file.encode(own))
        assert real.ask("from", own_file, place) == said(own.from_first(place))
    assert met == {True, False}


class Spoken:
    """A connection to a real peer, by frames."""

    def __init__(self, connection: socket.socket, reader: "FrameReader[object]") -> None:
        self._connection = connection
        self._reader = reader
        self._frames: list[object] = []
        connection.settimeout(LONG_SECONDS)

    def send(self, data: bytes) -> None:
        """Send a frame."""
        self._connection.sendall(data)

    def next(self) -> object:
        """Return the next frame; None at the end of the connection."""
        while not self._frames:
            data = self._connection.recv(1000)
            if not data:
                return None
            self._frames += self._reader.receive(data)
        return self._frames.pop(0)

    def next_of(self, matches: Callable[[object], bool]) -> object:
        """Return the next frame that matches."""
        while not matches(frame := self.next()):
            assert frame is not None
        return frame


@pytest.fixture
def store_of(jars: Path, tmp_path: Path) -> Iterator[tuple[AutoSwitch, Path, int]]:
    """Run a real store; return it, its folder and its port for slaves."""
    port = peers.free_port()
    with AutoSwitch(jars, tmp_path / "home") as process:
        assert process.ask("open", tmp_path / "store", port, SIZE) == "ok"
        yield process, tmp_path / "store", port


def test_a_real_master_speaks_our_frames(store_of: tuple[AutoSwitch, Path, int]) -> None:
    """It takes the handshake, tells its epochs, and sends its log, never over two of them.

    The last part of an epoch names the one that comes: it goes on to that before it makes the head.
    """
    real, folder, port = store_of
    real.ask("master", 2)
    first_end = int(real.ask("put", 10))
    assert real.ask("master", 5) == f"2-0 5-{first_end}"
    end = int(real.ask("put", 10))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        master = Spoken(connection, switch_frames.master_frames())  # type: ignore[arg-type]
        master.send(switch_frames.slave_handshake(SlaveHandshake(broker_id=2)))
        epochs = Epochs.of([Epoch(2, 0), Epoch(5, first_end)])
        assert master.next() == MasterHandshake(end, 5, epochs)
        master.send(switch_frames.slave_report(SlaveReport(0)))
        data = b""
        while len(data) < end:
            part = master.next_of(lambda frame: isinstance(frame, EpochPart))
            assert isinstance(part, EpochPart)
            assert part.start == len(data)
            if part.data:
                own = epochs.at(part.start)
                assert own is not None
                assert part.end <= epochs.end_of(own.number, end)
                assert part.epoch == epochs.at(part.end if part.end == first_end else part.start)
                data += part.data
                master.send(switch_frames.slave_report(SlaveReport(len(data))))
    assert data == (folder / "commitlog" / f"{0:020d}").read_bytes()[:end]


def test_a_real_master_ends_what_a_member_of_ours_says(
    store_of: tuple[AutoSwitch, Path, int],
) -> None:
    """It knows no such state, so the two are never mixed by mistake."""
    real, _, port = store_of
    real.ask("master", 2)
    real.ask("put", 1)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        master = Spoken(connection, switch_frames.master_frames())  # type: ignore[arg-type]
        member = SlaveHandshake(broker_id=2, incarnation=bytes(range(16)), epoch=2, end=0)
        master.send(switch_frames.slave_handshake(member))
        assert master.next() is None


def test_a_real_slave_speaks_our_frames(
    store_of: tuple[AutoSwitch, Path, int], tmp_path: Path, jars: Path
) -> None:
    """It takes our handshake and our parts, writes the epochs, and reports."""
    with AutoSwitch(jars, tmp_path / "source-home") as source:
        source.ask("open", tmp_path / "source", peers.free_port(), SIZE)
        source.ask("master", 2)
        end = int(source.ask("put", 20))
    log = (tmp_path / "source/commitlog" / f"{0:020d}").read_bytes()[:end]
    record_bytes = int.from_bytes(log[:4], "big")
    second = record_bytes * 10
    epochs = Epochs.of([Epoch(2, 0), Epoch(5, second)])
    real, folder, _ = store_of
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        assert real.ask("slave", 5, 7, f"127.0.0.1:{port}") == "true"
        server.settimeout(LONG_SECONDS)
        connection, _ = server.accept()
        with connection:
            slave = Spoken(connection, switch_frames.slave_frames())  # type: ignore[arg-type]
            assert slave.next() == SlaveHandshake(broker_id=7)
            slave.send(switch_frames.master_handshake(MasterHandshake(end, 5, epochs)))
            assert slave.next_of(lambda frame: isinstance(frame, SlaveReport)) == SlaveReport(0)
            for start, stop in ((0, second - 5), (second - 5, second), (second, end)):
                epoch = epochs.at(start)
                assert epoch is not None
                head = switch_frames.part_head(start, stop - start, epoch, start)
                slave.send(head + log[start:stop])
                reported = SlaveReport(-1)
                while reported.end < stop:
                    frame = slave.next()
                    assert isinstance(frame, SlaveReport)
                    reported = frame
                assert reported == SlaveReport(stop)
    assert epoch_file.decode((folder / "epochFileCheckpoint").read_bytes()) == epochs
    assert (folder / "commitlog" / f"{0:020d}").read_bytes()[:end] == log


def test_the_real_broker_opens_a_folder_that_was_cut(jars: Path, tmp_path: Path) -> None:
    """And goes on where it was cut, in a new epoch."""
    with AutoSwitch(jars, tmp_path / "home") as real:
        real.ask("open", tmp_path / "store", peers.free_port(), SIZE)
        real.ask("master", 2)
        kept = int(real.ask("put", 10))
        real.ask("master", 5)
        end = int(real.ask("put", 10))
        real.ask("close")
    disk, folder = RealDisk(), str(tmp_path / "store")
    done = log_cut.cut(disk, folder, kept)
    assert (done.at, done.end, done.records, done.epoch) == (kept, end, 10, 5)
    with AutoSwitch(jars, tmp_path / "home2") as real:
        real.ask("open", folder, peers.free_port(), SIZE)
        assert real.ask("end").split()[0] == str(kept)
        assert real.ask("master", 7) == f"2-0 7-{kept}"
        assert int(real.ask("put", 3)) == kept + 3 * (kept // 10)
        real.ask("close")
