"""Users: who may log in, what is refused, and that changes are kept."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.rights import (
    AclPolicy,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    UserStatus,
    UserType,
    of_topic,
)

ORDERS = AclPolicy(
    PolicyType.CUSTOM,
    (PolicyEntry(resource=of_topic("orders"), actions=(Action.PUB,), decision=Decision.ALLOW),),
)


def refusal(call: Callable[[], object]) -> str:
    """Return what is said of something that may not be done."""
    with pytest.raises(Refused) as raised:
        call()
    assert raised.value.why is Refusal.NO_PERMISSION
    return raised.value.remark


def test_a_new_user_may_log_in(known: Any) -> None:
    """As a normal one unless it is said otherwise."""
    known.users.create("alice", "secret1", None, None, known.done)
    known.users.create("root", "secret2", UserType.SUPER, UserStatus.ENABLED, known.done)
    assert known.users.who("alice") == AclUser("alice", "secret1")
    assert known.users.who("root").type is UserType.SUPER
    assert known.ended == [None, None]


def test_users_are_kept(reopened: Callable[[], Any]) -> None:
    """Changes and removals as well."""
    known = reopened()
    for name in ("alice", "bob", "carol"):
        known.users.create(name, f"{name}-secret", None, None, known.done)
    known.users.update("bob", "other", UserType.SUPER, UserStatus.DISABLED, known.done)
    known.users.delete("carol", known.done)
    expected = [
        AclUser("alice", "alice-secret"),
        AclUser("bob", "other", UserType.SUPER, UserStatus.DISABLED),
    ]
    assert expected == known.users.all()
    assert expected == reopened().users.all()


def test_a_change_that_says_nothing_changes_nothing(known: Any) -> None:
    """A blank password counts as absent, as in RocketMQ."""
    known.users.create("alice", "secret", UserType.SUPER, None, known.done)
    known.users.update("alice", None, None, None, known.done)
    known.users.update("alice", "  ", None, None, known.done)
    assert known.users.get("alice") == AclUser("alice", "secret", UserType.SUPER)


def test_what_cannot_be_done_is_refused_in_rocketmqs_words(known: Any) -> None:
    """Users who are there already, or not there, and blank names and passwords."""
    users, done = known.users, known.done
    users.create("alice", "secret", None, None, done)
    assert refusal(lambda: users.create("alice", "x", None, None, done)) == "The user is existed"
    assert refusal(lambda: users.update("bob", "x", None, None, done)) == "The user is not exist"
    blank = "username can not be blank"
    assert blank == refusal(lambda: users.create(" ", "x", None, None, done))
    assert blank == refusal(lambda: users.update("", "x", None, None, done))
    assert blank == refusal(lambda: users.delete("", done))
    for password in (None, "", " "):
        create = partial(users.create, "bob", password, None, None, done)
        assert refusal(create) == "password can not be blank"
    assert users.all() == [AclUser("alice", "secret")]


def test_nobody_else_may_log_in(known: Any) -> None:
    """No name, a name that is unknown, and a user who is disabled."""
    known.users.create("bob", "secret", None, UserStatus.DISABLED, known.done)
    assert refusal(lambda: known.users.who("")) == "username cannot be null."
    assert refusal(lambda: known.users.who("nobody")) == "User:nobody is not found."
    assert refusal(lambda: known.users.who("bob")) == "User:bob is disabled."
    known.users.update("bob", None, None, UserStatus.ENABLED, known.done)
    assert known.users.who("bob").name == "bob"


def test_users_are_found_by_a_part_of_their_names(known: Any) -> None:
    """In the order of their names."""
    for name in ("zora", "alice", "alina"):
        known.users.create(name, "secret", None, None, known.done)
    assert [user.name for user in known.users.all()] == ["alice", "alina", "zora"]
    assert [user.name for user in known.users.all("ali")] == ["alice", "alina"]


def test_the_policies_of_a_user_go_with_them(reopened: Callable[[], Any]) -> None:
    """Who gets the name later does not get them."""
    known = reopened()
    known.users.create("alice", "secret", None, None, known.done)
    known.acls.put("User:alice", [ORDERS], known.done)
    known.users.delete("alice", known.done)
    assert known.acls.get("User:alice") is None
    assert reopened().acls.all() == []


def test_deleting_nobody_is_a_success(known: Any) -> None:
    """As in RocketMQ."""
    known.users.delete("nobody", known.done)
    assert known.ended == [None]


def test_whoever_asks_is_told_that_a_change_was_not_kept(known: Any) -> None:
    """It holds until the next start all the same, so that a user who was to go is gone."""
    known.users.create("alice", "secret", None, None, known.done)
    known.is_broken = True
    known.users.delete("alice", known.done)
    assert isinstance(known.ended[-1], DiskFailed)
    assert known.users.get("alice") is None


def test_changes_of_users_are_told(known: Any) -> None:
    """What was decided for them must be decided anew."""
    known.users.create("alice", "secret", None, None, known.done)
    known.changed.clear()
    known.users.update("alice", None, UserType.SUPER, None, known.done)
    assert known.changed == ["User:alice"]
    known.users.delete("alice", known.done)
    assert "User:alice" in known.changed[1:]
