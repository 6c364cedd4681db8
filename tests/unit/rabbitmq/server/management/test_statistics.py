"""Rates and samples of a broker that runs, as the HTTP API tells them."""

from collections.abc import Callable, Mapping
from urllib.parse import quote

import pika
import pytest
import requests

from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.slow

Ask = Callable[..., requests.Response]
Connect = Callable[..., pika.BlockingConnection]
RANGES = "&".join(
    f"{name}_age=10&{name}_incr=5" for name in ("lengths", "msg_rates", "data_rates", "node_stats")
)


def publish(broker: LocalAmqp, connect: Connect) -> pika.BlockingConnection:
    """Publish 10 messages, and 20 in the next ten seconds; nobody has looked at anything yet."""
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    channel.exchange_declare("x", "fanout")
    channel.queue_bind("q", "x")
    for count in (10, 20):
        for _ in range(count):
            channel.basic_publish("x", "", b"body")
        for _ in range(2):
            broker.advance(seconds=5)
    return connection


def test_the_first_look_has_rates(broker: LocalAmqp, ask: Ask, connect: Connect) -> None:
    """Nobody has looked before: each kind of object has been sampled all the same."""
    with publish(broker, connect):
        broker.advance(seconds=4)
        for path, members in (
            ("/queues/%2F/q", ("messages", "message_stats.publish")),
            ("/queues", ("messages_ready", "message_stats.publish")),
            ("/exchanges/%2F/x", ("message_stats.publish_in", "message_stats.publish_out")),
            ("/channels", ("message_stats.publish", "message_stats.confirm")),
            ("/vhosts/%2F", ("messages", "message_stats.publish")),
            ("/overview", ("queue_totals.messages", "message_stats.publish")),
        ):
            told = ask("GET", path).json()
            for member in members:
                found = told[0] if isinstance(told, list) else told
                *way, name = member.split(".")
                for step in way:
                    found = found[step]
                assert (path, found[name]) == (path, 30)
                assert found[f"{name}_details"] == {"rate": 0.0}, (path, member)
        (connection,) = ask("GET", "/connections").json()
        assert connection["recv_oct_details"] == {"rate": 0.0}


def test_samples_are_told_if_they_are_asked_for(
    broker: LocalAmqp, ask: Ask, connect: Connect
) -> None:
    """By each range of its own, and with what the member rose in them."""
    with publish(broker, connect):
        (connection,) = ask("GET", "/connections").json()
        (node,) = ask("GET", "/nodes").json()

        def samples(path: str, *way: str) -> list[int]:
            found = ask("GET", f"{path}?{RANGES}").json()
            for step in way:
                found = found[step]
            return [one["sample"] for one in found["samples"]]

        rising = [[30, 30, 10], [30, 10, 10], [30, 30, 30]]
        for path, *way in (
            ("/queues/%2F/q", "messages_details"),
            ("/queues/%2F/q", "message_stats", "publish_details"),
            ("/exchanges/%2F/x", "message_stats", "publish_out_details"),
            ("/vhosts/%2F", "message_stats", "publish_details"),
            ("/overview", "queue_totals", "messages_details"),
            ("/overview", "message_stats", "confirm_details"),
        ):
            found = samples(path, *way)
            assert (path, way, found in rising) == (path, way, True), found
        name = quote(connection["name"], safe="")
        received = samples(f"/connections/{name}", "recv_oct_details")
        assert len(received) == 3
        assert received == sorted(received, reverse=True)
        created = samples(f"/nodes/{node['name']}", "connection_created_details")
        assert created == [1, 1, 1]
        assert samples("/overview", "churn_rates", "queue_created_details") == [1, 1, 1]


def test_who_sees_some_vhosts_has_rates_of_those(
    broker: LocalAmqp, ask: Ask, connect: Connect
) -> None:
    """Sums of their rows, not of the node's."""
    anything = {"configure": ".*", "write": ".*", "read": ".*"}
    ask("PUT", "/users/u", {"password": "u", "tags": "management"})
    for vhost in ("v", "hidden"):
        ask("PUT", f"/vhosts/{vhost}")
    ask("PUT", "/permissions/v/u", anything)
    with publish(broker, connect), connect("v") as seen:
        channel = seen.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        broker.advance(seconds=10)
        for _ in range(20):
            channel.basic_publish("", "q", b"")
        broker.advance(seconds=5)
        told: Mapping[str, object] = ask("GET", "/overview", user="u", word="u").json()
        totals = told["queue_totals"]
        assert isinstance(totals, dict)
        assert (totals["messages"], totals["messages_details"]) == (20, {"rate": 4.0})


def test_ranges_that_make_no_sense_are_refused(ask: Ask) -> None:
    """Wherever samples may be asked for."""
    for path in ("/overview", "/queues", "/nodes", "/connections", "/exchanges", "/vhosts"):
        answer = ask("GET", f"{path}?msg_rates_age=60&msg_rates_incr=0")
        assert answer.status_code == 400
        assert answer.json()["error"] == "bad_request"
