"""A settings file of ours is told from one of RocketMQ's."""

from pathlib import Path

import pytest

from sprocket.base.errors import DiskFailed, SettingsError
from sprocket.cli.servers import config_file
from sprocket.cli.servers.config_file import GivenSettings
from sprocket.node.products import PRODUCTS


@pytest.mark.parametrize(
    ("name", "text", "is_toml"),
    [
        ("a.toml", "brokerName=b", True),
        ("a.conf", "[server]", False),
        ("a.properties", "", False),
        ("a", "# ours\n [server] # here\nhost = 'x'", True),
        ("a", "brokerName=b\nnamesrvAddr=[::1]:9876", False),
        ("a", "", False),
    ],
)
def test_which_is_which(name: str, text: str, is_toml: bool) -> None:
    """By the name's end, else by a line that begins a table."""
    assert config_file.is_toml(name, text) is is_toml


def test_what_a_file_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values of a broker.conf, its folder, and a word about what is ignored."""
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=b\nstorePathRootDir=/data\nregionId=1\n")
    given = config_file.read(str(path), PRODUCTS)
    values = [
        ("broker.name", "b", f"{path} (brokerName)"),
        ("pull.sql_filters", False, f"{path} (default of enablePropertyFilter)"),
        ("timers.recall", False, f"{path} (default of recallMessageEnable)"),
        ("replication.slave_reads", False, f"{path} (default of slaveReadEnable)"),
    ]
    assert given == GivenSettings(path=str(path), values=values, folder="/data")
    assert capsys.readouterr().err == (
        f"sprocket: {path}: ignored, as there is no such setting here: regionId\n"
    )
    path.write_text("brokerName=b\n")
    config_file.read(str(path), PRODUCTS)
    assert capsys.readouterr().err == ""


def test_a_file_of_ours_is_left_to_the_loader(tmp_path: Path) -> None:
    """And no file gives nothing."""
    path = tmp_path / "a.toml"
    path.write_text("[broker]\nname = 'b'\n")
    given = config_file.read(str(path), PRODUCTS)
    assert given == GivenSettings(path=str(path), toml="[broker]\nname = 'b'\n")
    assert config_file.read(None, PRODUCTS) == GivenSettings()


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Is one clear error."""
    with pytest.raises(DiskFailed):
        config_file.read(str(tmp_path / "none"), PRODUCTS)
    path = tmp_path / "b.conf"
    path.write_text("brokerNmae=b")
    with pytest.raises(SettingsError, match="did you mean brokerName"):
        config_file.read(str(path), PRODUCTS)
