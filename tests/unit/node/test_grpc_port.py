"""Where SDKs of RocketMQ 5 are served, and where they are not."""

import pytest

from sprocket.base.errors import SettingsError
from sprocket.base.settings import Loaded
from sprocket.node import rocketmq
from sprocket.rocketmq.settings import GrpcSettings, ServerSettings, Settings


def ports(grpc: GrpcSettings, broker_port: int = 10911) -> dict[str, int]:
    """Return the ports of a broker."""
    settings = Settings(grpc=grpc, server=ServerSettings(broker_port=broker_port))
    return dict(rocketmq.BROKER.ports(Loaded(root=settings, origins={})))


def test_the_usual_broker_has_the_port_of_the_proxy() -> None:
    """Another broker on the machine has none unless it is told one."""
    assert ports(GrpcSettings())["grpc"] == 8081
    assert "grpc" not in ports(GrpcSettings(), 10921)
    assert "grpc" not in ports(GrpcSettings(port="off"))
    assert ports(GrpcSettings(port=9001), 10921)["grpc"] == 9001
    assert ports(GrpcSettings(port=0))["grpc"] == 0


def test_without_the_extra_a_port_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is served where none was asked for."""
    for missing in ("no_such_package", "no_such_package.inside"):
        monkeypatch.setattr(rocketmq, "GRPC_PACKAGES", (missing,))
        assert "grpc" not in ports(GrpcSettings())
        with pytest.raises(SettingsError, match=r"sprocketmq\[grpc\]"):
            ports(GrpcSettings(port=8081))
