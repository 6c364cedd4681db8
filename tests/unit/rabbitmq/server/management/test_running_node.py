"""What administrators change while clients are connected, and what they are told of those."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pika
import pika.exceptions
import pytest
import requests
from tests.waits import LONG_SECONDS

import amqp
from sprocket.base.disk import RealDisk
from sprocket.rabbitmq.model.vhost import RemovedVhost, Vhost
from sprocket.rabbitmq.store.metadata_table import MetadataTable
from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.slow

Ask = Callable[..., requests.Response]
Connect = Callable[..., pika.BlockingConnection]
ALL = {"configure": ".*", "write": ".*", "read": ".*"}
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def closed_with(connection: pika.BlockingConnection) -> tuple[int, str]:
    """Wait until a connection is closed, and return why."""
    try:
        while True:
            connection.process_data_events(time_limit=1)
    except pika.exceptions.ConnectionClosedByBroker as closed:
        return closed.reply_code, closed.reply_text


def test_a_vhost_is_made_used_and_deleted(broker: LocalAmqp, ask: Ask, connect: Connect) -> None:
    """Its connections are closed with RabbitMQ's text, its files go, and it may come again."""
    folders = Path(broker.folder) / "rabbitmq" / "msg_stores" / "vhosts"
    before = sorted(folders.iterdir())
    assert ask("PUT", "/vhosts/v").status_code == 201
    other, inside = connect(), connect("v")
    channel = inside.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"old", PERSISTENT)
    assert len(list(folders.iterdir())) == len(before) + 1
    assert ask("DELETE", "/vhosts/v").status_code == 204
    assert closed_with(inside) == (320, "CONNECTION_FORCED - vhost 'v' is deleted")
    assert other.is_open
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost v not found"):
        connect("v")
    assert ask("PUT", "/vhosts/v").status_code == 201
    again = connect("v").channel()
    assert again.queue_declare("q", durable=True).method.message_count == 0
    assert ask("DELETE", "/vhosts/v").status_code == 204
    broker.settle()
    assert sorted(folders.iterdir()) == before
    other.close()


def test_what_was_changed_is_there_after_a_power_cut(
    broker: LocalAmqp, ask: Ask, connect: Connect
) -> None:
    """Virtual hosts, users, permissions, policies and limits, made and deleted."""
    for path, body in (
        ("/vhosts/stays", None),
        ("/vhosts/goes", None),
        ("/users/u", {"password": "p", "tags": "management"}),
        ("/users/gone", {"password": "p", "tags": ""}),
        ("/permissions/stays/u", ALL),
        ("/policies/stays/p", {"pattern": ".*", "definition": {"max-length": 1}}),
        ("/vhost-limits/stays/max-queues", {"value": 7}),
    ):
        assert ask("PUT", path, body).status_code in (201, 204), path
    channel = connect("stays", "u", "p").channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"kept", PERSISTENT)
    assert ask("DELETE", "/vhosts/goes").status_code == 204
    assert ask("DELETE", "/users/gone").status_code == 204
    broker.power_cut(1)
    base = broker.http_url
    guest = ("guest", "guest")

    def names(path: str) -> list[str]:
        found = requests.get(base + path, auth=guest, timeout=LONG_SECONDS).json()
        return sorted(one["name"] for one in found)

    assert names("/vhosts") == ["/", "stays"]
    assert names("/users") == ["guest", "u"]
    assert names("/policies") == ["p"]
    limits = requests.get(base + "/vhost-limits", auth=guest, timeout=LONG_SECONDS).json()
    assert limits == [{"vhost": "stays", "value": {"max-queues": 7}}]
    assert broker.message_count("q", "stays") == 1


def test_files_of_a_deleted_vhost_go_at_the_next_start(tmp_path: Path) -> None:
    """The process was killed before they did: old messages are in no new virtual host."""
    node = str(tmp_path / "node")
    with LocalAmqp(node) as broker:
        made = requests.put(
            f"{broker.http_url}/vhosts/v", auth=("guest", "guest"), timeout=LONG_SECONDS
        )
        assert made.status_code == 201
    vhosts = tmp_path / "node" / "rabbitmq" / "msg_stores" / "vhosts"
    names = {path.name for path in vhosts.iterdir()}
    table = MetadataTable(RealDisk(), str(tmp_path / "node" / "rabbitmq"))
    table.write(gone=table.of_node(Vhost)[1:], put=[RemovedVhost(name="v")])
    table.close()
    with LocalAmqp(node):
        assert len({path.name for path in vhosts.iterdir()}) == len(names) - 1
    table = MetadataTable(RealDisk(), str(tmp_path / "node" / "rabbitmq"))
    assert [one.name for one in table.of_node(Vhost)] == ["/"]
    assert table.of_node(RemovedVhost) == []
    table.close()


def test_a_deleted_user_is_sent_away(ask: Ask, connect: Connect) -> None:
    """With RabbitMQ's text; others stay, and its name and password are of no use any more."""
    ask("PUT", "/users/u", {"password": "p", "tags": ""})
    ask("PUT", "/permissions/%2F/u", ALL)
    other, mine = connect(), connect("/", "u", "p")
    assert ask("DELETE", "/users/u").status_code == 204
    assert closed_with(mine) == (320, "CONNECTION_FORCED - user 'u' is deleted")
    assert other.is_open
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect("/", "u", "p")
    other.close()


def test_a_policy_is_in_force_at_once(broker: LocalAmqp, ask: Ask, connect: Connect) -> None:
    """What is too much is dropped, and when the policy is cleared there is room again."""
    with connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        for number in range(5):
            channel.basic_publish("", "q", b"%d" % number)
        policy = {"pattern": "^q$", "definition": {"max-length": 2}, "apply-to": "queues"}
        assert ask("PUT", "/policies/%2F/short", policy).status_code == 201
        broker.settle()
        assert broker.message_count("q") == 2
        assert ask("GET", "/queues/%2F/q").json()["policy"] == "short"
        assert ask("DELETE", "/policies/%2F/short").status_code == 204
        channel.basic_publish("", "q", b"more")
        assert broker.message_count("q") == 3


def test_definitions_bring_a_vhost_with_its_queues(ask: Ask, connect: Connect) -> None:
    """Which clients use at once; what is exported of it is what was taken."""
    queue = {"name": "q", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {}}
    file = {
        "vhosts": [{"name": "v"}],
        "permissions": [{"user": "guest", "vhost": "v", **ALL}],
        "queues": [queue],
    }
    assert ask("POST", "/definitions", file).status_code == 204
    with connect("v") as connection:
        assert connection.channel().queue_declare("q", passive=True).method.message_count == 0
    exported = ask("GET", "/definitions").json()
    assert queue in [
        {name: value for name, value in one.items() if name != "type"} for one in exported["queues"]
    ]


def test_clients_are_told_of_and_closed(ask: Ask, connect: Connect) -> None:
    """Their connections, channels and consumers, with what was counted."""
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", exclusive=True)
    for number in range(6):
        channel.basic_publish("", "q", b"%d" % number)
    channel.basic_qos(prefetch_count=4)
    got: list[int] = []
    channel.basic_consume(
        "q", lambda _, method, *__: got.append(method.delivery_tag), consumer_tag="t"
    )
    while len(got) < 4:
        connection.process_data_events(time_limit=1)
    channel.basic_ack(2, multiple=True)
    while len(got) < 6:
        connection.process_data_events(time_limit=1)
    (told,) = ask("GET", "/connections").json()
    assert (told["user"], told["user_provided_name"], told["channels"]) == ("guest", "of guest", 1)
    assert told["client_properties"]["connection_name"] == "of guest"
    (one,) = ask("GET", "/channels").json()
    assert (one["prefetch_count"], one["messages_unacknowledged"], one["confirm"]) == (4, 4, True)
    stats = one["message_stats"]
    assert (stats["publish"], stats["confirm"], stats["deliver"], stats["ack"]) == (6, 6, 6, 2)
    (consumer,) = ask("GET", "/consumers/%2F").json()
    assert (consumer["consumer_tag"], consumer["queue"]["name"]) == ("t", "q")
    assert consumer["channel_details"]["connection_name"] == told["name"]
    queue = ask("GET", "/queues/%2F/q").json()
    assert (queue["messages"], queue["messages_unacknowledged"]) == (4, 4)
    assert queue["consumer_details"] == [consumer]
    assert queue["owner_pid_details"]["name"] == told["name"]
    assert ask("GET", "/overview").json()["object_totals"]["consumers"] == 1
    path = f"/connections/{quote(told['name'], safe='')}"
    assert ask("GET", path).json()["name"] == told["name"]
    assert ask("DELETE", path).status_code == 204
    code, text = closed_with(connection)
    assert (code, text) == (320, "CONNECTION_FORCED - Closed via management plugin")


def test_metrics_are_prometheus(broker: LocalAmqp, ask: Ask, connect: Connect) -> None:
    """Without a login: lines that parse, each family told once, with what is in the queues."""
    with connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"1")
        text = requests.get(
            broker.http_url.removesuffix("/api") + "/metrics", timeout=LONG_SECONDS
        ).text
    values: dict[str, float] = {}
    kinds: list[str] = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            kinds.append(line.split()[2])
        elif not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    assert len(kinds) == len(set(kinds))
    assert {name.partition("{")[0] for name in values} == set(kinds)
    assert values["rabbitmq_queue_messages_ready"] == 1
    assert values["rabbitmq_connections"] == 1
    assert values["rabbitmq_channel_messages_published_total"] == 1
    assert values["rabbitmq_queues_created_total"] == 1


def test_a_stranger_cannot_send_much(broker: LocalAmqp) -> None:
    """A large body is taken only from who has a name and a password."""
    body = json.dumps({"queues": [], "more": "x" * 100_000})
    url = f"{broker.http_url}/definitions"
    refused = requests.post(url, data=body, auth=("guest", "no"), timeout=LONG_SECONDS)
    assert refused.status_code == 413
    taken = requests.post(url, data=body, auth=("guest", "guest"), timeout=LONG_SECONDS)
    assert taken.status_code == 204


def test_exchanges_tell_what_was_published(ask: Ask, connect: Connect) -> None:
    """In and out, until the exchange is deleted; nothing where nothing was published."""
    with connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("q1", "q2"):
            channel.queue_declare(queue)
        channel.exchange_declare("x", "fanout")
        assert "message_stats" not in ask("GET", "/exchanges/%2F/x").json()
        channel.basic_publish("x", "", b"for nobody")
        stats = ask("GET", "/exchanges/%2F/x").json()["message_stats"]
        assert stats == {"publish_in": 1, "publish_in_details": {"rate": 0.0}}
        for queue in ("q1", "q2"):
            channel.queue_bind(queue, "x")
        channel.basic_publish("x", "", b"for both")
        rate = {"rate": 0.0}
        expected = {
            "publish_in": 2,
            "publish_in_details": rate,
            "publish_out": 2,
            "publish_out_details": rate,
        }
        assert ask("GET", "/exchanges/%2F/x").json()["message_stats"] == expected
        (listed,) = [one for one in ask("GET", "/exchanges").json() if one["name"] == "x"]
        assert listed["message_stats"]["publish_out"] == 2
        channel.exchange_delete("x")
        channel.exchange_declare("x", "fanout")
        assert "message_stats" not in ask("GET", "/exchanges/%2F/x").json()


def test_the_cluster_is_named_anew(broker: LocalAmqp, ask: Ask) -> None:
    """Clients that come then are told so, and it stays so after a power cut."""

    def told() -> set[str]:
        with amqp.Connection(f"{broker.host}:{broker.port}") as connection:
            to_client = connection.server_properties["cluster_name"]
        base, guest = broker.http_url, ("guest", "guest")
        overview = requests.get(f"{base}/overview", auth=guest, timeout=LONG_SECONDS).json()
        name = requests.get(f"{base}/cluster-name", auth=guest, timeout=LONG_SECONDS).json()
        return {to_client, overview["cluster_name"], name["name"]}

    assert told() == {"sprocket"}
    assert ask("PUT", "/cluster-name", {"name": "north"}).status_code == 204
    assert told() == {"north"}
    ask("PUT", "/users/m", {"password": "m", "tags": "monitoring"})
    assert ask("PUT", "/cluster-name", {"name": "south"}, "m", "m").status_code == 401
    for wrong in (5, "x" * 128, None):
        assert ask("PUT", "/cluster-name", {"name": wrong}).status_code == 400
    assert ask("PUT", "/cluster-name", {}).json()["reason"] == "[{key_missing,name}]"
    broker.power_cut(1)
    assert told() == {"north"}
    path = f"{broker.http_url}/global-parameters/cluster_name"
    assert requests.delete(path, auth=("guest", "guest"), timeout=LONG_SECONDS).status_code == 204
    assert told() == {"sprocket"}
