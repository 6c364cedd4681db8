"""Which messages of a topic a consumer wants: one value, from its subscription to a queue's reader.

A filter is asked twice. `by_unit` looks at what a queue's unit holds, so that a message that is not
wanted is not read from the log; two tags may have one hash, so it lets others pass, too.
`by_properties` decides. No filter (None) lets every message pass.

An expression that units cannot decide lets all units pass, and is asked by properties only.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from sprocket.rocketmq.model.hashes import hash32

ALL = "*"
"""The expression that wants every message."""


class MessageFilter(Struct, frozen=True):
    """Messages that have one of some tags.

    Attributes:
        tags: The tags, sorted.
        codes: Their hashes, as queue units hold them.
    """

    tags: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset()

    def by_unit(self, code: int) -> bool:
        """Say whether a message may be wanted whose unit has this code.

        Hashes are compared by their low 32 bits, as Java's `(int)` takes them.

        Source: RocketMQ `ExpressionMessageFilter.isMatchedByConsumeQueue`.
        """
        if not -0x8000_0000 <= code < 0x8000_0000:
            code = ((code + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
        return code in self.codes

    def by_hashes(self, codes: Iterable[int]) -> bool:
        """Say whether one of some new messages may be wanted, by the hashes of their tags."""
        return not self.codes.isdisjoint(codes)

    def by_properties(self, properties: Mapping[str, str]) -> bool:
        """Say whether a message with these properties is wanted."""
        return properties.get("TAGS") in self.tags


def parse(expression: str) -> MessageFilter | None:
    """Read tags with `||` between them; None for `*`, which wants every message.

    Source: RocketMQ `FilterAPI.buildSubscriptionData`.
    """
    if expression == ALL:
        return None
    tags = sorted({tag.strip() for tag in expression.split("||")} - {""})
    return MessageFilter(tuple(tags), frozenset(map(hash32, tags)))
