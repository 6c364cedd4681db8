"""Who did what is a line of the audit log, over AMQP and over HTTP."""

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
import structlog
from tests.unit.rabbitmq.server.management.conftest import Ask

Line = dict[str, Any]


@pytest.fixture
def told() -> Iterator[Callable[[], list[Line]]]:
    """Return what gives the audit lines since the last call, without where they came from."""
    with structlog.testing.capture_logs() as logs:

        def take() -> list[Line]:
            lines = [one for one in logs if one.get("logger") == "sprocket.audit"]
            logs.clear()
            assert all(one.pop("peer").startswith("127.0.0.1:") for one in lines)
            assert {one.pop("log_level") for one in lines} <= {"info"}
            return [{n: v for n, v in one.items() if n != "logger"} for one in lines]

        yield take


def test_over_amqp(
    connect: Callable[..., pika.BlockingConnection], told: Callable[[], list[Line]]
) -> None:
    """What is made, deleted and purged; what is there already, and what is not there, is silent."""
    who = {"user": "guest", "vhost": "/", "through": "amqp"}
    connection = connect()
    channel = connection.channel()
    for _ in range(2):
        channel.queue_declare("q")
        channel.exchange_declare("e", "fanout")
        channel.queue_declare("q", passive=True)
    assert told() == [
        {"event": "declare queue", "name": "q", **who},
        {"event": "declare exchange", "name": "e", "type": "fanout", **who},
    ]
    channel.basic_publish("", "q", b"x")
    channel.queue_purge("q")
    for _ in range(2):
        channel.queue_delete("q")
        channel.exchange_delete("e")
    assert told() == [
        {"event": "purge queue", "name": "q", "messages": 1, **who},
        {"event": "delete queue", "name": "q", "messages": 0, **who},
        {"event": "delete exchange", "name": "e", **who},
    ]
    channel.queue_declare("", exclusive=True)
    (line,) = told()
    assert line["name"].startswith("amq.gen-")
    connection.close()
    assert told() == []


def test_over_http(ask: Ask, told: Callable[[], list[Line]]) -> None:
    """Users, permissions, virtual hosts, policies, limits, queues, exchanges, definitions."""
    body = {"pattern": "^q", "definition": {"max-length": 1}}
    permission = {"configure": "", "write": "a", "read": ".*"}
    calls: list[tuple[str, str, Any, Line]] = [
        ("PUT", "vhosts/v", None, {"event": "put virtual host", "vhost": "v"}),
        (
            *("PUT", "users/bob", {"password": "secret", "tags": "monitoring"}),
            {"event": "put user", "name": "bob", "tags": ("monitoring",)},
        ),
        (
            *("PUT", "permissions/v/bob", permission),
            {"event": "put permission", "vhost": "v", "name": "bob", **permission},
        ),
        (
            *("PUT", "policies/v/p", body),
            {"event": "put policy", "vhost": "v", "name": "p", **body},
        ),
        (
            *("PUT", "vhost-limits/v/max-queues", {"value": 7}),
            {"event": "put virtual host limit", "vhost": "v", "limit": "max-queues", "value": 7},
        ),
        ("PUT", "queues/v/q", None, {"event": "declare queue", "vhost": "v", "name": "q"}),
        (
            *("PUT", "exchanges/v/e", {"type": "fanout"}),
            {"event": "declare exchange", "vhost": "v", "name": "e", "type": "fanout"},
        ),
        (
            *("POST", "bindings/v/e/e/q/q", {"routing_key": "k"}),
            {
                "event": "bind",
                "vhost": "v",
                "name": "e",
                "kind": "q",
                "destination": "q",
                "key": "k",
            },
        ),
        (
            "DELETE",
            "queues/v/q/contents",
            None,
            {"event": "purge queue", "vhost": "v", "name": "q"},
        ),
        ("DELETE", "queues/v/q", None, {"event": "delete queue", "vhost": "v", "name": "q"}),
        ("DELETE", "users/bob", None, {"event": "delete user", "name": "bob"}),
        (
            *("POST", "definitions", {"vhosts": [{"name": "w"}]}),
            {"event": "import definitions", "vhosts": 1},
        ),
        ("DELETE", "vhosts/v", None, {"event": "delete virtual host", "vhost": "v"}),
    ]
    for method, path, given, line in calls:
        answer = ask(method, f"/{path}", given)
        assert answer.ok, (path, answer.text)
        assert told() == [{**line, "user": "guest", "through": "http"}]
        if method == "PUT" and path.startswith(("queues", "exchanges")):
            assert ask(method, f"/{path}", given).ok
            assert told() == []
    assert ask("GET", "/users").ok
    assert not ask("DELETE", "/users/nobody").ok
    assert told() == []


def test_what_was_begun_and_refused(ask: Ask, told: Callable[[], list[Line]]) -> None:
    """Part of it is done, so it is told."""
    assert ask("PUT", "/users/bob", {"password": "b", "tags": ""}).ok
    told()
    assert not ask("POST", "/users/bulk-delete", {"users": ["bob", "nobody"]}).ok
    (line,) = told()
    assert (line["event"], line["names"], line["failed"]) == (
        *("delete users", ["bob", "nobody"]),
        True,
    )
