"""Policies: entries replace entries, parts are deleted and found, and all of it is kept."""

from collections.abc import Callable
from typing import Any

import pytest

from sprocket.rocketmq.errors import Refused
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclResource,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
)

CUSTOM, DEFAULT = PolicyType.CUSTOM, PolicyType.DEFAULT


def resource(text: str) -> AclResource:
    """Return what a text says."""
    found = AclResource.parse(text)
    assert found is not None
    return found


def entry(text: str, *actions: Action, deny: bool = False, **more: Any) -> PolicyEntry:
    """Return an entry that allows some actions, all unless they are named."""
    decision = Decision.DENY if deny else Decision.ALLOW
    return PolicyEntry(
        resource=resource(text), actions=actions or (Action.ALL,), decision=decision, **more
    )


def test_an_entry_replaces_the_one_of_its_resource(known: Any) -> None:
    """Others stay, in their order; a policy of another type is another policy."""
    first, second = entry("Topic:a", Action.PUB), entry("Topic:b", Action.SUB)
    third, fourth = entry("Topic:a", Action.GET, deny=True), entry("Topic:a")
    known.acls.put("User:alice", [AclPolicy(CUSTOM, (first, second))], known.done)
    known.acls.put(
        "User:alice", [AclPolicy(CUSTOM, (third,)), AclPolicy(DEFAULT, (fourth,))], known.done
    )
    assert known.acls.get("User:alice") == Acl(
        "User:alice", (AclPolicy(CUSTOM, (third, second)), AclPolicy(DEFAULT, (fourth,)))
    )
    assert known.changed == ["User:alice", "User:alice"]


def test_policies_are_kept(reopened: Callable[[], Any]) -> None:
    """Every kind of resource, action, decision and source."""
    known = reopened()
    entries = (
        entry("*", Action.GET, Action.LIST),
        entry("Cluster:DefaultCluster", Action.UPDATE, deny=True),
        entry("Namespace:n"),
        entry("Topic:*", Action.PUB, source_ips=("10.0.0.0/8", "::1")),
        entry("Group:orders*", Action.SUB, Action.CREATE, Action.DELETE),
        entry("Group:g"),
    )
    known.acls.put("User:alice", [AclPolicy(CUSTOM, entries)], known.done)
    known.acls.put("User:bob", [AclPolicy(DEFAULT, entries[:1])], known.done)
    expected = [
        Acl("User:alice", (AclPolicy(CUSTOM, entries),)),
        Acl("User:bob", (AclPolicy(DEFAULT, entries[:1]),)),
    ]
    assert expected == reopened().acls.all()


def test_an_entry_is_deleted_by_its_resource(reopened: Callable[[], Any]) -> None:
    """From the policy of its type; what is not there is a success."""
    known = reopened()
    policies = [
        AclPolicy(CUSTOM, (entry("Topic:a"), entry("Topic:b"))),
        AclPolicy(DEFAULT, (entry("Topic:a"),)),
    ]
    known.acls.put("User:alice", policies, known.done)
    known.acls.delete("User:alice", CUSTOM, resource("Topic:a"), known.done)
    known.acls.delete("User:alice", CUSTOM, resource("Topic:z"), known.done)
    expected = Acl(
        "User:alice",
        (AclPolicy(CUSTOM, (entry("Topic:b"),)), AclPolicy(DEFAULT, (entry("Topic:a"),))),
    )
    assert known.acls.get("User:alice") == expected
    known.acls.delete("User:alice", CUSTOM, resource("Topic:b"), known.done)
    known.acls.delete("User:alice", DEFAULT, resource("Topic:a"), known.done)
    assert known.acls.get("User:alice") is None
    assert reopened().acls.all() == []


def test_all_policies_are_deleted_at_once(known: Any) -> None:
    """Without a resource; of a subject that has none it is refused."""
    known.acls.put("User:alice", [AclPolicy(CUSTOM, (entry("Topic:a"),))], known.done)
    known.acls.delete("User:alice", CUSTOM, None, known.done)
    assert known.acls.get("User:alice") is None
    with pytest.raises(Refused, match="The acl is not exist"):
        known.acls.delete("User:alice", CUSTOM, None, known.done)


@pytest.mark.parametrize(
    ("subject", "part", "expected"),
    [
        ("", "", {"User:alice": ["Topic:a", "Group:g"], "User:bob": ["Topic:b"]}),
        ("ali", "", {"User:alice": ["Topic:a", "Group:g"]}),
        ("", "Topic", {"User:alice": ["Topic:a"], "User:bob": ["Topic:b"]}),
        ("User", "Group:", {"User:alice": ["Group:g"]}),
        ("", "alice", {"User:alice": ["Topic:a", "Group:g"]}),
        ("zora", "", {}),
        ("", "Topic:z", {}),
    ],
)
def test_policies_are_found_by_parts(
    known: Any, subject: str, part: str, expected: dict[str, list[str]]
) -> None:
    """Of subjects and of resources; a subject that has the resource's part is shown whole."""
    known.acls.put(
        "User:alice", [AclPolicy(CUSTOM, (entry("Topic:a"), entry("Group:g")))], known.done
    )
    known.acls.put("User:bob", [AclPolicy(CUSTOM, (entry("Topic:b"),))], known.done)
    found = {
        acl.subject: [str(one.resource) for policy in acl.policies for one in policy.entries]
        for acl in known.acls.all(subject, part)
    }
    assert expected == found
