"""Two brokers of ours and three members of etcd: the master changes, and nothing is lost."""

from pathlib import Path

import pytest
from tests.interop import ha_network, ha_run, ha_set, peers
from tests.interop.peers import PeerMissing

pytestmark = pytest.mark.interop


@pytest.mark.nightly
def test_no_fault_loses_what_was_acknowledged(tmp_path: Path) -> None:
    """Handed over, killed, stopped, cut off from etcd, the slave and both, under load."""
    flights = ha_run.year(20_000)
    try:
        with ha_network.running(tmp_path, "", ha_run.OPTIONS) as ha:
            outcome = ha_run.play(ha, flights, print)
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    assert outcome.lost == []
    assert outcome.acknowledged == len(flights)
    assert outcome.seconds.keys() == ha_run.FAULTS.keys()


@pytest.mark.nightly
def test_mqadmin_sees_a_set_and_has_it_switch(jars: Path, tmp_path: Path) -> None:
    """It is given the address of a broker as that of the controller."""
    try:
        with ha_set.running(tmp_path) as ha:
            master = ha.wait_settled()
            given = ("-a", master.address, "-b", ha_set.NAME)
            said = peers.mqadmin(jars, tmp_path, ha.nameserver, "getSyncStateSet", *given)
            assert "#MasterEpoch\t1\n" in said
            assert said.count("InSyncReplica:\t") == 2
            assert all(one.address in said for one in ha.members)
            said = peers.mqadmin(jars, tmp_path, ha.nameserver, "haStatus", "-b", master.address)
            assert "#SlaveNum\t1\n" in said
            assert "#InSyncSlaveNum\t1\n" in said
            said = peers.mqadmin(jars, tmp_path, ha.nameserver, "getBrokerEpoch", "-b", ha_set.NAME)
            assert said.count("#brokerAddr") == 2
            assert "epoch=1, startOffset=0" in said
            number = str(ha.members[1].number)
            elect = ("-a", master.address, "-b", number, "-bn", ha_set.NAME, "-c", "DefaultCluster")
            peers.mqadmin(jars, tmp_path, ha.nameserver, "electMaster", *elect)
            assert ha.admin.failover.next_master(ha_set.NAME, 1).master_broker_id == 2
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
