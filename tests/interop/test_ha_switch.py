"""Two brokers of ours and three members of etcd: the master changes, and nothing is lost."""

from pathlib import Path

import pytest
from tests.interop import ha_set
from tests.interop.peers import PeerMissing

pytestmark = pytest.mark.interop


@pytest.mark.nightly
def test_no_fault_loses_what_was_acknowledged(tmp_path: Path) -> None:
    """Handed over, killed, stopped and cut off from etcd, under load."""
    try:
        outcome = ha_set.play(tmp_path, say=print)
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    assert outcome.lost == []
    assert outcome.are_equal
    assert outcome.acknowledged > 100
    assert outcome.seconds.keys() == ha_set.FAULTS.keys()
