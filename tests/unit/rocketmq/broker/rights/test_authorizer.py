"""Decisions: what matches, and which of several entries counts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rocketmq.broker.rights.test_acls import entry, resource

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclUser,
    Action,
    PolicyEntry,
    PolicyType,
    Requirement,
    UserType,
)
from sprocket.rocketmq.store.rights_tables import RightsTables

ALICE = AclUser("alice", "secret")
PUB, SUB, GET = Action.PUB, Action.SUB, Action.GET
ORDERS = Requirement(resource("Topic:orders"), (PUB,))
NO_MATCH = "User:alice has no permission to access Topic:orders from 10.1.2.3, no matched policies."
DENIED = "User:alice has no permission to access Topic:orders from 10.1.2.3, the decision is deny."


def put(known: Any, *entries: PolicyEntry, kind: PolicyType = PolicyType.CUSTOM) -> None:
    """Give Alice a policy."""
    known.acls.put("User:alice", [AclPolicy(kind, entries)], known.done)


def why_not(known: Any, *needs: Requirement, user: AclUser = ALICE) -> str:
    """Return why something is refused, "" if it is allowed."""
    try:
        known.authorizer.check(user, needs, "10.1.2.3")
    except Refused as refused:
        return refused.remark if refused.why is Refusal.NO_PERMISSION else "another reason"
    return ""


def test_without_a_policy_nothing_is_allowed(known: Any) -> None:
    """And nothing that no entry covers."""
    assert why_not(known, ORDERS) == NO_MATCH
    put(known, entry("Topic:other"), entry("Group:orders"), entry("Topic:orders", SUB))
    assert why_not(known, ORDERS) == NO_MATCH


def test_a_super_user_may_do_everything(known: Any) -> None:
    """Whatever policies say."""
    put(known, entry("*", deny=True))
    assert why_not(known, ORDERS, user=AclUser("alice", "secret", UserType.SUPER)) == ""


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:or*", "Topic:orders"])
def test_an_entry_allows_what_it_covers(known: Any, text: str) -> None:
    """By its action, or by all of them."""
    put(known, entry(text, PUB))
    assert why_not(known, ORDERS) == ""
    put(known, entry(text, Action.ALL))
    assert why_not(known, ORDERS) == ""


def test_one_of_several_actions_is_enough(known: Any) -> None:
    """Where a request may be made by who may do this or that."""
    put(known, entry("Topic:orders", GET))
    assert why_not(known, Requirement(resource("Topic:orders"), (SUB, GET))) == ""
    assert why_not(known, Requirement(resource("Topic:orders"), (SUB, PUB))) == NO_MATCH


def test_every_need_must_be_allowed(known: Any) -> None:
    """A pull needs its topic and its group."""
    put(known, entry("Topic:orders", PUB))
    group = Requirement(resource("Group:g"), (SUB,))
    assert "Group:g" in why_not(known, ORDERS, group)
    put(known, entry("Group:g", SUB))
    assert why_not(known, ORDERS, group) == ""


RANKED = ["Topic:orders", "Topic:orde*", "Topic:or*", "Topic:*", "*"]


@pytest.mark.parametrize("index", range(len(RANKED) - 1))
@pytest.mark.parametrize("is_denied", [False, True])
def test_the_most_specific_entry_decides(known: Any, index: int, is_denied: bool) -> None:
    """In whatever order they were made. RocketMQ 5.3.3 takes the shorter of two prefixes."""
    specific = entry(RANKED[index], PUB, deny=is_denied)
    wide = entry(RANKED[index + 1], PUB, deny=not is_denied)
    expected = DENIED if is_denied else ""
    put(known, wide, specific)
    assert why_not(known, ORDERS) == expected
    known.acls.forget("User:alice", known.done)
    put(known, specific, wide)
    assert why_not(known, ORDERS) == expected


def test_an_entry_for_another_action_does_not_count(known: Any) -> None:
    """However specific it is."""
    put(known, entry("Topic:orders", SUB, deny=True), entry("Topic:*", PUB))
    assert why_not(known, ORDERS) == ""


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_of_equal_rank_the_one_that_denies_decides(
    reopened: Callable[[], Any], tmp_path: Path, order: int
) -> None:
    """A store of RocketMQ's may have a resource twice in one policy."""
    entries = (entry("Topic:orders", PUB), entry("Topic:orders", deny=True))[::order]
    tables = RightsTables(RealDisk(), str(tmp_path))
    tables.put_acl(Acl("User:alice", (AclPolicy(PolicyType.CUSTOM, entries),)))
    tables.close()
    assert why_not(reopened(), ORDERS) == DENIED


def test_the_default_policy_counts_where_the_custom_one_says_nothing(known: Any) -> None:
    """Even if it is the more specific one."""
    put(known, entry("Topic:orders", PUB, deny=True), kind=PolicyType.DEFAULT)
    assert why_not(known, ORDERS) == DENIED
    put(known, entry("*", PUB))
    assert why_not(known, ORDERS) == ""


def test_an_entry_may_be_for_some_sources(known: Any) -> None:
    """For others it is as if it were not there."""
    put(known, entry("Topic:orders", PUB, source_ips=("10.1.0.0/16",)))
    assert why_not(known, ORDERS) == ""
    put(known, entry("Topic:orders", PUB, source_ips=("10.2.0.0/16", "10.1.2.4")))
    assert why_not(known, ORDERS) == NO_MATCH
