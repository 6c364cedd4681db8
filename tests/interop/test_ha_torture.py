"""What `make torture-ha` is made of, as far as it needs neither etcd nor a broker."""

import base64
import json
from random import Random

import pytest
from tests.interop import ha_faults, ha_planted, ha_torture
from tests.interop.forwarder import Fate
from tests.interop.ha_faults import GrowTrap
from tests.interop.ha_load import Ack
from tests.interop.ha_set import KEYS
from tests.interop.peers import ROOT


@pytest.mark.parametrize("name", ha_planted.PLANTS)
def test_a_planted_fault_fits_the_source(name: str) -> None:
    """What it changes is there once."""
    plant = ha_planted.PLANTS[name]
    text = (ROOT / "src/sprocket" / plant.module).read_text(encoding="utf-8")
    assert text.count(plant.before) == 1
    assert set(plant.kinds) <= ha_faults.FAULTS.keys()


def put(key: str, value: object) -> dict[str, object]:
    """Return what writes a key of the set."""
    text = json.dumps(value).encode()
    return {
        "request_put": {
            "key": base64.b64encode((KEYS + key).encode()).decode(),
            "value": base64.b64encode(text).decode(),
        }
    }


def sent(*writes: dict[str, object], path: str = "/v3/kv/txn") -> bytes:
    """Return a request to etcd after another one on its connection."""
    body = json.dumps({"compare": [], "success": list(writes)}).encode()
    return b"POST /v3/kv/range HTTP/1.1\r\n\r\n{}POST %b HTTP/1.1\r\n\r\n%b" % (path.encode(), body)


def test_the_trap_waits_for_a_slave_that_is_added() -> None:
    """And catches one request only."""
    grown, alone = {"isr": ["1/a", "2/b"]}, {"isr": ["1/a"]}
    silences: list[bool] = []
    trap = GrowTrap(Fate.LOST, lambda: silences.append(True))
    for data in (
        sent(put("state", alone)),
        sent(put("leader", {}), put("state", grown)),
        sent(put("member/1", grown)),
        sent(put("state", grown), path="/v3/kv/range"),
        sent(put("state", grown))[:-5],
        b"",
    ):
        assert trap.look(data) is Fate.CARRIED
    assert not trap.is_sprung.is_set()
    assert trap.look(sent(put("state", grown))) is Fate.LOST
    assert trap.is_sprung.is_set()
    assert silences == [True]
    assert trap.look(sent(put("state", grown))) is Fate.CARRIED


def test_a_silence_counts_from_the_fault_on() -> None:
    """Also if it was silent before, and if nothing follows."""
    acks = [Ack("k", 0, number, at, "a") for number, at in enumerate((1.0, 2.0, 8.0, 8.5, 9.7))]
    assert ha_torture.silence_after(acks, 5.0) == 3.0
    assert ha_torture.silence_after(acks, 8.2) == pytest.approx(1.2)
    assert ha_torture.silence_after(acks, 10.0) == 0.0


def test_each_kind_comes_once_before_any_comes_again() -> None:
    """In another order for another seed."""
    kinds = [*ha_faults.FAULTS]
    for seed in range(3):
        drawn = ha_torture.kinds(Random(seed), kinds)
        for _ in range(2):
            assert sorted(next(drawn) for _ in kinds) == sorted(kinds)
