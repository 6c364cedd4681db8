"""Property strings that can be stored as they came, with the broker's own properties behind them.

Nearly all can. Checking many strings together costs a fifth of checking each. The joint check
counts, so what one string lacks could be made good by another; therefore what must be true of each
string is also checked in each.
"""

from collections.abc import Mapping, Sequence

from sprocket.rocketmq.broker.messages.delay_levels import TIMER_NAMES
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.message import Column

try:
    from sprocket.rocketmq.codec.record import batch_rows
except ImportError:  # the light install; plain Python does the same
    batch_rows = None  # type: ignore[assignment]

_POP_CK = "POP_CK"

REWRITTEN = frozenset(
    {properties.MSG_REGION, properties.TRACE_ON, properties.CLUSTER, _POP_CK, properties.CRC32}
)
"""With one of these the property string is made anew instead of being added to."""

LOOKED_AT = frozenset({properties.DELAY, properties.TRAN_MSG, properties.INNER_NUM, *TIMER_NAMES})
"""What may be refused, or go elsewhere first."""

SPECIAL = REWRITTEN | LOOKED_AT
"""What asks for a further look; most messages have none of it."""

UNIQUE_NAME = f"{properties.UNIQ_KEY}\x01"
"""How the unique key begins, if it is the first property."""

UNIQUE = f"\x02{UNIQUE_NAME}"
"""How it begins behind others."""

_MARKS = ("\x01\x02", *[f"\x02{name}\x01" for name in sorted(SPECIAL)])
"""What shows an empty value or a special name in property strings that are joined."""


def are_plain(closed: str, count: int) -> bool:
    """Say whether property strings can be added to as they are, except for what each must have.

    There are as many pairs as ends, and as many unique keys as strings; none has an empty value or
    a name of `SPECIAL`.

    Args:
        closed: 0x02 and the strings, each of which is to end in 0x02.
        count: How many they are.
    """
    if not closed.count(UNIQUE) == closed.count(UNIQUE_NAME) == count:
        return False
    if closed.count("\x01") + 1 != closed.count("\x02"):
        return False
    for mark in _MARKS:  # noqa: SIM110 - a generator would cost half as much again
        if mark in closed:
            return False
    return True


def added_to_each(texts: Sequence[bytes], shared: Mapping[str, str], suffix: str) -> bytes | None:
    """Return what to add to the properties of each part of a batch; None if one is not plain.

    Args:
        texts: Properties of each.
        shared: Those of the batch, which each is to have.
        suffix: The broker's own.
    """
    if (
        isinstance(texts, Column)
        and batch_rows is not None
        and len(texts) >= batch_rows.ROWS_MIN
        and batch_rows.are_alike(texts, shared)
    ):
        texts = [texts[0]]  # what holds for it holds for all
    try:
        closed = "\x02" + b"".join(texts).decode()
    except UnicodeDecodeError:
        return None
    key = UNIQUE_NAME.encode()
    if [text for text in texts if text[-1:] != b"\x02" or key not in text]:
        return None
    if not are_plain(closed, len(texts)):
        return None
    for name, value in shared.items():
        if f"\x02{name}\x01" not in closed:
            suffix = f"{name}\x01{value}\x02{suffix}"
        elif not _each_has(texts, closed, name, value):
            return None
    return suffix.encode("utf-8", "replace")


def _each_has(texts: Sequence[bytes], closed: str, name: str, value: str) -> bool:
    """Say whether each of some property strings has a pair once, and no other of its name.

    Args:
        texts: The strings.
        closed: See `are_plain`.
        name: The pair's.
        value: The pair's.
    """
    start, pair = f"{name}\x01", f"{name}\x01{value}\x02".encode("utf-8", "replace")
    if not closed.count(f"\x02{start}") == closed.count(start) == len(texts):
        return False
    return not [text for text in texts if pair not in text]
