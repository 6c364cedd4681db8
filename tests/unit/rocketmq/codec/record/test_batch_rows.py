"""Batches as rows: what is taken for alike is alike, and what is written is what others write."""

import random
from collections.abc import Collection
from typing import Any

import pytest
from tests.unit.rocketmq.codec.given import new_record

from sprocket.rocketmq.broker.messages import send
from sprocket.rocketmq.codec.record import batch, batch_rows, record
from sprocket.rocketmq.codec.record.batch_rows import ROWS_MIN
from sprocket.rocketmq.errors import PropertiesTooLarge
from sprocket.rocketmq.model.message import Column, NewBatch

NAMES = ("KEYS", "UNIQ_KEY", "WAIT", "TAGS", "DELAY", "é")


def column(texts: list[bytes]) -> Column:
    """Return texts of one length as a batch has them."""
    found = batch.split(batch.join([(0, b"body", text) for text in texts])).properties
    assert isinstance(found, Column)
    return found


def some_texts(rng: random.Random) -> list[bytes]:
    """Return properties mostly alike, of one length in any case, with one byte or two changed."""
    names = rng.sample(NAMES[:4], 4) if rng.random() < 0.8 else rng.choices(NAMES, k=3)
    values = [rng.choice(("v", "true", "0" * 32)) for _ in names]
    text = "".join([f"{n}\x01{v}\x02" for n, v in zip(names, values, strict=True)]).encode()
    texts = [bytearray(text) for _ in range(ROWS_MIN)]
    for one in texts:
        at = rng.randrange(len(text))
        if one[at] == ord("0"):
            one[at] = rng.choice(b"123")
    for _ in range(rng.choice((0, 0, 1, 2))):
        rng.choice(texts)[rng.randrange(len(text))] = rng.choice((0, 1, 2, 0x80, ord("x")))
    if rng.random() < 0.3:  # a separator goes to another place
        one = rng.choice(texts)
        at, other = rng.randrange(len(text)), rng.choice((one.index(1), one.index(2)))
        one[at], one[other] = one[other], one[at]
    return [bytes(one) for one in texts]


@pytest.mark.parametrize("seed", range(500))
def test_a_look_at_the_first_is_as_good_as_one_at_each(seed: int) -> None:
    """What is added to each message is the same, and None for the same batches."""
    rng = random.Random(seed)
    texts = some_texts(rng)
    shared: dict[str, str] = rng.choice(({}, {"WAIT": "true"}, {"A": "b"}, {"TAGS": "v"}))
    found = send.BatchSuffix("end").added(column(texts), shared)
    assert found == send.added_to_each(texts, shared, "end")


@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_of_a_form_is_what_a_look_at_each_says(seed: int) -> None:
    """Whatever batches came before: of the same form or not, and with other shared properties."""
    rng = random.Random(seed)
    suffix = send.BatchSuffix("end")
    kept: list[list[bytes]] = []
    for _ in range(60):
        texts = some_texts(rng)
        if kept and rng.random() < 0.7:  # the same form, or nearly
            texts = [bytearray(text) for text in rng.choice(kept)]  # type: ignore[misc]
            for _ in range(rng.choice((0, 1, 3))):
                one: Any = rng.choice(texts)
                one[rng.randrange(len(one))] = rng.choice((0, 1, 2, 0x80, ord("x"), ord("0")))
            texts = [bytes(text) for text in texts]
        kept.append(texts)
        shared: dict[str, str] = rng.choice(({}, {"WAIT": "true"}, {"A": "b"}, {"TAGS": "v"}))
        assert suffix.added(column(texts), shared) == send.added_to_each(texts, shared, "end")


def test_so_many_forms_are_known_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of others is forgotten then, and found again."""
    monkeypatch.setattr(send, "KNOWN_FORMS_MAX", 2)
    suffix = send.BatchSuffix("end")
    for length in (1, 2, 3, 1, 2, 3):
        text = b"UNIQ_KEY\x01" + b"k" * length + b"\x02"
        assert suffix.added(column([text] * ROWS_MIN), {}) == b"end"
        assert len(suffix.known) <= 2


def test_a_separator_in_a_value_may_stand_elsewhere_in_another() -> None:
    """There it may leave a name without a value, so each is to be looked at."""
    first, other = (
        b"UNIQ_KEY\x01P\x02A\x01b\x01c\x02D\x02",
        b"UNIQ_KEY\x01P\x02A\x01bc\x01\x02D\x02",
    )
    texts = [first] * ROWS_MIN + [other]
    assert send.added_to_each(texts, {}, "end") is None
    assert send.BatchSuffix("end").added(column(texts), {}) is None


def are_alike(texts: list[bytes], fixed: Collection[str] = ()) -> bool:
    """Say whether texts have the form of the first."""
    form = batch_rows.Form.of(texts[0], fixed)
    return form is not None and form.fits(column(texts))


def test_batches_as_clients_send_them_are_alike() -> None:
    """Not those with another order, a name of another length, or a value that is to be the same."""
    row = "KEYS\x01k{0:03d}\x02UNIQ_KEY\x017F{0:030d}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    texts = [row.format(number).encode() for number in range(32)]
    assert are_alike(texts, {"WAIT"})
    assert not are_alike(texts, {"KEYS"})
    for old, new in ((b"KEYS\x01k", b"KEY\x01kS"), (b"WAIT\x01t", b"WAIT\x02t"), (b"rue", b"\0ue")):
        assert not are_alike([*texts[:-1], texts[-1].replace(old, new)])


@pytest.mark.parametrize("seed", range(60))
def test_records_are_what_they_are_one_by_one(seed: int) -> None:
    """Whatever hosts, topic, flags, sizes and number of messages."""
    rng = random.Random(seed)
    count, body_bytes, text_bytes = (
        rng.choice((1, ROWS_MIN - 1, ROWS_MIN, 40)),
        rng.choice((0, 1, 999)),
        20,
    )
    parts = [
        (
            rng.choice((0, 7, -1)),
            rng.randbytes(body_bytes),
            b"a\x01%b\x02" % rng.randbytes(text_bytes - 3).replace(b"#", b"+").replace(b"%", b"+"),
        )
        for _ in range(count)
    ]
    flags, bodies, texts = batch.split(batch.join(parts))
    shared = new_record(
        topic=rng.choice(("T", "T" * 200)),
        born_host=bytes(rng.choice((8, 20))),
        store_host=bytes(rng.choice((8, 20))),
        sys_flag=rng.choice((0, 1)),
        reconsume_times=3,
    )
    crc_tail = rng.random() < 0.7
    new = NewBatch(shared, flags, bodies, texts, rng.choice((b"k\x01v\x02", b"", b"open")))
    place = 1 << rng.choice((0, 31, 62))
    data, places = record.encode_batch(new, 1 << 40, place, 5, crc_tail)
    offsets = range(1 << 40, (1 << 40) + count)
    expected = record.encode_all(new.records(), offsets, place, 5, crc_tail)
    assert (b"".join(record.finish(data)), places) == expected


@pytest.mark.parametrize("seed", range(60))
def test_batches_written_together_are_what_each_is(seed: int, monkeypatch: Any) -> None:
    """Of any senders, queues and sizes, with single records between, and however many fit."""
    rng = random.Random(seed)
    monkeypatch.setattr(record, "ROWS_BYTES_MAX", rng.choice((1, 6000, 1 << 30)))
    encoded: list[Any] = []
    expected = b""
    place = rng.choice((0, 1 << 40))
    for _ in range(rng.choice((1, 2, 6))):
        size = rng.choice((3, 3, 3, 50))
        parts = [
            (rng.choice((0, -5)), rng.randbytes(size), b"a\x01%03d\x02" % rng.randrange(1000))
            for _ in range(rng.choice((1, ROWS_MIN, ROWS_MIN, 16)))
        ]
        shared = new_record(
            topic=rng.choice(("T", "T", "U", "Topic")),
            queue_id=rng.randrange(4),
            born_host=rng.randbytes(rng.choice((8, 8, 8, 20))),
            born_at_ms=rng.randrange(99),
        )
        new = NewBatch(shared, *batch.split(batch.join(parts)), b"k\x01v\x02")
        offset = rng.randrange(1 << 33)
        data, places = record.encode_batch(new, offset, place, 5, True)
        offsets = range(offset, offset + len(parts))
        each, _ = record.encode_all(new.records(), offsets, place, 5, True)
        encoded += data
        expected += each
        place = places[-1]
    found = record.finish(encoded)
    assert b"".join(found) == expected


def test_batches_of_one_form_are_written_in_one_piece() -> None:
    """Whoever sent them, up to a limit; what is written already is left as it is."""
    parts = [(0, b"body", b"a\x01%02d\x02" % number) for number in range(ROWS_MIN)]
    encoded: list[Any] = []
    place = 0
    for queue_id in range(3):
        new = NewBatch(
            new_record(queue_id=queue_id), *batch.split(batch.join(parts)), b"k\x01v\x02"
        )
        data, places = record.encode_batch(new, 0, place, 5, True)
        encoded += data
        place = places[-1]
    assert len(record.finish(encoded)) == 1
    assert len(record.finish([b"one", *encoded, b"two"])) == 3
    assert record.finish([b"one", b"two"]) == [b"one", b"two"]
    assert len(record.finish([encoded[0], encoded[2], encoded[1]])) == 3


def test_a_batch_that_is_too_large_says_so() -> None:
    """Though all its messages are alike."""
    texts: Any = column([b"a\x01" + b"x" * 32760 + b"\x02"] * ROWS_MIN)
    bodies = column([b"x"] * ROWS_MIN)
    new = NewBatch(new_record(), [0] * ROWS_MIN, bodies, texts, b"k\x01v\x02")
    with pytest.raises(PropertiesTooLarge, match="bytes of properties exceed"):
        record.encode_batch(new, 0, 0, 0, True)
