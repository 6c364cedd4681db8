"""What a consumer has subscribed to, and how brokers learn of it."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from sprocket.base.clock import Clock
from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.producer import check_topic
from sprocket.rocketmq.codec.bodies import ConsumerData
from sprocket.rocketmq.errors import ExpressionIllegal
from sprocket.rocketmq.filter import compile_sql
from sprocket.rocketmq.model.filters import ALL, Sql
from sprocket.rocketmq.model.group import SQL92, TAG, Subscription

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

    def add(self, topic: str, expression: str | Sql, clock: Clock | None) -> None:
        """Subscribe to a topic, or change what is wanted of it; before the start without a clock.

        Raises:
            InvalidMessage: The name is illegal, or the expression cannot be read.
        """
        parsed = read_subscription(topic, expression)
        version = 0 if clock is None else clock.now_ms()
        known = self._by_topic.get(topic)
        if known is not None:
            version = max(version, known.version + 1)
        self._by_topic[topic] = dataclasses.replace(parsed, version=version)

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


def read_subscription(topic: str, expression: str | Sql) -> Subscription:
    """Return what is wanted of a topic. Raises InvalidMessage, as `Subscriptions.add`."""
    check_topic(topic)
    kind, text = checked(expression)
    return Subscription.parse(topic, text, type=kind)


class Expression(NamedTuple):
    """What is wanted of a topic, as brokers are told: TAG or SQL92, and the text."""

    kind: str
    text: str


@lru_cache(maxsize=1024)
def checked(expression: str | Sql) -> Expression:
    """Return what brokers are told of an expression.

    Raises:
        InvalidMessage: It has no tag, or reads like SQL; or SQL cannot be compiled, or goes on
            after its end, which brokers ignore.
    """
    if isinstance(expression, str):
        return Expression(TAG, check_tags(expression).strip())
    try:
        rest = compile_sql(expression.text).rest
    except ExpressionIllegal as illegal:
        raise InvalidMessage(f"expression {expression.text!r}: {illegal}") from illegal
    if rest:
        raise InvalidMessage(f"expression {expression.text!r}: {rest!r} at its end is ignored")
    return Expression(SQL92, expression.text)


@lru_cache(maxsize=1024)
def check_tags(expression: str) -> str:
    """Return `expression` if it is tags with `||` between them, or `*` or nothing for all.

    An expression of SQL92 is refused: taken for a tag, it would match nothing, without a word.

    Raises:
        InvalidMessage: It has no tag, or reads like SQL.
    """
    if _SQL.search(expression):
        raise InvalidMessage(
            f"expression {expression!r} reads like SQL92, and stands for tags: expected Sql(…)"
            " or --sql, or tags with || between them, or * for all"
        )
    text = expression.strip()
    if text not in (ALL, "") and not any(tag.strip() for tag in text.split("||")):
        raise InvalidMessage(
            f"expression {expression!r}: expected tags with || between them, or * for all"
        )
    return expression
