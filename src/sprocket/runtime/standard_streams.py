"""Stdin, stdout and stderr of a program that serves: writing there never holds or breaks it.

    any thread ── LineStream.write ── queue, bounded ── one thread a stream ── os.write

A pipe that nobody reads takes 64 KiB and then holds whoever writes to it; a full disk, or a reader
that has gone, is an error of whoever writes. So a program that serves only puts its lines into a
queue.

Invariants

1. `write` and `flush` wait for nobody and raise nothing, also in a signal handler.
2. What a queue has no room for, and what the system does not take, is dropped and counted; the
   next line that can be written is followed by one that says how many there were.
3. At the end what is in the queue is written, but waited for only for a limited time.
"""

import errno
import io
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Final, TextIO

from sprocket.base.clock import SystemClock
from sprocket.base.units import KIB, MIB

QUEUE_BYTES_MAX: Final = 4 * MIB
"""What may wait for one stream: some 20,000 lines, as the thread may have to wait for its turn."""
LINE_COST_BYTES: Final = 100
"""What a line in the queue takes beside its own bytes."""
WRITE_BYTES_MAX: Final = 64 * KIB
"""What is written with one call."""
END_SECONDS: Final = 0.5
"""How long the end waits for what is in the queues."""
TICK_SECONDS: Final = 1.0
"""How often something is looked at that is due later, such as counts of lines left out."""


def dropped_line(count: int) -> str:
    """Return the line that says how many lines are missing."""
    return f"sprocket: {count} lines could not be written here"


class LineWriter:
    """Writes lines to a file descriptor from a thread of its own.

    Args:
        descriptor: Is not closed at the end.
        bytes_max: What may wait.

    Threads: any.
    """

    def __init__(self, descriptor: int, bytes_max: int = QUEUE_BYTES_MAX) -> None:
        self.tell_dropped: Callable[[int], str] = dropped_line
        """Gives the line that says how many are missing; without its end."""
        self.on_tick: Callable[[], None] = lambda: None
        """Called in the thread about once in `TICK_SECONDS`."""
        self._descriptor = descriptor
        self._bytes_max = bytes_max
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        # A signal handler may come while its own thread has it.
        self._lock = threading.RLock()
        self._waiting_bytes = 0
        self.dropped_count = 0
        """How many lines were dropped and not reported yet."""
        self._is_torn = False
        """Whether the last line was written in part."""
        self._thread = threading.Thread(target=self._run, name="sprocket-lines", daemon=True)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether another line would be taken."""
        return self._waiting_bytes < self._bytes_max

    def put(self, lines: bytes) -> None:
        """Have whole lines written, or dropped if there is no room."""
        with self._lock:
            if not self.has_room:
                self.dropped_count += lines.count(b"\n")
                return
            self._waiting_bytes += len(lines) + LINE_COST_BYTES
            self._lines.put(lines)

    def drop(self) -> None:
        """Count a line that was not even made, since there is no room."""
        with self._lock:
            self.dropped_count += 1

    def close(self) -> None:
        """Take no more; the thread ends after what is in the queue, see `join`."""
        self._lines.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, at most this long; it may be held for ever."""
        self._thread.join(seconds)

    def _run(self) -> None:
        clock = SystemClock()
        tick_at = clock.monotonic() + TICK_SECONDS
        is_open = True
        while is_open:
            if clock.monotonic() >= tick_at:
                tick_at = clock.monotonic() + TICK_SECONDS
                self._tick()
            try:
                first = self._lines.get(timeout=max(tick_at - clock.monotonic(), 0))
            except Empty:
                continue
            batch, is_open = self._batch(first)
            self._write_all(batch)
            if self.dropped_count and not self._is_torn:
                self._tell()

    def _tick(self) -> None:
        try:
            self.on_tick()
        except Exception:  # a line that cannot be made: those after it are written all the same
            self.drop()

    def _batch(self, first: bytes | None) -> tuple[list[bytes], bool]:
        """Return what is written together, and whether more may come."""
        batch: list[bytes] = []
        size = 0
        one = first
        while one is not None:
            batch.append(one)
            size += len(one)
            if size >= WRITE_BYTES_MAX:
                return batch, True
            try:
                one = self._lines.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _write_all(self, batch: list[bytes]) -> None:
        """Write lines; count those that the system does not take."""
        text = b"".join(batch)
        written = self._write(b"\n" + text if self._is_torn else text) - self._is_torn
        with self._lock:
            self._waiting_bytes -= len(text) + LINE_COST_BYTES * len(batch)
            if written < len(text):
                self.dropped_count += text.count(b"\n", max(written, 0))
        if written >= 0:
            self._is_torn = written > 0 and text[written - 1 : written] != b"\n"

    def _tell(self) -> None:
        """Say how many lines are missing, if the system takes that."""
        count = self.dropped_count
        text = f"{self.tell_dropped(count)}\n".encode(errors="backslashreplace")
        written = self._write(text)
        self._is_torn = 0 < written < len(text)
        if written == len(text):
            with self._lock:
                self.dropped_count -= count

    def _write(self, text: bytes) -> int:
        """Write text; return how many bytes of it the system took."""
        rest = memoryview(text)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except OSError as error:
                if error.errno != errno.EAGAIN or not _wait_for_room(self._descriptor):
                    break
        return len(text) - len(rest)


def _wait_for_room(descriptor: int) -> bool:
    """Wait until something that does not block can be written to; False where nobody can wait."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll()
    return True


def write_at_once(stream: TextIO, line: str) -> None:
    """Write a line if that needs no waiting: for callers such as a signal handler.

    Anything that goes wrong is ignored: an error would hit whatever was interrupted.
    """
    try:
        descriptor = stream.fileno()
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            if not poll.poll(0):
                return
        os.write(descriptor, f"{line}\n".encode(errors="backslashreplace"))
    except OSError:
        return


class LineStream(io.TextIOBase):
    """Stands where `sys.stdout` or `sys.stderr` was, and gives whole lines to a writer.

    Threads: any.
    """

    def __init__(self, instead_of: TextIO, writer: LineWriter) -> None:
        self.writer = writer
        self._instead_of = instead_of
        self._begun = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Take text; its last line waits until it has an end, or until `flush`."""
        with self._lock:
            begun, end, self._begun = (self._begun + text).rpartition("\n")
            if end:
                self.writer.put(f"{begun}\n".encode(errors="backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Hand on what has no end of a line; nothing is waited for."""
        with self._lock:
            begun, self._begun = self._begun, ""
            if begun:
                self.writer.put(begun.encode(errors="backslashreplace"))

    def fileno(self) -> int:
        """Return the descriptor that is written to."""
        return self._instead_of.fileno()

    def isatty(self) -> bool:
        """Whether a terminal shows what is written."""
        return self._instead_of.isatty()

    def writable(self) -> bool:
        """Return True."""
        return True


@contextmanager
def queued() -> Iterator[None]:
    """Have stdout and stderr written by threads meanwhile, see the head of the module.

    What is not of the system, as in a test that looks at what is written, stays as it is.
    """
    before = sys.stdout, sys.stderr
    streams = [
        LineStream(one, LineWriter(one.fileno())) if _is_real(one) else one for one in before
    ]
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        clock = SystemClock()
        deadline = clock.monotonic() + END_SECONDS
        writers = [one.writer for one in streams if isinstance(one, LineStream)]
        for one in streams:
            one.flush()
        for writer in writers:
            writer.close()
        for writer in writers:
            writer.join(max(deadline - clock.monotonic(), 0))


def _is_real(stream: TextIO) -> bool:
    try:
        stream.fileno()
    except OSError:  # `io.UnsupportedOperation` is one
        return False
    return True


def open_closed() -> None:
    """Open what is closed of stdin, stdout and stderr: it reads as empty and swallows everything.

    Otherwise the next file or socket gets its number, and what is meant for people is written into
    it; and an event loop that finds a number of its own taken ends the process.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    for number in closed:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:  # a lower one would have been closed, too
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, "r", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
