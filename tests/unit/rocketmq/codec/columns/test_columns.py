"""Records decoded many at a time are those that the plain decoder gives, and checked as well.

All columns of all records are compared with it in `tests/unit/spark/rocketmq/test_decode.py`, which
makes rows of them.
"""

from random import Random

import numpy as np
import pytest
from tests.unit.rocketmq.codec.given import new_record, stored

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.columns import Records, Stop, records, scan
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.codec.record_layout import I32, MAGIC_V1


def _log(*topics: str, crc_tail: bool = False) -> bytes:
    """Return a log with one record a topic."""
    data = b""
    for topic in topics:
        data += stored(new_record(topic=topic), at=len(data), crc_tail=crc_tail)
    return data


def _found(data: bytes, base: int | None = 0) -> Records:
    scanned = scan(data, 0, len(data))
    return records(data, scanned.positions, scanned.stopped_at, base)


def test_scan_says_why_it_stopped() -> None:
    """The end, a record that goes on, padding, zeros and rubbish are told apart."""
    data = _log("t", "t", "t")
    size = len(data) // 3
    assert (scan(data, 0, len(data)).stop, len(scan(data, 0, len(data)).positions)) == (Stop.END, 3)
    partial = scan(data, 0, len(data) - 1)
    assert (partial.stop, partial.stopped_at, partial.size) == (Stop.PARTIAL, 2 * size, size)
    assert scan(data, 0, 2 * size + 7).size == 0
    assert scan(data + record.blank(20), 0, len(data) + 8).stop is Stop.BLANK
    assert scan(data + bytes(8), 0, len(data) + 8).stop is Stop.BROKEN
    assert scan(data, 1, len(data)).stop is Stop.BROKEN
    some = scan(data, 0, len(data), 2)
    assert (some.stop, some.stopped_at, len(some.positions)) == (Stop.END, 2 * size, 2)


@pytest.mark.parametrize("count", [63, 64, 65, 127, 128, 129, 300])
@pytest.mark.parametrize("then", ["end", "zeros", "longer", "cut"])
def test_many_records_of_one_size_are_found_like_others(count: int, then: str) -> None:
    """Up to one of another size, and to no more than were asked for."""
    data = b"".join(stored(new_record(), at=0) for _ in range(count))
    size = len(data) // count
    places = list(range(0, len(data), size))
    if then == "zeros":
        data += bytes(size)
    elif then == "longer":
        data += stored(new_record(body=b"longer"), at=0) + stored(new_record(), at=0)
        places += [count * size, count * size + size + 1]
    elif then == "cut":
        data = data[:-1]
        places.pop()
    assert scan(data, 0, len(data)).positions.tolist() == places
    assert scan(data, size, len(data)).positions.tolist() == places[1:]
    for most in (1, 64, 100, 128, 130):
        assert scan(data, 0, len(data), most).positions.tolist() == places[:most]


@pytest.mark.parametrize("kind", ["plain", "magics in bodies", "records in bodies"])
def test_many_records_of_many_sizes_are_found_like_others(kind: str) -> None:
    """As one after the other, whole, cut anywhere, and with any wrong size or magic.

    Of a memoryview each record is followed by itself.
    """
    random = Random(kind)
    inside = {
        "plain": b"",
        "magics in bodies": MAGIC_V1.to_bytes(4, "big"),
        "records in bodies": _log("inner", "inner"),
    }[kind]
    some = [stored(new_record(body=b"x" * at + inside), at=0) for at in range(200)]
    parts = [some[random.randrange(200)] for _ in range(1500)]
    data = b"".join(parts)
    places = np.cumsum([0, *map(len, parts)]).tolist()
    assert scan(data, 0, len(data)).positions.tolist() == places[:-1]
    for most in (64, 65, 700, 1499):
        found = scan(data, 0, len(data), most)
        assert (found.positions.tolist(), found.stopped_at) == (places[:most], places[most])
    for number in range(40):
        damaged = bytearray(data)
        start, wrong = (random.choice(places[:-1]) for _ in range(2))
        if number % 2:
            damaged[wrong + random.randrange(8)] ^= 1 << random.randrange(8)
        else:  # a record that is too short to be one, and another behind it
            (size,) = I32.unpack_from(data, wrong)
            I32.pack_into(damaged, wrong, 60)
            I32.pack_into(damaged, wrong + 60, size - 60)
        end = random.randint(start, len(data))
        one, other = (scan(form(damaged), start, end) for form in (bytes, memoryview))
        assert one.positions.tolist() == other.positions.tolist()
        assert (one.stopped_at, one.stop, one.size) == (other.stopped_at, other.stop, other.size)


def test_records_stop_at_one_that_names_another_place() -> None:
    """A whole record, with a right checksum, that belongs elsewhere is not taken."""
    data = _log("t", "t") + stored(new_record(), at=7)
    kept = _found(data)
    assert len(kept) == 2
    assert kept.defect == "the record says that it lies at 7"
    assert len(_found(data, None)) == 3


def test_each_topic_is_kept_once() -> None:
    """Of one length or of several, of many, empty, not ASCII and with zeros too."""
    many = [f"topic-{number:02}" for number in range(30)]
    topics = ["one", "two", "one", "", "längere", "two", "no\0", "\0\0\0", *many, "no\0", *many]
    kept = _found(_log(*topics))
    assert sorted(kept.topic_names) == sorted(set(topics))
    assert [kept.topic_names[number] for number in kept.topic_number] == topics


def test_a_topic_that_is_no_text_ends_the_records() -> None:
    """Whichever of them it is."""
    data = _log("one", "two", "abc").replace(b"two", b"\xff\xfe\xfd")
    kept = _found(data)
    assert (len(kept), kept.defect) == (1, "the topic is not UTF-8")


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, True], [False, False, False]])
def test_keep_and_part_choose_records(mask: list[bool]) -> None:
    """What is kept is what the mask names; parts are slices."""
    kept = _found(_log("a", "b", "c"))
    chosen = kept.keep(np.array(mask))
    assert chosen.start.tolist() == [s for s, m in zip(kept.start.tolist(), mask, strict=True) if m]
    assert [chosen.topic_names[n] for n in chosen.topic_number] == [
        topic for topic, keep in zip("abc", mask, strict=True) if keep
    ]
    assert kept.part(1, 3).start.tolist() == kept.start.tolist()[1:]


def test_bad_bodies_are_found() -> None:
    """One changed bit of a body shows in its checksum."""
    data = bytearray(_log("a", "b", "c"))
    data[int(_found(bytes(data)).body_start[1])] ^= 0x40
    assert _found(bytes(data)).bad_bodies().tolist() == [False, True, False]


@pytest.mark.parametrize("last_has_tail", [False, True])
def test_wrong_sums_are_those_that_the_plain_check_finds(last_has_tail: bool) -> None:
    """Whichever byte of a record is changed; without a tail its body is compared."""
    data = _log("a", "b", crc_tail=True) + _log("c", crc_tail=last_has_tail)
    good = _found(data, None)
    assert good.wrong_sums().tolist() == [False, False, False]
    first, end = int(good.start[1]), int(good.end[1])
    seen = 0
    for at in range(first, end):
        damaged = bytearray(data)
        damaged[at] ^= 0x11
        kept = _found(bytes(damaged), None)
        try:
            record.decode(bytes(damaged), first, check_tail=True)
        except WireError:
            expected = True
        else:
            expected = False
        if len(kept) == 3:
            seen += 1
            assert kept.wrong_sums().tolist() == [False, expected, False], at
    assert seen > (end - first) // 2


@pytest.mark.parametrize("others_have_tails", [False, True])
def test_a_record_without_a_tail_has_its_body_compared(others_have_tails: bool) -> None:
    """Whatever those before it end in."""
    data = bytearray(_log("a", "b", crc_tail=others_have_tails) + _log("c"))
    data[int(_found(bytes(data), None).body_start[2])] ^= 0x40
    assert _found(bytes(data), None).wrong_sums().tolist() == [False, False, True]
