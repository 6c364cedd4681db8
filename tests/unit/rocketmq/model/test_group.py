"""Consumer groups and subscriptions."""

import pytest

from sprocket.rocketmq.model.filters import TagFilter
from sprocket.rocketmq.model.group import Subscription, SubscriptionGroup
from sprocket.rocketmq.model.hashes import hash32


def test_a_new_group_has_rocketmqs_defaults() -> None:
    """One retry queue, 16 deliveries, everything allowed."""
    group = SubscriptionGroup(name="g")
    assert (
        group.consume_enable,
        group.retry_queues,
        group.retry_times_max,
        group.consume_timeout_minutes,
        group.retry_policy,
    ) == (True, 1, 16, 15, {"type": "CUSTOMIZED"})


@pytest.mark.parametrize("text", [None, "", "*"])
def test_no_expression_means_every_message(text: str | None) -> None:
    """Neither names nor hashes."""
    subscription = Subscription.parse("t", text)
    assert (
        subscription.expression,
        subscription.filter,
    ) == ("*", None)


def test_tags_are_split_and_hashed() -> None:
    """At `||`, without blanks and doubles."""
    subscription = Subscription.parse("t", " b ||a|| ||b", version=3)
    wanted = TagFilter(("a", "b"), frozenset({hash32("a"), hash32("b")}))
    assert wanted == subscription.filter
    assert subscription.version == 3


def test_an_expression_of_bars_wants_nothing() -> None:
    """It names no tag, so no message fits; a broker may refuse it before."""
    assert Subscription.parse("t", "||").filter == TagFilter()


def test_other_types_are_kept_unread() -> None:
    """SQL is not split into tags."""
    subscription = Subscription.parse("t", "a || b", type="SQL92")
    assert (subscription.type, subscription.filter) == ("SQL92", None)
