"""The entries of message stores: written, found again, and found behind any damage."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.rabbitmq.codec import message_term
from sprocket.rabbitmq.codec.store import Gap, ReadAt, StoreEntry, entries
from sprocket.rabbitmq.model.message import BasicMessage


def stored(number: int, size: int = 30) -> bytes:
    """Return an entry with a message of its own."""
    message = BasicMessage(
        bytes([number]) * 16, "/", "", ("q",), b"\0\0", (b"x" * size,), is_persistent=True
    )
    return b"".join(entries.entry(message.id, message_term.encode(message)))


def reading(data: bytes) -> ReadAt:
    """Return what reads `data` as a file."""
    return lambda position, size: data[position : position + size]


def scanned(data: bytes) -> list[StoreEntry | Gap]:
    """Return all that a scan gives; it covers the file without a hole."""
    found = list(entries.scan(reading(data), len(data)))
    at = 0
    for one in found:
        start = one.position if isinstance(one, StoreEntry) else one.start
        assert start == at
        at = one.end
    assert at == len(data)
    return found


def ids(data: bytes) -> list[int]:
    """Return the numbers of the messages that are found."""
    return [one.id[0] for one in scanned(data) if isinstance(one, StoreEntry)]


def gaps(data: bytes) -> list[Gap]:
    """Return what lies between them."""
    return [one for one in scanned(data) if isinstance(one, Gap)]


FILE = stored(1) + stored(2) + stored(3, 2_500_000) + stored(4) + stored(5, 0)
PLACES = [one.position for one in scanned(FILE) if isinstance(one, StoreEntry)]


def test_an_entry_is_found_as_it_was_written() -> None:
    """Its place, its size, and where its term lies."""
    data = stored(7) + stored(8)
    second = scanned(data)[1]
    assert isinstance(second, StoreEntry)
    assert (second.position, second.end) == (len(stored(7)), len(data))
    term = data[second.term_position :][: second.term_size]
    assert message_term.decode(term).id == second.id == bytes([8]) * 16
    assert second.size == entries.entry_size(len(term))


def test_large_messages_are_not_read() -> None:
    """A scan looks at both ends of an entry."""
    counted = 0

    def read(position: int, size: int) -> bytes:
        nonlocal counted
        data = FILE[position : position + size]
        counted += len(data)
        return data

    assert [one.end for one in entries.scan(read, len(FILE))][-1] == len(FILE)
    assert counted < len(FILE) / 2


@pytest.mark.slow
@pytest.mark.parametrize("case", ["03-store-fanout", "05-properties-ttl", "08-classic-v2"])
def test_recorded_files_have_no_gap(case: str) -> None:
    """And each entry's message has the entry's id."""
    for path, data in RecordedVhosts(case).files():
        if path.endswith(".rdq"):
            for one in scanned(data):
                assert isinstance(one, StoreEntry)
                term = data[one.term_position :][: one.term_size]
                assert message_term.decode(term).id == one.id


@pytest.mark.parametrize(
    ("data", "left", "why", "hides_rest"),
    [
        (FILE[:-1], [1, 2, 3, 4], "the entry goes on to", True),
        (FILE + b"\0" * 100, [1, 2, 3, 4, 5], "zeros instead of an entry", True),
        (FILE + b"\0" * 5, [1, 2, 3, 4, 5], "the file ends inside an entry", True),
        (FILE + b"\xee" * 100, [1, 2, 3, 4, 5], "the entry goes on to", True),
        (
            FILE[: PLACES[1] - 1] + b"\0" + FILE[PLACES[1] :],
            [2, 3, 4, 5],
            "mark of an entry",
            False,
        ),
        (
            FILE[: PLACES[1]] + b"\0" * 20 + FILE[PLACES[1] + 20 :],
            [1, 3, 4, 5],
            "zeros instead of an entry",
            True,
        ),
        (
            FILE[: PLACES[1]] + b"\0\0\0\0\0\0\0\x10" + FILE[PLACES[1] + 8 :],
            [1, 3, 4, 5],
            "an entry cannot count 16 bytes",
            True,
        ),
        (FILE[: PLACES[3]] + b"garbage" + FILE[PLACES[3] :], [1, 2, 3, 4, 5], "goes on to", True),
        (
            FILE[: PLACES[1] + 7] + b"\xc3" + FILE[PLACES[1] + 8 :],
            [1, 3, 4, 5],
            "neither mark nor size",
            True,
        ),
    ],
)
def test_what_is_whole_is_found_behind_damage(
    data: bytes, left: list[int], why: str, hides_rest: bool
) -> None:
    """Each gap says what is wrong, and whether RabbitMQ would read on."""
    assert ids(data) == left
    (gap,) = gaps(data)
    assert why in gap.why
    assert gap.hides_rest is hides_rest


def test_a_size_that_leads_into_another_entry_hides_nothing() -> None:
    """A wrong size may end at some other 255."""
    data = bytearray(stored(1) + stored(255) + stored(3))
    behind = len(stored(1)) + 10
    assert data[behind] == 255
    data[:8] = (behind - 8).to_bytes(8, "big")
    assert ids(bytes(data)) == [255, 3]


def test_an_empty_file() -> None:
    """It has neither entries nor gaps."""
    assert scanned(b"") == []


@given(st.data())
@settings(max_examples=60)
def test_no_entry_is_lost_but_those_that_were_touched(draw: st.DataObject) -> None:
    """Whatever bytes are written over a file, and wherever it is cut."""
    sizes = draw.draw(st.lists(st.integers(0, 60), min_size=1, max_size=6))
    parts = [stored(number, size) for number, size in enumerate(sizes, 1)]
    data = bytearray(b"".join(parts))
    start = draw.draw(st.integers(0, len(data)))
    junk = draw.draw(st.one_of(st.binary(max_size=40), st.integers(1, 40).map(bytes)))
    end = min(start + len(junk), len(data))
    data[start:end] = junk[: end - start]
    cut = draw.draw(st.one_of(st.just(len(data)), st.integers(end, len(data))))
    at = 0
    whole = []
    for number, part in enumerate(parts, 1):
        if (at + len(part) <= start or at >= end) and at + len(part) <= cut:
            whole.append(number)
        at += len(part)
    found = ids(bytes(data[:cut]))
    assert [one for one in found if one in whole] == whole


@given(st.binary(max_size=200))
def test_any_bytes_are_scanned_to_their_end(data: bytes) -> None:
    """As entries or as gaps."""
    scanned(data)
