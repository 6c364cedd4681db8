"""`sprocket ha` shows the machines that have the same log."""

from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs
from tests.stores import SMALL, new
from tests.unit.cli.running import done, refused, rows, run

from sprocket.base.disk import RealDisk
from sprocket.base.errors import SettingsError
from sprocket.cli.remote import ha
from sprocket.rocketmq.client.blocking import Admin
from sprocket.rocketmq.codec.bodies import (
    MasterStatus,
    ReplicaStatus,
    SetMemberView,
    SetReplica,
    SetReplicas,
    SlaveStatus,
)
from sprocket.rocketmq.model.route import BrokerData
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
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
    checked = run(broker, "ha", "status", "--check")
    assert (checked.exit_code, checked.stderr) == (1, "")
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


def test_a_slave_that_does_not_say_who_it_is() -> None:
    """How long it lacks something is known where it is the only one."""
    slave = SlaveStatus(address="a", acknowledged_offset=1, lag_bytes=1, is_in_sync=True, lag_ms=7)
    assert ha.lag_ms([slave], 1) == 7
    assert ha.lag_ms([slave, slave], 1) is None


def test_members_of_a_set_say_more() -> None:
    """Who is in sync, the epoch, and the last switch."""
    slaves = [
        SlaveStatus(
            address="b:4",
            acknowledged_offset=7,
            lag_bytes=2,
            is_in_sync=True,
            lag_ms=40,
            broker_id=broker_id,
        )
        for broker_id in (2, 3)
    ]
    master = ReplicaStatus(log_end=9, is_master=True, slaves=slaves)
    found = {0: master, 2: ReplicaStatus(log_end=7)}
    known = {"broker-a": BrokerData(cluster="c", name="broker-a", addresses={0: "a:1", 2: "b:1"})}
    views = {0: seen(1, 1), 2: seen(2, 1)}
    first, second = ha.rows_of("broker-a", found, known, views)
    assert (first["member"], first["phase"], first["epoch"]) == (1, "master", 3)
    assert (second["member"], second["phase"], second["lag_bytes"]) == (2, "follow", 2)
    assert (second["in_sync"], second["in_sync_set"]) == (True, "1,2")
    assert (first["lag_ms"], second["lag_ms"]) == (None, 40)
    assert ha.are_in_sync([first, second])
    assert not ha.are_in_sync([first])
    assert not ha.are_in_sync([first, {**second, "in_sync": False}])
    assert second["switched_why"] == "the broker is open"


def test_a_broker_that_is_not_in_a_set(broker: LocalBroker) -> None:
    """It is said so."""
    assert "not in a set" in refused(broker, "ha", "init", "broker-a", "1")
    assert "nobody is master" in refused(broker, "ha", "promote", "broker-a", "1")
    assert "no member 1" in refused(broker, "ha", "promote", "broker-a", "1", "--unclean", "--yes")
    assert "nobody" in refused(broker, "ha", "init", "nobody", "1")
    assert "code 3" in refused(broker, "ha", "hand-over", "broker-a")


def log_of(broker: LocalBroker) -> bytes:
    """Return the log of a broker, record by record."""
    found = b""
    with Admin(broker.nameserver) as admin:
        while (stored := admin.broker.record("broker-a", len(found))) is not None:
            found += stored
        assert admin.broker.record("broker-a", -1) is None
    return found


def slave_of(log: bytes, folder: str, own: int) -> None:
    """Make a folder that has a log of a master, and messages of its own behind it."""
    clock = FakeClock()
    with closing(
        Store.open(RealDisk(), folder, StoreSettings(), clock, SMALL, follows=True)
    ) as one:
        one.follow("a slave")
        for records in one.log_stream().take(log):
            one.append_stored(records)
    with closing(Store.open(RealDisk(), folder, StoreSettings(), clock)) as one:
        for _ in range(own):
            one.append(new("orders", 0, b"mine"))


def test_a_slave_joins_its_master_again(broker: LocalBroker, tmp_path: Path) -> None:
    """What it has alone is saved and cut off; all of it if nothing is in common."""
    for number in range(6):
        done(broker, "produce", "orders", f"x{number}")
    log = log_of(broker)
    common = len(log) // 2
    folder = tmp_path / "slave"
    slave_of(log[:common], str(folder), 2)
    said = {"broker": "broker-a", "cut_at": common, "records": 2, "saved": ""}
    asked = ("ha", "rejoin", folder, "broker-a")
    (row,) = rows(broker, *asked, "--dry-run")
    assert row == {**said, "log_end": row["log_end"], "bytes": row["log_end"] - common}
    assert not (folder / "cut").exists()
    (row,) = rows(broker, *asked)
    assert row == {
        **said,
        "log_end": row["log_end"],
        "bytes": row["log_end"] - common,
        "saved": f"{folder}/cut/0-{common}",
    }
    assert (folder / "cut" / f"0-{common}" / "commitlog").is_dir()
    refused(broker, *asked)  # the broker has to start first
    with closing(Store.open(RealDisk(), str(folder), StoreSettings(), FakeClock())) as one:
        assert one.written == common
        assert one.queue_end("orders", 0) + one.queue_end("orders", 1) <= 3
    (row,) = rows(broker, *asked)
    assert (row["cut_at"], row["log_end"], row["bytes"]) == (common, common, 0)
    other = tmp_path / "other"
    slave_of(b"", str(other), 2)
    (row,) = rows(broker, "ha", "rejoin", other, "broker-a")
    assert (row["cut_at"], row["records"]) == (0, 2)
    assert "no such folder" in refused(broker, "ha", "rejoin", tmp_path / "none", "broker-a")


def word(member: int, phase: str, *in_sync: int, epoch: int = 65) -> SetReplicas:
    """Return what a member says of a set about which an operator decides."""
    view = seen(member, member if phase == "MASTER" else None, epoch)
    assert view.answered_by is not None
    return structs.replace(
        view,
        in_sync=[
            SetReplica(broker_name="broker-a", broker_id=one, broker_address="", is_alive=True)
            for one in in_sync
        ],
        answered_by=structs.replace(view.answered_by, phase=phase, is_by_operator=True),
    )


def test_an_operator_says_who_is_master() -> None:
    """What that means depends on who answers, and who was in sync."""
    one, two = word(1, "MASTER", 1, 2), word(2, "FOLLOW", 1, 2)
    assert ha.promotion(2, {1: one, 2: two}, unclean=False).hands_over
    alone = ha.promotion(1, {1: one, 2: two}, unclean=False)
    assert "member 1 alone has" in alone.question
    assert ha.promotion(1, {1: word(1, "MASTER", 1)}, unclean=False).is_done
    dead = ha.promotion(2, {2: two}, unclean=False)
    assert {dead.hands_over, dead.is_done, alone.hands_over, alone.is_done} == {False}
    assert dead.question.startswith("Member 1 does not answer.")
    both = ha.promotion(2, {1: word(1, "FOLLOW", 1, 2), 2: two}, unclean=False)
    assert both.question == "Have member 2 be master, alone in sync at first?"
    behind = word(2, "FOLLOW", 1)
    assert ha.promotion(2, {2: behind}, unclean=True).question.startswith("Lose what was")
    for own, why in (
        ({1: one}, "member 2 does not answer"),
        ({2: behind}, "--unclean takes it all the same"),
        ({1: word(1, "MASTER", 1), 2: behind}, "not in sync, and there is a master"),
    ):
        with pytest.raises(SettingsError, match=why):
            ha.promotion(2, own, unclean=False)
