"""`sprocket ha` shows the machines that have the same log."""

from tests.unit.cli.running import done, refused, rows

from sprocket.cli.remote import ha
from sprocket.rocketmq.codec.bodies import MasterStatus, ReplicaStatus, SlaveStatus
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
