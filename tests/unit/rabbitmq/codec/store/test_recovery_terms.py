"""`recovery.dets`: read as a real RabbitMQ left it, written so that Erlang mends it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded_rabbitmq import CASES, RecordedVhosts

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec.store import QueueTerms, recovery_terms

ONE = QueueTerms(
    next_seq_id=300,
    next_deliver_seq_id=150,
    persistent_ref=bytes(range(16)),
    persistent_count=220,
    persistent_bytes=1 << 40,
    segments={0: 220},
)


def recorded(case: str) -> dict[str, bytes]:
    """Return the file of each virtual host."""
    files = RecordedVhosts(case).files()
    return {path: data for path, data in files if path.endswith("recovery.dets")}


@pytest.mark.parametrize("case", CASES)
def test_every_recorded_file_is_read_whole(case: str) -> None:
    """After a kill there are no terms; else each folder of a queue has its own."""
    for data in recorded(case).values():
        found = recovery_terms.decode(data)
        assert found.faults == []
        assert bool(found.queues) == (case != "04-dirty-kill9")


def test_what_a_queue_left() -> None:
    """The first case: 300 messages, 150 of them delivered, 80 of those acknowledged."""
    (data,) = recorded("01-journal-only").values()
    (found,) = recovery_terms.decode(data).queues.values()
    assert (found.next_seq_id, found.next_deliver_seq_id) == (300, 150)
    assert (found.persistent_count, found.segments) == (220, {0: 220})
    assert found.persistent_ref is not None
    assert len(found.persistent_ref) == 16


def test_what_a_queue_of_version_2_left() -> None:
    """Its segments are in a map."""
    (data,) = recorded("08-classic-v2").values()
    found = recovery_terms.decode(data).queues["39MBGW1Y0C52U0YH20YJ0LNT7"]
    assert (found.is_v2, found.segments) == (True, {0: 2697, 1: 869})


def test_a_queue_may_never_have_had_a_persistent_message() -> None:
    """RabbitMQ then says `undefined`: that is not damage."""
    one = QueueTerms(
        next_seq_id=3,
        next_deliver_seq_id=0,
        persistent_ref=None,
        persistent_count=0,
        persistent_bytes=0,
        segments={0: 3},
    )
    data = recovery_terms.encode({"Q": one, "R": ONE})
    assert b"persistent_refd\0\x09undefined" in data
    found = recovery_terms.decode(data)
    assert (found.queues, found.faults) == ({"Q": one, "R": ONE}, [])


@pytest.mark.parametrize("case", CASES)
def test_whose_file_it_is(case: str) -> None:
    """Erlang's is known by its header, and ours whichever bit of it is wrong."""
    for data in recorded(case).values():
        assert not recovery_terms.is_ours(data)
    ours = recovery_terms.encode({"Q": ONE})
    for at in range(0xC0):
        assert recovery_terms.is_ours(ours[:at] + bytes((ours[at] ^ 1,)) + ours[at + 1 :])


@pytest.mark.parametrize("case", ["05-properties-ttl", "08-classic-v2"])
def test_written_terms_are_read_again(case: str) -> None:
    """All of a recorded file, in a file of our own."""
    for data in recorded(case).values():
        queues = recovery_terms.decode(data).queues
        again = recovery_terms.decode(recovery_terms.encode(queues))
        assert (again.queues, again.faults) == (queues, [])


def test_a_written_file_says_that_it_was_not_closed() -> None:
    """So that Erlang reads all collections; each fills a power of two."""
    data = recovery_terms.encode({"A": ONE, "B": ONE})
    assert data[8:12] == bytes(4)
    assert (len(data) - 0x1538) % 512 == 0
    assert data[0x1538 + 4 : 0x1538 + 8].hex() == "12345678"


def test_damage_costs_one_queue() -> None:
    """The others are read, and it is told."""
    data = bytearray(recovery_terms.encode({"A": ONE, "B": ONE}))
    data[0x1538 + 13] = 99
    found = recovery_terms.decode(bytes(data))
    assert list(found.queues) == ["B"]
    assert found.faults[0].startswith("at 5440: ")
    assert found.faults[-1] == "the table counts 2 queues, 1 can be read"


def test_a_size_beyond_the_file_is_told() -> None:
    """What a cut leaves."""
    data = recovery_terms.encode({"A": ONE})[: 0x1538 + 40]
    found = recovery_terms.decode(data)
    assert "does not fit the file" in found.faults[0]


@pytest.mark.parametrize("data", [b"", b"\0" * 51, b"\0" * 52, b"text" * 100])
def test_what_is_no_table_is_told(data: bytes) -> None:
    """By its first bytes."""
    with pytest.raises(CorruptRecord, match="table"):
        recovery_terms.decode(data)


@given(st.data())
def test_any_bytes_give_terms_or_an_error_of_the_store(draw: st.DataObject) -> None:
    """However a file was cut and changed."""
    data = bytearray(recovery_terms.encode({"A": ONE, "B": ONE}))
    interesting = st.one_of(st.integers(0, 60), st.integers(0x1538, len(data) - 1))
    for _ in range(draw.draw(st.integers(1, 5))):
        data[draw.draw(interesting)] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    try:
        recovery_terms.decode(bytes(data[:cut]))
    except CorruptRecord:
        return
