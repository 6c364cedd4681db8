"""Addresses as the rules of RocketMQ 4 name them.

    *                     every address; so are *.*.*.* and *:*:*:*:*:*:*:*
    10.0.0.7              one
    10.0.0.7,10.0.0.9     each of these
    10.0.0.{7,9}          the same
    10.0.7-9.*            parts of a range, and parts that may be anything

So with IPv6, whose parts are hexadecimal. A `*` at the end stands for all parts that are missing.

Each part counts. RocketMQ 4.9.8 looks at no part after the first that is not a number, so that
`10.*.0.7` is all of `10.*.*.*` there.

Source: `RemoteAddressStrategyFactory`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

_EVERY_ADDRESS: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_DIGITS: Final = {10: re.compile("[0-9]{1,3}"), 16: re.compile("[0-9a-fA-F]{1,4}")}

Range = tuple[int, int]
"""The least and the greatest number that a part may be."""


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """Some addresses.

    Attributes:
        is_every: Whether it is all of them.
        kinds: Else the ranges of the four parts of IPv4, or the eight of IPv6, for each kind of
            address that is meant.
    """

    is_every: bool = False
    kinds: Sequence[Sequence[Range]] = ()

    @classmethod
    def parse(cls, text: str) -> "AddressPattern":
        """Parse a pattern; a blank one matches no address.

        Raises:
            ValueError: It means nothing.
        """
        text = text.strip()
        if text in _EVERY_ADDRESS:
            return cls(is_every=True)
        return cls(kinds=tuple(_ranges(one.strip()) for one in _listed(text)))

    def __bool__(self) -> bool:
        return self.is_every or bool(self.kinds)

    def matches(self, address: str) -> bool:
        """Tell whether an IP address is one of these; IPv4 through IPv6 counts as IPv4."""
        if self.is_every:
            return True
        numbers = _numbers(address)
        return any(
            len(kind) == len(numbers)
            and all(
                least <= number <= most for number, (least, most) in zip(numbers, kind, strict=True)
            )
            for kind in self.kinds
        )


def _numbers(address: str) -> Sequence[int]:
    """Return the parts of an IP address; none of what is not an address."""
    try:
        found = ip_address(address)
    except ValueError:
        return ()
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return [int(part, 16) for part in found.exploded.split(":")]
        found = found.ipv4_mapped
    return [*found.packed]


def _listed(text: str) -> Sequence[str]:
    """Return what a list names one by one."""
    if not text:
        return ()
    if text.endswith("}"):
        start, brace, last = text[:-1].rpartition("{")
        if not brace or not start.endswith((".", ":")):
            raise ValueError(f"{text!r} has no list of last parts, such as 10.0.0.{{7,9}}")
        return [start + one.strip() for one in last.split(",")]
    return text.split(",")


def _ranges(text: str) -> Sequence[Range]:
    """Return the ranges of the parts of one address."""
    if ":" in text:
        parts, count, base, most = _parts_of_v6(text), 8, 16, 0xFFFF
    else:
        parts, count, base, most = text.split("."), 4, 10, 0xFF
    if parts[-1] == "*":
        parts += ["*"] * (count - len(parts))
    if len(parts) != count:
        raise ValueError(f"{text!r} is not an address: it has {len(parts)} parts")
    return tuple(_range(part, base, most, text) for part in parts)


def _parts_of_v6(text: str) -> list[str]:
    """Return the parts; those that `::` leaves out are zeros."""
    head, gap, tail = text.partition("::")
    first, last = (part.split(":") if part else [] for part in (head, tail))
    return [*first, *["0"] * (8 - len(first) - len(last)), *last] if gap else first


def _range(part: str, base: int, most: int, text: str) -> Range:
    if part == "*":
        return 0, most
    least, dash, greatest = part.partition("-")
    if not dash:
        greatest = least
    digits = _DIGITS[base].fullmatch
    if not (digits(least) and digits(greatest)):
        raise ValueError(f"{text!r} is not an address: {part!r}")
    found = int(least, base), int(greatest, base)
    if not found[0] <= found[1] <= most:
        raise ValueError(f"{text!r} is not an address: {part!r} is out of range")
    return found
