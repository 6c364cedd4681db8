"""Within an attempt nothing waits for the disk, and each attempt gets further."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sprocket.base.disk import (
    Attempt,
    File,
    NonblockingDisk,
    WouldBlock,
    following,
    gather,
    outside,
)
from sprocket.base.disk.nonblocking import FOLLOWED_MAX
from sprocket.base.disk.scratch import CHUNK_BYTES
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.base.units import KIB
from sprocket.testing.disk import SimulatedDisk

DATA = bytes(range(256)) * 16


class Lab:
    """A disk with a file `/f` that nobody has in memory."""

    def __init__(self, data: bytes = DATA) -> None:
        self.below = SimulatedDisk()
        file = self.below.open("/f", write=True, create=True)
        file.write([data], 0)
        file.give_back(0, len(data))
        self.disk = NonblockingDisk(self.below)
        self.thread = 1
        self.attempt = Attempt(lambda: self.thread)

    def run(self, work: Callable[[], Any]) -> tuple[Any, int]:
        """Do some work in as many attempts as it takes; return what it gave, and how many."""
        for count in range(1, 1000):
            try:
                return self.disk.within(self.attempt, work), count
            except WouldBlock as stop:
                self.attempt.note(stop.fetch())
        raise AssertionError("it gets no further")


def test_outside_of_an_attempt_the_disk_is_as_it_is() -> None:
    """Reads wait, and files open."""
    lab = Lab()
    file = lab.disk.open("/f", write=True)
    assert file.read(1, 3) == DATA[1:4]
    file.write([b"new"], 0)
    assert lab.disk.open("/f").read(0, 3) == b"new"
    assert file.next_data(0) == lab.below.open("/f").next_data(0)
    made = lab.disk.open("/g", write=True, create=True, size=10)
    assert (made.size(), lab.disk.list("/")) == (10, ["f", "g"])


def test_each_attempt_gets_further() -> None:
    """By one read, if one leads to the next; what was fetched is there though it is forgotten."""
    lab = Lab()
    below = lab.below.open("/f")

    def work() -> bytes:
        file = lab.disk.open("/f")
        first = file.read(10, 4)
        second = file.read(1000 + first[0], 4)
        below.give_back(0, len(DATA))
        return first + second

    file: list[File] = []

    def with_open_file() -> bytes:
        if not file:
            file.append(lab.disk.open("/f"))
        below.give_back(0, len(DATA))
        first = file[0].read(10, 4)
        return first + file[0].read(1000 + first[0], 4)

    assert lab.run(with_open_file) == (DATA[10:14] + DATA[1010:1014], 4)
    assert lab.below.calls["read"] == 2
    assert lab.run(lambda: with_open_file())[1] == 1


def test_what_is_in_memory_ends_no_attempt() -> None:
    """However long it is; at the end of the file there is less."""
    data = bytes(CHUNK_BYTES + 10)
    lab = Lab(data)
    file = lab.disk.open("/f")
    lab.below.open("/f").read(0, len(data))
    for position, size in ((0, 10), (5, CHUNK_BYTES), (0, len(data)), (len(data) - 5, 100)):
        got, attempts = lab.run(partial(file.read, position, size))
        assert (got, attempts) == (data[position : position + size], 1)


def test_a_view_is_not_changed_by_the_reads_behind_it() -> None:
    """Nor is what was fetched copied; where less is there, there is less of it."""
    lab = Lab()
    file = lab.disk.open("/f")
    assert file.read_view(1, 4) == DATA[1:5]
    lab.below.open("/f").give_back(0, len(DATA))

    def work() -> list[memoryview]:
        views = [file.read_view(7, 100), file.read_view(len(DATA) - 3, 10)]
        file.read(1000, 900)
        return views

    fetched, attempts = lab.run(work)
    assert attempts == 4
    in_memory = lab.disk.within(Attempt(lambda: 1), work)
    for _ in range(3):
        lab.disk.within(Attempt(lambda: 1), work)
        assert fetched == in_memory == [DATA[7:107], DATA[-3:]]
    assert all(view.readonly for view in (*fetched, *in_memory))


def test_in_an_attempt_all_may_be_data() -> None:
    """To look where there is some costs reads of its own."""
    lab = Lab(bytes(4 * KIB))
    file = lab.disk.open("/f")
    assert lab.run(lambda: file.next_data(100)) == ((100, 4 * KIB), 1)
    assert lab.run(lambda: file.next_data(1 << 20)) == ((4 * KIB, 4 * KIB), 1)


def test_a_read_that_fails_is_told_to_who_made_it() -> None:
    """When the attempt comes to it; so is an open."""
    lab = Lab()
    file = lab.disk.open("/f")
    lab.below.fail("read")
    with pytest.raises(DiskFailed, match="read /f"):
        lab.run(lambda: file.read(0, 4))
    with pytest.raises(FileMissing):
        lab.run(lambda: lab.disk.open("/none"))
    assert lab.run(lambda: file.read(1, 4)) == (DATA[1:5], 2)


def test_a_file_that_was_closed_meanwhile_is_read_all_the_same() -> None:
    """By a handle of its own, whose number can be nobody else's."""
    lab = Lab()
    file = lab.disk.open("/f")
    with pytest.raises(WouldBlock) as stop:
        lab.disk.within(lab.attempt, lambda: file.read(0, 4))
    file.close()
    assert list(stop.value.fetch().values()) == [DATA[:4]]


def test_other_threads_are_in_no_attempt() -> None:
    """They wait, as always."""
    lab = Lab()
    file = lab.disk.open("/f")

    def elsewhere() -> bytes:
        lab.thread = 2
        return lab.disk.open("/f").read(0, 2) + file.read(2, 2)

    assert lab.disk.within(lab.attempt, elsewhere) == DATA[:4]


def test_an_attempt_within_another_is_its_own() -> None:
    """And what writes is in none."""
    lab = Lab()
    other = Attempt(lambda: 1)
    file = lab.disk.open("/f")
    other.note({(file, (0, 4)): b"note"})

    def work() -> list[bytes]:
        found = [lab.disk.within(other, lambda: file.read(0, 4))]
        return [*found, outside(lab.disk, lambda: file.read(0, 4)), file.read(0, 4)]

    assert lab.run(work) == ([b"note", DATA[:4], DATA[:4]], 1)
    assert outside(lab.below, lambda: 7) == 7
    assert lab.disk.attempt_here() is None


def test_what_several_lack_is_asked_for_at_once() -> None:
    """In one more attempt for all of them."""
    lab = Lab()
    file = lab.disk.open("/f")

    def work() -> list[bytes]:
        return gather(partial(file.read, at * 600, 2) for at in range(5))

    assert lab.run(work) == ([DATA[at * 600 : at * 600 + 2] for at in range(5)], 2)


def test_a_chain_is_followed_in_one_go() -> None:
    """Up to a limit; one that leads round and round ends there, too."""
    lab = Lab(b"".join(number.to_bytes(4, "big") for number in range(1, FOLLOWED_MAX + 500)))
    file = lab.disk.open("/f")

    def after(data: bytes) -> tuple[int, int] | None:
        number = int.from_bytes(data, "big")
        return (4 * number, 4) if number < FOLLOWED_MAX + 400 else None

    def walk() -> int:
        number, count = 0, 0
        while number < FOLLOWED_MAX + 400:
            data = following(partial(file.read, 4 * number, 4), after)
            number = int.from_bytes(data, "big")
            count += 1
        return count

    assert lab.run(walk) == (FOLLOWED_MAX + 400, 3)
    other = lab.disk.open("/f")
    lab.below.open("/f").give_back(0, 8 * KIB)
    again = lab.run(lambda: following(lambda: other.read(0, 4), lambda _: (0, 4)))
    assert again == ((1).to_bytes(4, "big"), 2)


def test_what_cannot_say_if_it_would_wait_is_asked_elsewhere() -> None:
    """Once for a piece of work; it may say no, or nothing."""
    lab = Lab()
    calls: list[int] = []

    def call(number: int) -> int | None:
        calls.append(number)
        if number == 3:
            raise DiskFailed("three")
        return number or None

    def work() -> list[int | None]:
        return [lab.disk.ask(("database", number), partial(call, number)) for number in (0, 1, 0)]

    assert lab.run(work) == ([None, 1, None], 3)
    assert calls == [0, 1]
    assert lab.disk.ask(("database", 0), partial(call, 7)) == 7
    with pytest.raises(DiskFailed, match="three"):
        lab.run(lambda: lab.disk.ask(("database", 3), partial(call, 3)))
    lab.attempt.close()


def test_files_that_were_opened_for_nothing_are_closed() -> None:
    """The work went another way."""
    lab = Lab()
    closed: list[str] = []

    class Watched:
        path = "/f"

        def close(self) -> None:
            closed.append(self.path)

    watched: Any = Watched()
    lab.attempt.note({("/f", False): watched, ("/none", False): FileMissing("/none")})
    lab.attempt.close()
    assert closed == ["/f"]


def test_work_that_lets_go_of_files_gets_further_all_the_same() -> None:
    """Each file is opened once: begun anew, the work finds those that it had let go of.

    It used to open all the earlier ones again for each further one, twice as many each time.
    """
    lab = Lab()
    names = [f"/{number}" for number in range(20)]
    for name in names:
        lab.below.open(name, write=True, create=True).write([name.encode()], 0)

    def work() -> list[bytes]:
        return [lab.disk.open(name).read(0, 9) for name in names]

    before = lab.below.calls["open"]
    assert lab.run(work) == ([name.encode() for name in names], 21)
    assert lab.below.calls["open"] - before == 20


def test_a_file_that_was_closed_is_opened_anew() -> None:
    """What is given out a second time can be read."""
    lab = Lab()

    def work() -> bytes:
        file = lab.disk.open("/f")
        first = file.read(0, 2)
        file.close()
        return first + lab.disk.open("/f").read(2, 2)

    assert lab.run(work)[0] == DATA[:4]
