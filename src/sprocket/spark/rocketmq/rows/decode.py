"""What only records have, as Arrow arrays; see `spark.arrow`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.rocketmq.codec.columns import Records
from sprocket.spark.arrow import numbers, repeated


def topics(records: Records) -> Any:
    """Return the topic of each record as text."""
    if len(records.topic_names) == 1:
        return repeated(records.topic_names[0], len(records))
    names = pa.array(records.topic_names, pa.string())
    return names.take(numbers(records.topic_number, pa.int64()))


def in_hex(words: Sequence[Any]) -> Any:
    """Return rows of words in hex, in capitals: an array of bytes, one row after the other.

    Args:
        words: For each word of a row the numbers of 32 bits of all rows.
    """
    digits = np.empty((len(words[0]), len(words)), np.uint64)
    for number, word in enumerate(words):
        digits[:, number] = word
    for shift, mask in _SPREAD:  # the eight digits of a word become bytes of their own
        digits = (digits << shift | digits) & mask
    beyond_9 = (digits + _SIXES) >> np.uint64(4) & _ONES
    return (digits + _ZEROS + beyond_9 * _TO_LETTERS).astype(">u8")


_SPREAD = [
    (np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(4), np.uint64(0x0F0F0F0F0F0F0F0F)),
]
_ONES = np.uint64(0x0101010101010101)
_SIXES = np.uint64(6) * _ONES
_ZEROS = np.uint64(ord("0")) * _ONES
_TO_LETTERS = np.uint64(ord("A") - ord("9") - 1)
