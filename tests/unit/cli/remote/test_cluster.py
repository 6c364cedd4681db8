"""`sprocket cluster` lists brokers, and shows and changes their settings."""

from types import SimpleNamespace

from tests.unit.cli.running import done, refused, rows

from sprocket.cli.remote import cluster
from sprocket.rocketmq.client.admin.brokers import broker_status
from sprocket.testing.local_broker import LocalBroker


def test_list(broker: LocalBroker) -> None:
    """The one broker, where it is, since when it runs."""
    done(broker, "produce", "orders", "x")
    (row,) = rows(broker, "cluster", "ls")
    assert (row["cluster"], row["broker"]) == ("DefaultCluster", "broker-a")
    assert row["address"] == broker.address
    assert (row["in_today"], row["refusal"]) == (1, "")
    assert "broker-a" in done(broker, "cluster", "ls")


def test_list_says_why_a_broker_stores_nothing() -> None:
    """In a column that is empty otherwise; without it all would look well."""
    table = {"brokerActive": "false", "sprocketRefusal": "the disk is 93 % full, more than 90 %"}
    status = broker_status(table)
    admin = SimpleNamespace(broker=SimpleNamespace(status=lambda _: status))
    row = cluster.broker_row(admin, cluster.MasterBroker("c", "b", "h:1"))  # type: ignore[arg-type]
    assert row["refusal"] == "the disk is 93 % full, more than 90 %"


def test_status(broker: LocalBroker) -> None:
    """All that it tells, under its names; the only broker need not be named."""
    (unnamed,) = rows(broker, "cluster", "status")
    (named,) = rows(broker, "cluster", "status", "broker-a")
    assert unnamed.keys() == named.keys()
    assert {"bootTimestamp", "putTps", "commitLogMaxOffset"} <= named.keys()


def test_config(broker: LocalBroker) -> None:
    """Shown under RocketMQ's names, changed while it runs."""
    (before,) = rows(broker, "cluster", "config")
    assert before["brokerName"] == "broker-a"
    (changed,) = rows(broker, "cluster", "config", "--set", "autoCreateTopicEnable=false")
    assert changed == {"broker": "broker-a", "autoCreateTopicEnable": "false"}
    (after,) = rows(broker, "cluster", "config")
    assert after == {**before, "autoCreateTopicEnable": "false"}
    assert "orders" in refused(broker, "produce", "orders", "x")


def test_bad_input_is_one_line(broker: LocalBroker) -> None:
    """No such broker, no such setting, no value."""
    assert "nobody" in refused(broker, "cluster", "status", "nobody")
    assert "no setting nothing" in refused(broker, "cluster", "config", "--set", "nothing=1")
    assert "NAME=VALUE" in refused(broker, "cluster", "config", "--set", "alone")
    assert "cannot be changed" in refused(
        broker, "cluster", "config", "--set", "brokerClusterName=other"
    )
