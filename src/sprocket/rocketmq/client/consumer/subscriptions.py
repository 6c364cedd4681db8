"""What a consumer has subscribed to, and how brokers learn of it."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from sprocket.base.clock import Clock
from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.producer import check_topic
from sprocket.rocketmq.codec.bodies import ConsumerData
from sprocket.rocketmq.model.filters import ALL
from sprocket.rocketmq.model.group import Subscription

_SQL = re.compile(
    r"[<>=]|\bis\s+(not\s+)?null\b|\bin\s*\(|\bbetween\b.+\band\b|\b(like|contains)\s+'",
    re.IGNORECASE,
)
"""What an expression of SQL92 has and a tag hardly ever."""
_FROM = {"first": "CONSUME_FROM_FIRST_OFFSET", "last": "CONSUME_FROM_LAST_OFFSET"}


class Subscriptions(Mapping[str, Subscription]):
    """Subscriptions by topic.

    A later one of a topic has a higher version, by which brokers tell which is newer.
    """

    def __init__(self) -> None:
        self._by_topic: dict[str, Subscription] = {}

    def __getitem__(self, topic: str) -> Subscription:
        return self._by_topic[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_topic)

    def __len__(self) -> int:
        return len(self._by_topic)

    def add(self, topic: str, expression: str, clock: Clock | None) -> None:
        """Subscribe to a topic, or change what is wanted of it; before the start without a clock.

        Raises:
            InvalidMessage: The name is illegal, or the expression holds no tag, or is SQL.
        """
        check_topic(topic)
        check_tags(expression)
        version = 0 if clock is None else clock.now_ms()
        known = self._by_topic.get(topic)
        if known is not None:
            version = max(version, known.version + 1)
        self._by_topic[topic] = Subscription.parse(topic, expression.strip(), version=version)

    def remove(self, topic: str) -> None:
        """Want nothing more of a topic."""
        self._by_topic.pop(topic, None)

    def heartbeat(self, plan: ConsumerPlan) -> ConsumerData:
        """Return what brokers are told of a group with these subscriptions."""
        return ConsumerData(
            group=plan.group,
            consume_type=plan.consume_type,
            message_model=plan.message_model,
            consume_from_where=_FROM.get(str(plan.start), "CONSUME_FROM_TIMESTAMP"),
            subscriptions=tuple(self._by_topic.values()),
        )


@lru_cache(maxsize=1024)
def check_tags(expression: str) -> str:
    """Return `expression` if it is tags with `||` between them, or `*` or nothing for all.

    An expression of SQL92 is refused: taken for a tag, it would match nothing, without a word.

    Raises:
        InvalidMessage: It has no tag, or reads like SQL.
    """
    if _SQL.search(expression):
        raise InvalidMessage(
            f"expression {expression!r} reads like SQL92, which is not supported yet: expected tags"
            " with || between them, or * for all"
        )
    text = expression.strip()
    if text not in (ALL, "") and not any(tag.strip() for tag in text.split("||")):
        raise InvalidMessage(
            f"expression {expression!r}: expected tags with || between them, or * for all"
        )
    return expression
