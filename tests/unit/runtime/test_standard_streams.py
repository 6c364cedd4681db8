"""What is written to stdout and stderr of a server holds nobody and raises nothing."""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waits import LONG_SECONDS

from sprocket.runtime import standard_streams
from sprocket.runtime.standard_streams import LineStream, LineWriter


class Pipe:
    """A pipe, and a writer to it."""

    def __init__(self, *, blocks: bool = True) -> None:
        self.source, self.target = os.pipe()
        os.set_blocking(self.target, blocks)
        self.filled_bytes = 0

    def fill(self) -> None:
        """Have it take nothing any more."""
        before = os.get_blocking(self.target)
        os.set_blocking(self.target, False)
        try:
            while True:
                self.filled_bytes += os.write(self.target, bytes(4096))
        except BlockingIOError:
            os.set_blocking(self.target, before)

    def read(self, size: int) -> bytes:
        """Return so many bytes, once they are there."""
        found = b""
        while len(found) < size:
            found += os.read(self.source, size - len(found))
        return found

    def close(self) -> None:
        """Close both ends; whoever writes has an error then."""
        for one in (self.source, self.target):
            os.close(one)


@pytest.fixture(params=[True, False], ids=["blocks", "says EAGAIN"])
def pipe(request: pytest.FixtureRequest) -> Iterator[Pipe]:
    """A pipe of either kind."""
    made = Pipe(blocks=request.param)
    yield made
    made.close()


def ended(writer: LineWriter) -> None:
    """End a writer that nothing holds."""
    writer.close()
    writer.join(LONG_SECONDS)


def test_lines_come_in_order(pipe: Pipe) -> None:
    """Whole, also those that were given in pieces and without an end."""
    writer = LineWriter(pipe.target)
    stream = LineStream(sys.stdout, writer)
    stream.write("one\ntw")
    stream.write("o\n")
    stream.write("thr\udcffee")
    stream.flush()
    ended(writer)
    assert pipe.read(17) == b"one\ntwo\nthr\\udcff"


def test_a_pipe_that_nobody_reads_holds_nobody(pipe: Pipe) -> None:
    """What there is no room for is counted; once somebody reads, one line tells how many."""
    pipe.fill()
    writer = LineWriter(pipe.target, bytes_max=1000)
    for number in range(100):
        writer.put(b"%03d\n" % number)
    assert not writer.has_room
    assert writer.dropped_count == 90
    pipe.read(pipe.filled_bytes)
    ended(writer)
    text = os.read(pipe.source, 10_000).decode()
    assert text.splitlines() == [
        *(f"{number:03}" for number in range(10)),
        "sprocket: 90 lines could not be written here",
    ]
    assert writer.dropped_count == 0


def test_the_end_waits_for_a_limited_time_only(pipe: Pipe) -> None:
    """A pipe that nobody reads does not keep a process from ending."""
    pipe.fill()
    writer = LineWriter(pipe.target)
    writer.put(b"held\n")
    writer.close()
    writer.join(0.01)
    pipe.read(pipe.filled_bytes)
    writer.join(LONG_SECONDS)
    assert pipe.read(5) == b"held\n"


def test_a_write_that_fails_is_counted_and_told_once_it_goes_again(tmp_path: Path) -> None:
    """A full disk, or a reader that has gone, is nobody's error."""
    with open("/dev/full", "wb") as full, open(tmp_path / "log", "wb") as log:
        at = os.dup(full.fileno())
        writer = LineWriter(at)
        writer.put(b"lost\nlost\n")
        until(lambda: writer.dropped_count == 2)
        os.dup2(log.fileno(), at)
        writer.put(b"kept\n")
        ended(writer)
        os.close(at)
    assert (tmp_path / "log").read_text().splitlines() == [
        "kept",
        "sprocket: 2 lines could not be written here",
    ]


def test_a_reader_that_has_gone_is_nobodys_error() -> None:
    """And so is a descriptor that somebody closed."""
    pipe = Pipe()
    writer = LineWriter(pipe.target)
    os.close(pipe.source)
    writer.put(b"lost\n")
    until(lambda: writer.dropped_count == 1)
    os.close(pipe.target)
    writer.put(b"lost\n")
    ended(writer)
    assert writer.dropped_count == 2


def test_a_line_that_was_cut_ends_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the disk was full in the middle of it; the next one begins a line of its own."""
    real, left = os.write, [3, 0]

    def write(descriptor: int, data: bytes) -> int:
        room = left.pop(0) if left else len(data)
        if not room:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, bytes(data)[:room])

    with open(tmp_path / "log", "wb") as log:
        monkeypatch.setattr(os, "write", write)
        writer = LineWriter(log.fileno())
        writer.put(b"first\n")
        until(lambda: writer.dropped_count == 1)
        writer.put(b"second\n")
        ended(writer)
    assert (tmp_path / "log").read_text().splitlines() == [
        "fir",
        "second",
        "sprocket: 1 lines could not be written here",
    ]


def test_something_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while nothing is written; what it raises is counted, and lines go on."""
    monkeypatch.setattr(standard_streams, "TICK_SECONDS", 0.001)
    pipe = Pipe()
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(1)
        raise ValueError("no line can be made of this")

    writer = LineWriter(pipe.target)
    writer.on_tick = tick
    until(lambda: len(ticks) > 2)
    writer.put(b"on\n")
    assert pipe.read(3) == b"on\n"
    ended(writer)
    pipe.close()


def test_what_a_test_reads_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """It is nothing of the system, and has no descriptor."""
    before = sys.stdout
    with standard_streams.queued():
        assert sys.stdout is before or isinstance(sys.stdout, LineStream)
        sys.stdout.write("seen\n")
    assert sys.stdout is before
    assert capsys.readouterr().out == "seen\n"


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that a thread does."""
    deadline = time.monotonic() + LONG_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)
