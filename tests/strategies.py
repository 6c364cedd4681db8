"""Hypothesis strategies for RocketMQ's values, gathered in one place."""

from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.codec.record.batch import Part
from sprocket.rocketmq.model.epochs import Epoch, Epochs
from sprocket.rocketmq.model.message import (
    COMPRESSED,
    MULTI_TAGS,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    NewBatch,
    NewRecord,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)

_NO_SURROGATES: list[Literal["Cs"]] = ["Cs"]

topics: SearchStrategy[str] = st.one_of(
    st.sampled_from(["T", "TopicTest", "%RETRY%group", "RMQ_SYS_TRACE_TOPIC"]),
    st.text(alphabet="abcXYZ019_-|%", min_size=1, max_size=255),
    st.integers(120, 135).map(lambda count: "é" * count),
)
"""Names on both sides of the limit of version 1; some with fewer characters than bytes."""

names = st.text(
    st.characters(exclude_categories=_NO_SURROGATES, exclude_characters="\x01\x02"),
    min_size=1,
    max_size=12,
)
property_values = st.text(
    st.characters(exclude_categories=_NO_SURROGATES, exclude_characters="\x02"),
    min_size=1,
    max_size=40,
)
words = st.text(
    st.characters(exclude_categories=_NO_SURROGATES, exclude_characters="\x02 "),
    min_size=1,
    max_size=20,
)


@st.composite
def property_maps(draw: DrawFn) -> dict[str, str]:
    """Draw properties that can be carried: users' own, and those that dispatch looks at."""
    pairs: dict[str, str] = draw(st.dictionaries(names, property_values, max_size=5))
    pairs.pop(properties.CRC32, None)
    if draw(st.booleans()):
        pairs[properties.TAGS] = draw(property_values)
    if draw(st.booleans()):
        pairs[properties.KEYS] = " ".join(draw(st.lists(words, min_size=1, max_size=4)))
    if draw(st.booleans()):
        pairs[properties.UNIQ_KEY] = draw(words)
    return pairs


hosts = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
bodies = st.one_of(st.binary(max_size=64), st.binary(max_size=2000), st.just(b""))
sys_flags = st.sampled_from(
    [0, MULTI_TAGS, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, 0x7FFF_F800]
).filter(lambda flag: not flag & COMPRESSED)


@st.composite
def new_records(draw: DrawFn) -> NewRecord:
    """Draw a record that can be stored."""
    pairs = draw(property_maps())
    return NewRecord(
        topic=draw(topics),
        queue_id=draw(INT32),
        body=draw(bodies),
        properties=properties.encode(pairs),
        born_host=draw(hosts),
        store_host=draw(hosts),
        flag=draw(INT32),
        sys_flag=draw(sys_flags),
        born_at_ms=draw(INT64),
        reconsume_times=draw(INT32),
        prepared_transaction_offset=draw(INT64),
    )


batch_parts: SearchStrategy[list[Part]] = st.lists(
    st.tuples(INT32, bodies, property_maps().map(properties.encode)), max_size=6
)

_ENDS = (b"", b"\x02", b"\0", b"__CRC32#\x011\x02", b"__CRC32#\x011", b"#", b"k\x01v")
"""What property strings may end in, well formed or not."""


@st.composite
def new_batches(draw: DrawFn) -> NewBatch:
    """Draw messages that can be stored together, half of them with properties of any form."""
    first, parts = draw(new_records()), draw(batch_parts.filter(bool))
    is_any = draw(st.booleans())
    ends = st.sampled_from(_ENDS if is_any else _ENDS[:1])
    added = (first.properties, *_ENDS) if is_any else (b"REGION\x01here\x02", *_ENDS[:2])
    return NewBatch(
        first,
        [flag for flag, _, _ in parts],
        [body for _, body, _ in parts],
        [text + draw(ends) for _, _, text in parts],
        draw(st.sampled_from(added)),
    )


@st.composite
def damages(draw: DrawFn, data: bytes) -> bytes:
    """Draw a damaged copy: cut, bits flipped, or a field overwritten; biased to the edges."""
    kind = draw(st.sampled_from(["cut", "flip", "field", "insert"]))
    edges = [0, 1, 4, 8, len(data) - 1, len(data) - 2, len(data) - 20]
    within: SearchStrategy[Any] = st.one_of(
        st.sampled_from([edge for edge in edges if 0 <= edge < len(data)]),
        st.integers(0, len(data) - 1),
    )
    at = draw(within)
    if kind == "cut":
        return data[:at]
    if kind == "insert":
        return data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at:]
    damaged = bytearray(data)
    if kind == "flip":
        damaged[at] ^= 1 << draw(st.integers(0, 7))
    else:
        value = draw(st.sampled_from([b"\0" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0"]))
        damaged[at : at + 4] = value[: len(damaged[at : at + 4])]
    return bytes(damaged)


@st.composite
def epoch_lists(draw: DrawFn, min_size: int = 0) -> Epochs:
    """Return epochs of a log: numbers and starts that rise, also by one."""
    count = draw(st.integers(min_size, 5))
    numbers = draw(st.sets(st.integers(0, 2**31 - 1), min_size=count, max_size=count))
    starts = draw(st.sets(st.integers(0, 2**62), min_size=count, max_size=count))
    return Epochs.of([Epoch(*pair) for pair in zip(sorted(numbers), sorted(starts), strict=True)])
