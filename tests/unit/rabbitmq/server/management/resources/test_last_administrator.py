"""Nobody is locked out by accident: the last administrator goes only if a call says so."""

from typing import Any

import pytest
from tests.unit.rabbitmq.server.management.conftest import Ask

DEMOTED = {"password": "guest", "tags": "management"}


every_way = pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/users/guest", None),
        ("POST", "/users/bulk-delete", {"users": ["guest"]}),
        ("PUT", "/users/guest", DEMOTED),
        ("POST", "/definitions", {"users": [{"name": "guest", **DEMOTED}]}),
    ],
)
"""Whatever takes the last administrator away."""


@every_way
def test_the_last_one_stays(ask: Ask, method: str, path: str, body: Any) -> None:
    """Whatever would delete them or take the tag is refused with a reason, and nothing is done."""
    refused = ask(method, path, body)
    assert refused.status_code == 400
    assert "last-administrator=true" in refused.json()["reason"]
    assert ask("GET", "/users/guest").json()["tags"] == ["administrator"]


@every_way
def test_a_call_may_say_that_it_is_meant(ask: Ask, method: str, path: str, body: Any) -> None:
    """Then it is as in RabbitMQ: nobody is an administrator any more."""
    assert ask(method, f"{path}?last-administrator=true", body).ok
    assert ask("GET", "/users").status_code == 401


def test_one_of_two_goes(ask: Ask) -> None:
    """And one who was none at any time; so do definitions that bring another one."""
    assert ask("PUT", "/users/bob", {"password": "b", "tags": "monitoring"}).ok
    assert ask("DELETE", "/users/bob").ok
    brought = {"name": "bob", "password": "b", "tags": "administrator"}
    users = [{"name": "guest", **DEMOTED}, brought]
    assert ask("POST", "/definitions", {"users": users}).ok
    assert ask("PUT", "/users/ann", {"password": "a", "tags": "administrator"}, "bob", "b").ok
    assert ask("DELETE", "/users/bob", None, "ann", "a").ok
    assert ask("DELETE", "/users/ann", None, "ann", "a").status_code == 400
