"""Which policy is in force, what it may say, and what comes of it with a queue's arguments."""

from typing import Any

import pytest
from tests.field_tables import table
from tests.rabbit_topology import EXCHANGE, QUEUE, Declarations

from sprocket.rabbitmq.broker.policies import (
    NOTHING_IN_FORCE,
    InForce,
    check_vhost_limits,
    queue_options,
)
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.policy import Policy
from sprocket.rabbitmq.model.queue_options import Overflow, QueueOptions

K5 = '[{<<"k">>,5}] are not recognised policy settings'
APPLY = "apply-to 'foo' unrecognised; should be 'queues', 'exchanges' or 'all'"
MISSING = 'pattern should be regular expression but is invalid: {"missing )",1}'


def policy(name: str = "p", pattern: str = "", **fields: Any) -> Policy:
    """Return a policy of the virtual host `/`."""
    given: dict[str, Any] = {"definition": {"max-length": 1}, **fields}
    return Policy(vhost="/", name=name, pattern=pattern, **given)


def in_force(*policies: Policy, kind: Any = QUEUE, queue_type: str = "classic") -> InForce:
    """Return what is in force for `work.1`."""
    declarations = Declarations()
    declarations.vhost()
    for one in policies:
        declarations.policies.put(one)
    return declarations.policies.of_vhost("/").in_force(kind, "work.1", queue_type)


def test_the_highest_priority_is_in_force_alone() -> None:
    """Of those that fit; of equal ones the first by name."""
    low = policy("low", "work", definition={"expires": 5, "max-length": 7})
    high = policy("high", "^work", priority=2)
    other = policy("other", "^rest", priority=9)
    assert in_force(low, high, other) == InForce("high", None, {"max-length": 1})
    assert in_force(low, policy("later", priority=0)).policy == "later"
    assert in_force(other) == NOTHING_IN_FORCE


def test_policies_are_for_queues_or_exchanges_or_both() -> None:
    """As they say."""
    for apply_to, expected in (("queues", (1, 0)), ("exchanges", (0, 1)), ("all", (1, 1))):
        one = policy(apply_to=apply_to)
        found = tuple(in_force(one, kind=kind).policy == "p" for kind in (QUEUE, EXCHANGE))
        assert (apply_to, found) == (apply_to, expected)


def test_policies_that_say_what_a_type_of_queue_has_not_are_not_for_it() -> None:
    """Another one of a lower priority is."""
    quorum = policy("quorum", priority=5, definition={"delivery-limit": 3, "expires": 1})
    lazy = policy("lazy", priority=4, definition={"queue-mode": "lazy"})
    assert in_force(quorum, lazy).policy == "lazy"
    assert in_force(quorum, lazy, queue_type="quorum").policy == "quorum"


def test_the_smaller_value_of_user_and_operator_counts() -> None:
    """And what only one of them says."""
    users = policy("u", definition={"max-length": 10, "expires": 5, "overflow": "drop-head"})
    operators = policy(
        "o", definition={"max-length": 3, "expires": 50, "message-ttl": 4}, is_operator=True
    )
    expected = {"max-length": 3, "expires": 5, "overflow": "drop-head", "message-ttl": 4}
    assert in_force(users, operators) == InForce("u", "o", expected)
    assert in_force(operators).definition == operators.definition


def test_a_restart_leaves_policies() -> None:
    """A user's and an operator's of the same name are two."""
    before = Declarations()
    before.vhost()
    kept = [policy("a"), policy("a", is_operator=True), policy("b", priority=1)]
    for one in (*kept, policy("gone")):
        assert before.policies.put(one)
    assert not before.policies.put(kept[0])
    assert before.policies.remove("/", "gone")
    assert not before.policies.remove("/", "b", is_operator=True)
    after = Declarations(before.disk.kill()).policies
    expected = [kept[2], kept[0], kept[1]]
    assert list(after.of_vhost("/")) == list(before.policies) == expected
    before.vhosts.remove("/")
    assert list(before.policies) == []


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"pattern": "("}, [MISSING]),
        ({"definition": {}}, ["no policy provided"]),
        ({"definition": {"k": 5}}, [K5]),
        ({"definition": {"max-length": -1}}, ["-1 is not a valid maximum length"]),
        ({"definition": {"max-length": "x"}}, ['<<"x">> is not a valid maximum length']),
        ({"apply_to": "foo"}, [APPLY]),
        ({"definition": {"expires": 0}}, ["0 is not a valid queue expiry"]),
        ({"definition": {"overflow": "q"}}, ['<<"q">> is not a valid overflow value']),
        ({"definition": {"queue-version": 7}}, ["7 is not a valid queue-version value"]),
        (
            {"definition": {"dead-letter-exchange": 7}},
            ["7 is not a valid dead letter exchange name"],
        ),
        ({"pattern": "(", "definition": {"k": 5}, "apply_to": "foo"}, [K5, APPLY, MISSING]),
        (
            {"definition": {"overflow": "drop-head"}, "is_operator": True},
            ['[{<<"overflow">>,<<"drop-head">>}] are not recognised policy settings'],
        ),
        (
            {"definition": {"k": 5, "j": "x"}},
            ['[{<<"k">>,5},{<<"j">>,<<"x">>}] are not recognised policy settings'],
        ),
        (
            {"definition": {"k": {"j": "x"}}},
            ['[{<<"k">>,[{<<"j">>,<<"x">>}]}] are not recognised policy settings'],
        ),
        ({"definition": {"max-length": True}}, ["true is not a valid maximum length"]),
        ({"definition": {"queue-version": True}}, ["true is not a valid queue-version value"]),
        ({"definition": {"max-age": "1x"}}, ['<<"1x">> is not a valid max age']),
    ],
)
def test_faults_are_told_as_by_the_real_one(fields: dict[str, Any], faults: list[str]) -> None:
    """All but the last three texts were recorded from `rabbit_policy:set` of RabbitMQ 3.10.8."""
    declarations = Declarations()
    declarations.vhost()
    with pytest.raises(RequestRefused) as refused:
        declarations.policies.put(policy(**fields))
    assert refused.value.remark == "\n".join(["Validation failed", "", *faults, ""])
    assert list(declarations.policies) == []


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ({"max-queues": "x"}, 'max-queues should be a number, actually was <<"x">>'),
        ({"foo": 1}, 'Unrecognised terms [{<<"foo">>,1}] in limits'),
        ({"max-queues": 1.5}, "max-queues should be a number, actually was 1.5"),
    ],
)
def test_limits_of_virtual_hosts(limits: dict[str, object], fault: str) -> None:
    """These texts were recorded from `rabbit_vhost_limit:set` of RabbitMQ 3.10.8."""
    with pytest.raises(RequestRefused) as refused:
        check_vhost_limits(limits)
    assert refused.value.remark == f"Validation failed\n\n{fault}\n"
    assert check_vhost_limits({"max-queues": 5, "max-connections": -1}) == {
        "max-queues": 5,
        "max-connections": -1,
    }


def options(definition: dict[str, object], **arguments: object) -> QueueOptions:
    """Return what comes of arguments, by their names without `x-`, and a policy."""
    given = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    queue = DeclaredQueue(vhost="/", name="q", arguments=table(given))
    return queue_options(queue, definition)


def test_arguments_and_policies_together() -> None:
    """The smaller one of limits; else the argument, and the policy where there is none."""
    assert options({}) == QueueOptions()
    limits = ("message-ttl", "expires", "max-length", "max-length-bytes")
    small, large = dict.fromkeys(limits, 3), dict.fromkeys(limits, 8)
    expected = QueueOptions(message_ttl_ms=3, expires_ms=3, max_length=3, max_length_bytes=3)
    plain: dict[str, object] = {name.replace("-", "_"): 3 for name in limits}
    assert options({**large}, **plain) == options({**small}) == expected
    assert options({**small}, **dict.fromkeys(plain, 8)) == expected
    ways: dict[str, object] = {
        "dead-letter-exchange": "dlx",
        "dead-letter-routing-key": "k",
        "overflow": "reject-publish",
    }
    found = options(ways, dead_letter_exchange="own", overflow="reject-publish-dlx")
    assert found == QueueOptions(
        dead_letter_exchange="own",
        dead_letter_routing_key="k",
        overflow=Overflow.REJECT_PUBLISH_DLX,
    )
    assert options(ways).dead_letter_exchange == "dlx"
    assert options({"dead-letter-routing-key": "k"}).dead_letter_routing_key is None


def test_what_only_arguments_say() -> None:
    """Priorities, one active consumer, the type; a limit of deliveries is for quorum queues."""
    found = options({"delivery-limit": 3}, max_priority=5, single_active_consumer=True)
    assert found == QueueOptions(max_priority=5, is_single_active=True)
    quorum = options({"delivery-limit": 3}, queue_type="quorum", delivery_limit=7)
    assert quorum == QueueOptions(counts_deliveries=True, keeps_transient=True, delivery_limit=3)
    assert options({}, queue_type="quorum", delivery_limit="x").delivery_limit is None
