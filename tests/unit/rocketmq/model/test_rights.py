"""Users, resources and policies: names, texts, what covers what, and which goes first."""

import pytest

from sprocket.rocketmq.model import rights
from sprocket.rocketmq.model.rights import (
    AclResource,
    AclUser,
    Action,
    ResourcePattern,
    ResourceType,
    SessionCredentials,
    UserStatus,
    UserType,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*", AclResource(ResourceType.ANY, None, ResourcePattern.ANY)),
        ("Topic:*", AclResource(TOPIC, None, ResourcePattern.ANY)),
        ("Topic:orders*", AclResource(TOPIC, "orders", ResourcePattern.PREFIXED)),
        ("Topic:orders", AclResource(TOPIC, "orders")),
        ("Group:a:b", AclResource(GROUP, "a:b")),
        ("Cluster:DefaultCluster", AclResource(ResourceType.CLUSTER, "DefaultCluster")),
    ],
)
def test_a_resource_is_its_text(text: str, expected: AclResource) -> None:
    """Both ways."""
    assert AclResource.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize("text", [None, "", " ", "orders", "Queue:q", ":", "topics:x"])
def test_what_is_not_a_resource_is_none(text: str | None) -> None:
    """Tools are told that the resource is missing."""
    assert AclResource.parse(text) is None


def test_types_are_read_in_any_case() -> None:
    """As RocketMQ reads them."""
    assert AclResource.parse("topic:Orders") == AclResource(TOPIC, "Orders")
    assert rights.named(Action, "pub") is Action.PUB
    assert rights.named(UserType, "SUPER") is UserType.SUPER
    assert rights.named(UserStatus, "Disable") is UserStatus.DISABLED


@pytest.mark.parametrize("name", [None, "", "Unknown", "publish"])
def test_a_name_that_is_none_of_them_is_none(name: str | None) -> None:
    """`Unknown` is a name of RocketMQ's that nobody may give."""
    assert rights.named(Action, name) is None


@pytest.mark.parametrize(
    ("text", "covered", "expected"),
    [
        ("*", "Topic:orders", True),
        ("*", "Cluster:c", True),
        ("Topic:*", "Topic:orders", True),
        ("Topic:*", "Group:orders", False),
        ("Topic:or*", "Topic:orders", True),
        ("Topic:or*", "Topic:or", True),
        ("Topic:or*", "Topic:o", False),
        ("Topic:or*", "Group:orders", False),
        ("Topic:or", "Topic:or", True),
        ("Topic:or", "Topic:orders", False),
    ],
)
def test_a_resource_covers_what_its_pattern_says(text: str, covered: str, expected: bool) -> None:
    """Of its type only, unless it is everything."""
    wide, one = AclResource.parse(text), AclResource.parse(covered)
    assert wide is not None
    assert one is not None
    assert wide.covers(one) is expected


def test_the_more_specific_goes_first() -> None:
    """A type before everything, a name before a prefix, a longer prefix before a shorter one."""
    texts = ["Topic:orders", "Topic:orders*", "Topic:or*", "Topic:*", "*"]
    found = [AclResource.parse(text) for text in texts]
    assert sorted((one.rank for one in found if one), reverse=True) == [
        one.rank for one in found if one
    ]


def test_a_retry_topic_is_its_group() -> None:
    """Whoever may consume in a group may use its retry topic; dead letters are a topic."""
    assert rights.of_topic("%RETRY%g") == AclResource(GROUP, "g")
    assert rights.of_group("%RETRY%g") == AclResource(GROUP, "g")
    assert rights.of_topic("%DLQ%g") == AclResource(TOPIC, "%DLQ%g")
    assert rights.of_topic("t") == AclResource(TOPIC, "t")


def test_no_secret_is_shown() -> None:
    """A traceback or a log that prints a user or its credentials has no password."""
    user = AclUser("alice", "hunter2secret")
    shown = repr([user, SessionCredentials("alice", "hunter2secret", "tokensecret")])
    assert "alice" in shown
    assert "secret'" not in shown
    assert user.subject == "User:alice"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1", True),
        ("10.0.0.0/8", True),
        ("10.0.0.1/8", True),
        ("::1", True),
        ("fe80::/10", True),
        ("10.0.0", False),
        ("10.0.0.1/33", False),
        ("10.0.0.1/255.0.0.0", False),
        ("somewhere", False),
        ("*", False),
    ],
)
def test_a_source_is_an_address_or_a_network(text: str, expected: bool) -> None:
    """A network may be written with the address of one of its machines."""
    assert rights.is_source(text) is expected


@pytest.mark.parametrize(
    ("address", "sources", "expected"),
    [
        ("10.1.2.3", ["10.1.2.3"], True),
        ("10.1.2.3", ["10.1.2.4"], False),
        ("10.1.2.3", ["192.168.0.0/16", "10.0.0.7/8"], True),
        ("11.1.2.3", ["10.0.0.0/8"], False),
        ("::ffff:10.1.2.3", ["10.0.0.0/8"], True),
        ("0:0:0:0:0:0:0:1", ["::1"], True),
        ("10.1.2.3", ["::/0"], False),
        ("unknown", ["0.0.0.0/0"], False),
    ],
)
def test_an_address_is_from_a_source(address: str, sources: list[str], expected: bool) -> None:
    """However it is written; what is not an address is from nowhere."""
    assert rights.is_from(address, sources) is expected
