"""Heads made by columns are those that `batch.join` writes one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sprocket.rocketmq.codec.columns import HEAD_BYTES, LENGTH_BYTES, batch_heads
from sprocket.rocketmq.codec.record import batch

_parts = st.tuples(
    st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=300)
)


@given(st.lists(_parts, max_size=6))
def test_a_body_of_these_heads_is_what_join_gives(parts: list[batch.Part]) -> None:
    """Flags of both signs, empty bodies and properties among them."""
    flags = np.array([flag for flag, _, _ in parts], np.int64)
    bodies = np.array([len(body) for _, body, _ in parts], np.int64)
    texts = np.array([len(text) for _, _, text in parts], np.int64)
    heads, lengths = batch_heads(flags, bodies, texts)
    made = b"".join(
        heads[at * HEAD_BYTES : (at + 1) * HEAD_BYTES]
        + body
        + lengths[at * LENGTH_BYTES : (at + 1) * LENGTH_BYTES]
        + text
        for at, (_, body, text) in enumerate(parts)
    )
    assert batch.join(parts) == made
