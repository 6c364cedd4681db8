"""What is scraped: sums that never fall, series of single objects, and to whom names are told."""

from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote

import pika
import pytest
import requests
from tests.promql import Scrape
from tests.waits import LONG_SECONDS

from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.slow

Ask = Callable[..., requests.Response]
Connect = Callable[..., pika.BlockingConnection]
ALL = {"configure": ".*", "write": ".*", "read": ".*"}
PERSISTENT = pika.BasicProperties(delivery_mode=2)
GUEST = ("guest", "guest")
ODD_QUEUE = 'a "b"\\c'
ODD = f"{ODD_QUEUE}\n"
"""Names with all that is written otherwise in labels; those of queues have no line feed."""


def scraped(broker: LocalAmqp, path: str = "", auth: tuple[str, str] | None = None) -> Scrape:
    """Return what is told at the port of the API."""
    answer = requests.get(
        f"{broker.http_url.removesuffix('/api')}/metrics{path}", auth=auth, timeout=LONG_SECONDS
    )
    assert answer.status_code == 200
    return Scrape.of(answer.text)


def use(connect: Connect, vhost: str, queue: str, count: int) -> pika.BlockingConnection:
    """Publish some messages, consume one fewer, acknowledge two fewer; the connection is open."""
    connection = connect(vhost)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True)
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(count - 1)]
    channel.basic_ack(tags[-2], multiple=True)
    channel.basic_publish("", "nowhere", b"")
    return connection


def test_no_counter_falls(broker: LocalAmqp, ask: Ask, connect: Connect) -> None:
    """Channels, connections, queues and a virtual host go one after the other."""
    ask("PUT", "/vhosts/v")
    in_default, in_v = use(connect, "/", "q", 4), use(connect, "v", "q", 5)
    seen = [scraped(broker).counters()]
    overviews = [ask("GET", "/overview").json()]

    def look() -> None:
        now = scraped(broker).counters()
        assert seen[-1].keys() <= now.keys()
        assert {name: value for name, value in seen[-1].items() if now[name] < value} == {}
        seen.append(now)
        overviews.append(ask("GET", "/overview").json())

    in_default.channel().queue_delete("q")
    look()
    in_default.close()
    look()
    assert ask("DELETE", "/vhosts/v").status_code == 204
    look()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        in_v.process_data_events(time_limit=LONG_SECONDS)
    broker.settle()
    look()
    named = {name: value for (name, labels), value in seen[-1].items() if not labels}
    assert named["rabbitmq_queues_declared_total"] == named["rabbitmq_queues_deleted_total"] == 2
    assert named["rabbitmq_channel_messages_published_total"] == 11
    assert named["rabbitmq_queue_messages_published_total"] == 9
    assert named["rabbitmq_channel_get_ack_total"] == 7
    assert named["rabbitmq_channel_messages_acked_total"] == 5
    assert named["rabbitmq_connections_closed_total"] == 2
    assert named["rabbitmq_connection_incoming_bytes_total"] > 0
    for stats in ("message_stats", "churn_rates"):
        for one, after in pairwise(overviews):
            counts = {name: one[stats][name] for name in one[stats] if "details" not in name}
            assert all(after[stats][name] >= value for name, value in counts.items())


def test_transactions_count_when_they_should(broker: LocalAmqp, connect: Connect) -> None:
    """All of it is received at once, but published only if it is committed."""
    with connect() as connection:
        channel = connection.channel()
        channel.tx_select()
        channel.queue_declare("q")
        for count in (3, 4):
            for number in range(count):
                channel.basic_publish("", "q", b"%d" % number)
            if count == 3:
                channel.tx_rollback()
        channel.basic_qos(prefetch_count=1)
        before = scraped(broker)
        channel.tx_commit()
        after = scraped(broker)
    names = {
        "rabbitmq_global_messages_received_total": (7, 7),
        "rabbitmq_global_messages_received_confirm_total": (7, 7),
        "rabbitmq_global_messages_routed_total": (0, 4),
    }
    for name, expected in names.items():
        found = [one.value(name, protocol="amqp091") for one in (before, after)]
        assert (name, *found) == (name, *expected)
    published = "rabbitmq_channel_messages_published_total"
    assert [one.value(published) for one in (before, after)] == [0, 4]


def test_deaths_are_counted_by_their_reason(broker: LocalAmqp, connect: Connect) -> None:
    """Whether they are passed on or not; what is counted stays when the queue goes."""
    with connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name, more in (
            ("short", {"x-max-length": 1}),
            ("brief", {"x-message-ttl": 1000, "x-dead-letter-exchange": ""}),
            ("limited", {"x-queue-type": "quorum", "x-delivery-limit": 1}),
        ):
            channel.queue_declare(name, durable=True, arguments=more)
        for queue, count in (("short", 3), ("brief", 4), ("limited", 1)):
            for _ in range(count):
                channel.basic_publish("", queue, b"", PERSISTENT)
        channel.basic_reject(channel.basic_get("short")[0].delivery_tag, requeue=False)
        for _ in range(2):
            channel.basic_reject(channel.basic_get("limited")[0].delivery_tag, requeue=True)
        broker.advance(seconds=2)
        for queue in ("short", "brief", "limited"):
            channel.queue_delete(queue)
    found = scraped(broker)

    def died(reason: str, kind: str, strategy: str) -> float:
        return found.value(
            f"rabbitmq_global_messages_dead_lettered_{reason}_total",
            queue_type=f"rabbit_{kind}_queue",
            dead_letter_strategy=strategy,
        )

    assert died("maxlen", "classic", "disabled") == 2
    assert died("rejected", "classic", "disabled") == 1
    assert died("expired", "classic", "at_most_once") == 4
    assert died("expired", "classic", "disabled") == 0
    assert died("delivery_limit", "quorum", "disabled") == 1
    limited = found.families["rabbitmq_global_messages_dead_lettered_delivery_limit_total"]
    assert len(limited.series) == 2


def test_each_queue_has_its_series(broker: LocalAmqp, ask: Ask, connect: Connect) -> None:
    """By all groups, and by those that are asked for, in the virtual hosts that are."""
    assert ask("PUT", f"/vhosts/{quote(ODD, safe='')}").status_code == 201
    connections = [use(connect, "/", "q", 4), use(connect, ODD, ODD_QUEUE, 6)]
    series = {("/", "q"): 4, (ODD, ODD_QUEUE): 6}
    every = scraped(broker, "/per-object", GUEST)
    for (vhost, queue), count in series.items():
        labels = {"vhost": vhost, "queue": queue}
        assert every.value("rabbitmq_queue_messages_ready", **labels) == 1
        assert every.value("rabbitmq_queue_messages_unacked", **labels) == 1
        assert every.value("rabbitmq_queue_messages_persistent", **labels) == 2
        assert every.value("rabbitmq_queue_messages_bytes", **labels) == 2
        assert every.value("rabbitmq_queue_consumers", **labels) == 0
        assert every.value("rabbitmq_channel_get_ack_total", **labels) == count - 1
        labels = {"queue_vhost": vhost, "queue": queue}
        assert every.value("rabbitmq_queue_messages_published_total", **labels) == count
    assert len(every.families["rabbitmq_connection_channels"].series) == 2
    assert every.value("rabbitmq_queues") == 2
    assert every.value("rabbitmq_global_messages_received_total", protocol="amqp091") == 12
    path = "/detailed?family=queue_coarse_metrics&family=queue_consumer_count&family=nothing"
    some = scraped(broker, path, GUEST)
    assert some.families.keys() == {
        "rabbitmq_detailed_queue_messages",
        "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_consumers",
        "rabbitmq_identity_info",
        "rabbitmq_build_info",
    }
    in_one = scraped(broker, f"{path}&vhost=missing&vhost={quote(ODD)}", GUEST)
    (only,) = in_one.families["rabbitmq_detailed_queue_messages"].series
    assert dict(only) == {"vhost": ODD, "queue": ODD_QUEUE}
    nowhere = scraped(broker, f"{path}&vhost=missing", GUEST)
    assert nowhere.families.keys() == {"rabbitmq_identity_info", "rabbitmq_build_info"}
    for connection in connections:
        connection.close()


def test_what_is_of_the_cluster(broker: LocalAmqp, ask: Ask, connect: Connect) -> None:
    """Virtual hosts and exchanges, by name."""
    with connect() as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.exchange_declare("x", "topic")
        channel.exchange_declare("inner", "topic", internal=True)
        for key in ("a", "b"):
            channel.queue_bind("q", "x", key)
    path = "/detailed?family=vhost_status&family=exchange_bindings&family=exchange_names"
    found = scraped(broker, path, GUEST)
    assert found.value("rabbitmq_cluster_vhost_status", vhost="/") == 1
    labels = {"vhost": "/", "exchange": "x", "type": "topic"}
    assert found.value("rabbitmq_cluster_exchange_bindings", **labels) == 2
    assert found.value("rabbitmq_cluster_exchange_name", **labels) == 1
    told = {
        dict(one)["exchange"] for one in found.families["rabbitmq_cluster_exchange_name"].series
    }
    assert told.isdisjoint({"", "inner"})


def test_names_are_told_to_monitors_and_scrapers(broker: LocalAmqp, ask: Ask) -> None:
    """At the API's port they need a login; at the port for metrics, as in RabbitMQ, none."""
    for name, tags in (("watch", "monitoring"), ("plain", "management")):
        assert ask("PUT", f"/users/{name}", {"password": name, "tags": tags}).status_code == 201
    listeners = ask("GET", "/overview").json()["listeners"]
    (port,) = [one["port"] for one in listeners if one["protocol"] == "http/prometheus"]
    for_all, for_scrapers = broker.http_url.removesuffix("/api"), f"http://{broker.host}:{port}"

    def status(base: str, path: str, *auth: str) -> int:
        login = (auth[0], auth[0]) if auth else None
        return requests.get(base + path, auth=login, timeout=LONG_SECONDS).status_code

    assert status(for_all, "/metrics") == status(for_scrapers, "/metrics") == 200
    for path in ("/metrics/per-object", "/metrics/detailed?family=queue_metrics"):
        assert status(for_all, path) == status(for_all, path, "plain") == 401
        assert status(for_all, path, "watch") == status(for_scrapers, path) == 200
    for path in ("/metrics/default", "/metrics/"):
        assert status(for_all, path) == 200
    for path in ("/metrics/nothing", "/metricsx"):
        assert status(for_all, path) == 404


def test_the_node_says_what_publishers_may_take(broker: LocalAmqp, ask: Ask) -> None:
    """Its limit of memory is what metrics tell, and delayed exchanges are among its types."""
    (node,) = ask("GET", "/nodes").json()
    limit = scraped(broker).value("rabbitmq_resident_memory_limit_bytes")
    assert node["mem_limit"] == limit > node["mem_used"] > 0
    for told in (node, ask("GET", "/overview").json()):
        assert "x-delayed-message" in [one["name"] for one in told["exchange_types"]]


def test_syncs_are_what_the_node_tells(broker: LocalAmqp, ask: Ask, connect: Connect) -> None:
    """Those that a confirm has waited for, and how long they took."""
    use(connect, "/", "q", 4).close()
    broker.settle()
    found, (node,) = scraped(broker), ask("GET", "/nodes").json()
    assert found.value("rabbitmq_io_sync_ops_total") == node["io_sync_count"] >= 4
    seconds = found.value("rabbitmq_io_sync_time_seconds_total")
    assert seconds * 1000 / node["io_sync_count"] == pytest.approx(node["io_sync_avg_time"])
