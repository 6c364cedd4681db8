"""`sprocket ha` shows the machines that have the same log."""

from tests.unit.cli.running import done, refused, rows

from sprocket.cli.remote import ha
from sprocket.rocketmq.codec.bodies import (
    MasterStatus,
    ReplicaStatus,
    SetMemberView,
    SetReplica,
    SetReplicas,
    SlaveStatus,
)
from sprocket.rocketmq.model.route import BrokerData
from sprocket.testing.local_broker import LocalBroker


def test_a_broker_alone(broker: LocalBroker) -> None:
    """It has no slaves, and lacks nothing."""
    done(broker, "produce", "orders", "x")
    (row,) = rows(broker, "ha", "status")
    assert (row["broker"], row["broker_id"], row["role"]) == ("broker-a", 0, "master")
    assert row["address"] == broker.address
    assert row["log_end"] > 0
    assert (row["lag_bytes"], row["slaves"], row["in_sync"]) == (0, 0, True)
    assert rows(broker, "ha", "status", "broker-a") == [row]
    assert "nobody" in refused(broker, "ha", "status", "nobody")


def test_whokeeps_up() -> None:
    """A slave with a link; a master none of whose slaves is far behind."""
    for connected in (True, False, None):
        slave = ReplicaStatus(log_end=1, master=MasterStatus(is_connected=connected))
        assert ha.keeps_up(slave) is bool(connected)
    for in_sync in (True, False):
        one = SlaveStatus(address="a", acknowledged_offset=1, lag_bytes=0, is_in_sync=in_sync)
        assert ha.keeps_up(ReplicaStatus(log_end=1, is_master=True, slaves=[one])) is in_sync


def seen(member: int, master: int | None, epoch: int = 3) -> SetReplicas:
    """Return what a member says of its set of two."""
    return SetReplicas(
        master_broker_id=master,
        master_epoch=epoch,
        in_sync=[
            SetReplica(broker_name="broker-a", broker_id=one, broker_address="", is_alive=True)
            for one in (1, 2)
        ],
        answered_by=SetMemberView(
            broker_id=member,
            phase="MASTER" if member == master else "FOLLOW",
            epoch=epoch if member == master else 0,
            why="",
            switched_at_ms=5,
            switched_epoch=epoch,
            switched_why="the broker is open",
            in_sync_min=1,
            has_begun=True,
        ),
    )


def test_members_of_a_set_say_more() -> None:
    """Who is in sync, the epoch, and the last switch."""
    found = {0: ReplicaStatus(log_end=9, is_master=True), 2: ReplicaStatus(log_end=7)}
    known = {"broker-a": BrokerData(cluster="c", name="broker-a", addresses={0: "a:1", 2: "b:1"})}
    views = {0: seen(1, 1), 2: seen(2, 1)}
    first, second = ha.rows_of("broker-a", found, known, views)
    assert (first["member"], first["phase"], first["epoch"]) == (1, "master", 3)
    assert (second["member"], second["phase"], second["lag_bytes"]) == (2, "follow", 2)
    assert (second["in_sync"], second["in_sync_set"]) == (True, "1,2")
    assert second["switched_why"] == "the broker is open"


def test_a_broker_that_is_not_in_a_set(broker: LocalBroker) -> None:
    """It is said so."""
    assert "not in a set" in refused(broker, "ha", "init", "broker-a", "1")
    assert "nobody is master" in refused(broker, "ha", "promote", "broker-a", "1")
    assert "no member 1" in refused(broker, "ha", "promote", "broker-a", "1", "--unclean", "--yes")
    assert "nobody" in refused(broker, "ha", "init", "nobody", "1")
    assert "code 3" in refused(broker, "ha", "hand-over", "broker-a")
