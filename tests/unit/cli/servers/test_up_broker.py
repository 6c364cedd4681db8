"""`sprocket broker` as a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.link import Link
from tests.unit.cli.serving_processes import SECONDS_MAX, Serving, said, stopped

pytestmark = pytest.mark.slow


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Start commands and end them."""
    one = Serving()
    yield one
    one.end()


def test_a_broker_of_rocketmqs_conf_registers(serving: Serving, tmp_path: Path) -> None:
    """With every NameServer it names; its store lies where the file says."""
    names = [
        serving.begin("nameserver", "--port", "0", "--data", str(tmp_path / f"names{number}"))
        for number in range(2)
    ]
    addresses = [said(one, r"ready nameserver=(\S+)").group(1) for one in names]
    store = tmp_path / "store"
    path = tmp_path / "broker.conf"
    path.write_text(
        f"brokerName=b9\nnamesrvAddr={';'.join(addresses)}\nbrokerIP1=127.0.0.1\n"
        f"flushDiskType=ASYNC_FLUSH\nstorePathRootDir={store}\nmappedFileSizeCommitLog=1048576\n"
    )
    broker = serving.begin("broker", "-c", str(path), "--port", "0")
    line = said(broker, r"ready broker=(127\.0\.0\.1:\d+) data=(\S+)")
    assert line.group(2) == str(store)
    for address in addresses:
        with Link(address) as link:
            assert line.group(1).encode() in link.call(105, {"topic": "TBW102"}).body
    assert (store / "commitlog").exists()
    err = stopped(broker)
    assert "b9" in err
    assert "operating system" in err
    for address in addresses:
        with Link(address) as link:
            assert link.ask(105, {"topic": "TBW102"}).code == 17
    for one in names:
        stopped(one)


def test_a_broker_without_a_nameserver(serving: Serving, tmp_path: Path) -> None:
    """Serves who knows its address, and says so; settings of ours are in TOML."""
    path = tmp_path / "broker.toml"
    path.write_text("[broker]\nname = 'alone'\n")
    data = tmp_path / "s"
    process = serving.begin("broker", "-c", str(path), "--port", "0", "--data", str(data))
    said(process, r"ready broker=\S+ data=\S+")
    err = stopped(process)
    assert "none: only clients that know the address find it" in err
    assert "alone" in err


def test_what_cannot_be_promised_is_one_line(serving: Serving, tmp_path: Path) -> None:
    """A slave without a number is not started as a master."""
    path = tmp_path / "broker.conf"
    path.write_text("brokerRole=SLAVE\n")
    process = serving.begin("broker", "-c", str(path))
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert "0 is the number of the master" in err
