"""Filters of reads: which messages of a queue a consumer wants.

A filter works in two steps. First it looks at the unit, which is cheap: at the hash of the tag, and
at what an extended unit says. Then it looks at the record's properties, if it needs them. The first
step may let too much through, never too little.

Source: RocketMQ `ExpressionMessageFilter`, `MessageFilter`.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from sprocket.rocketmq.codec import bloom
from sprocket.rocketmq.store.queue import ExtendedUnit


class Filter(Protocol):
    """What reading asks."""

    @property
    def needs_properties(self) -> bool:
        """Whether `by_record` is to be asked at all."""

    def by_unit(self, tags_code: int | None, extended: ExtendedUnit | None, /) -> bool:
        """Say whether a message may be wanted.

        Args:
            tags_code: The hash of its tag; None if the extended unit that held it is lost.
            extended: Its extended unit, if it has one.
        """

    def by_record(self, properties: Mapping[str, str], /) -> bool:
        """Say whether a message with these properties is wanted."""


class TagFilter:
    """Wants messages whose tag has one of these hashes; see `record.tags_code`."""

    __slots__ = ("_codes",)

    needs_properties = False

    def __init__(self, codes: frozenset[int]) -> None:
        self._codes = codes

    def by_unit(self, tags_code: int | None, _extended: ExtendedUnit | None, /) -> bool:
        """Compare the low 32 bits, as Java's `(int)` takes them."""
        if tags_code is None:
            return True
        return ((tags_code + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000 in self._codes

    def by_record(self, _properties: Mapping[str, str], /) -> bool:
        """Not asked: consumers compare the tag itself, hashes may collide."""
        return True


class PropertyFilter:
    """Wants messages whose properties pass; the bit map saves the second look at most others.

    Args:
        passes: Says whether properties pass.
        positions: Bits of the map that the group owns, see `bloom.Bloom`.
        bit_map_bytes: Length of maps that these bits lie in; others are not looked at.
        since_ms: When the subscription was registered: older messages were not tried on it.
    """

    __slots__ = ("_bit_map_bytes", "_passes", "_positions", "_since_ms")

    needs_properties = True

    def __init__(
        self,
        passes: Callable[[Mapping[str, str]], bool],
        *,
        positions: tuple[int, ...] = (),
        bit_map_bytes: int = 0,
        since_ms: int = 0,
    ) -> None:
        self._passes = passes
        self._positions = positions
        self._bit_map_bytes = bit_map_bytes
        self._since_ms = since_ms

    def by_unit(self, _tags_code: int | None, extended: ExtendedUnit | None, /) -> bool:
        """Let through what has no map of ours, is older than we are, or has all our bits."""
        if extended is None or extended.stored_at_ms < self._since_ms or not self._positions:
            return True
        bit_map = extended.bit_map
        if len(bit_map) != self._bit_map_bytes:
            return True
        return bloom.has_all(bit_map, self._positions)

    def by_record(self, properties: Mapping[str, str], /) -> bool:
        """Ask the expression."""
        return self._passes(properties)
