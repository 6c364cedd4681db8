"""What bodies have in common: subscriptions, which clients write in their own ways."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Struct

from sprocket.rocketmq.codec.config import REQUIRED, UNREAD, As, values
from sprocket.rocketmq.model.group import TAG, Subscription


class _Subscription(Struct, frozen=True, kw_only=True, rename="camel"):
    """A subscription in JSON; tags are not read, as not every client sends them."""

    what: ClassVar = "a subscription"
    topic: str
    sub_string: str
    expression_type: object = TAG
    sub_version: int = 0
    class_filter_mode: Annotated[bool, UNREAD] = False
    code_set: Annotated[Sequence[int], UNREAD] = ()
    tags_set: Annotated[Sequence[str], UNREAD] = ()


class _TopicSubscription(_Subscription, frozen=True, kw_only=True, rename="camel"):
    topic: Annotated[str, REQUIRED]


def _to(found: Subscription) -> _TopicSubscription:
    return _TopicSubscription(
        topic=found.topic,
        sub_string=found.expression,
        expression_type=found.type,
        sub_version=found.version,
        code_set=sorted(found.tags or ()),
        tags_set=found.tag_names,
    )


def _back(found: _Subscription) -> Subscription:
    kind = values.text(found.expression_type) if found.expression_type else TAG
    return Subscription.parse(found.topic, found.sub_string, type=kind, version=found.sub_version)


SUBSCRIPTION = As(_Subscription, _to, _back)
"""Marks a field that is a subscription."""

TopicSubscription: TypeAlias = Annotated[Subscription, As(_TopicSubscription, _to, _back)]
"""A subscription that must say its topic."""
