"""Settings of a running NameServer."""

import pytest

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.nameserver import NameServerConfig
from sprocket.rocketmq.nameserver.config import BLACK_LIST
from sprocket.rocketmq.settings import NameServerSettings, ServerSettings


def test_switches_change_while_running() -> None:
    """What is neither true nor false counts as false; what cannot change does not."""
    config = NameServerConfig(NameServerSettings(), ServerSettings(nameserver_port=1234))
    config.update({"orderMessageEnable": "TRUE", "enableTopicList": "nonsense", "x": "y"})
    config.update({"listenPort": "99", "supportActingMaster": " true "})
    assert config.now == NameServerSettings(order_conf=True, list_topics=False, acting_master=True)
    assert config.told()["orderMessageEnable"] == "true"
    assert config.told()["listenPort"] == "1234"


@pytest.mark.parametrize("name", sorted(BLACK_LIST))
def test_what_tells_where_files_lie_is_refused(name: str) -> None:
    """And nothing else of that request is changed either."""
    config = NameServerConfig(NameServerSettings(), ServerSettings())
    with pytest.raises(RequestRefused) as refused:
        config.update({"orderMessageEnable": "true", name: "/etc/passwd"})
    assert refused.value.code == 16
    assert config.now == NameServerSettings()
