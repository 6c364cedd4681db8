"""Subscriptions are checked when they are made, and later ones are newer."""

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.consumer.subscriptions import Subscriptions
from sprocket.rocketmq.model.filters import Sql, TagFilter
from sprocket.rocketmq.model.hashes import hash32
from sprocket.testing.clock import FakeClock


@pytest.mark.parametrize(
    ("topic", "expression", "complaint"),
    [("a b", "*", "topic 'a b'"), ("t", "||", "expected tags"), ("t", " | | ", None)],
)
def test_what_is_no_subscription_is_named(
    topic: str, expression: str, complaint: str | None
) -> None:
    """A topic must be legal; an expression must have a tag, which may be an odd one."""
    subscriptions = Subscriptions()
    if complaint is None:
        subscriptions.add(topic, expression, None)
        assert subscriptions[topic].filter == TagFilter(("| |",), frozenset({hash32("| |")}))
        return
    with pytest.raises(InvalidMessage, match=complaint):
        subscriptions.add(topic, expression, None)
    assert len(subscriptions) == 0


@pytest.mark.parametrize(
    "expression",
    [
        "a > 5",
        "price<=3",
        "color = 'red'",
        "a IS NULL",
        "a is  not null OR b",
        "color in ('red', 'blue')",
        "a not in('x')",
        "a BETWEEN 1 AND 5",
        "name like 'a%'",
    ],
)
def test_sql_is_not_taken_for_a_tag(expression: str) -> None:
    """It would match nothing, and nobody would be told."""
    with pytest.raises(InvalidMessage, match="reads like SQL92, and stands for tags"):
        Subscriptions().add("t", expression, None)


@pytest.mark.parametrize(
    "expression", ["made in china", "is", "between", "a and b", "order.created||a:b", "in", "like"]
)
def test_a_tag_of_several_words_is_one(expression: str) -> None:
    """Only what no tag would have counts as SQL."""
    subscriptions = Subscriptions()
    subscriptions.add("t", expression, None)
    wanted = subscriptions["t"].filter
    assert wanted is not None
    assert wanted.tags == tuple(sorted(expression.split("||")))


def test_a_condition_is_told_to_brokers_as_one() -> None:
    """With its type, so that it is not taken for a tag; the consumer does not look again."""
    subscriptions = Subscriptions()
    subscriptions.add("t", Sql("a > 5"), None)
    found = subscriptions["t"]
    assert (found.type, found.expression, found.filter) == ("SQL92", "a > 5", None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a >", "found the end, at character 4"),
        ("a = 3 b = 4", "'b = 4' at its end is ignored"),
        ("", "expected a property"),
    ],
)
def test_a_condition_that_means_something_else_is_refused(text: str, why: str) -> None:
    """Before anybody is asked: brokers pass over what stands after its end."""
    with pytest.raises(InvalidMessage, match=why):
        Subscriptions().add("t", Sql(text), None)


@pytest.mark.parametrize("expression", ["", "*", " * "])
def test_everything_has_several_names(expression: str) -> None:
    """Empty means all as well, as in RocketMQ's clients."""
    subscriptions = Subscriptions()
    subscriptions.add("t", expression, None)
    assert subscriptions["t"].expression == "*"


def test_a_later_subscription_is_newer() -> None:
    """Also within a millisecond."""
    clock = FakeClock()
    subscriptions = Subscriptions()
    versions = []
    for expression in ("a", "b"):
        subscriptions.add("t", expression, clock)
        versions.append(subscriptions["t"].version)
    assert versions == [clock.now_ms(), clock.now_ms() + 1]
    subscriptions.remove("t")
    subscriptions.remove("t")
    assert list(subscriptions) == []


@pytest.mark.parametrize(
    ("start", "where"),
    [
        ("first", "CONSUME_FROM_FIRST_OFFSET"),
        ("last", "CONSUME_FROM_LAST_OFFSET"),
        (5, "CONSUME_FROM_TIMESTAMP"),
    ],
)
def test_a_heartbeat_tells_where_a_group_begins(start: object, where: str) -> None:
    """Under RocketMQ's names."""
    subscriptions = Subscriptions()
    subscriptions.add("t", "a", None)
    plan = ConsumerPlan(group="g", start=start)  # type: ignore[arg-type] # of a parameter
    data = subscriptions.heartbeat(plan)
    assert (data.group, data.consume_from_where) == ("g", where)
    assert [one.topic for one in data.subscriptions] == ["t"]
