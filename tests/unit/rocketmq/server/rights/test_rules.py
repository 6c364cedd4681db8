"""A broker with the rules of RocketMQ 4: who is let through, and what is said to others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rocketmq.conftest import Lab, message_ext
from tests.unit.rocketmq.server.rights.conftest import Signer

from sprocket.base.disk import RealDisk
from sprocket.base.errors import SettingsError
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.settings import RightsSettings

REFUSED = ResponseCode.SYSTEM_ERROR
FILE = """
accounts:
- {accessKey: shop, secretKey: shop-secret, topicPerms: [orders=PUB|SUB], groupPerms: [g=SUB]}
- {accessKey: here, secretKey: here-secret, whiteRemoteAddress: 127.0.0.1}
- {accessKey: root, secretKey: root-secret, admin: true}
"""
PULL = {
    "consumerGroup": "g",
    "topic": "orders",
    "queueId": 0,
    "queueOffset": 0,
    "maxMsgNums": 1,
    "sysFlag": 4,
    "subscription": "*",
}

NEW_TOPIC = {
    "topic": "new",
    "defaultTopic": "TBW102",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
}


@pytest.fixture
def on_rules(on_node: Callable[..., None], tmp_path: Path) -> Callable[..., None]:
    """Run a scenario with a node whose rules a file says."""

    def run(scenario: Callable[[Lab], Any] | None, text: str = FILE, **more: Any) -> None:
        path = tmp_path / "plain_acl.yml"
        path.write_text(text)
        wanted = RightsSettings(rules_path=str(path), **more)
        on_node(scenario, disk=RealDisk(), folder=str(tmp_path / "store"), rights=wanted)

    return run


def test_requests_are_held_to_the_rules(on_rules: Callable[..., None]) -> None:
    """What publishes, what reads, what changes something, and what nobody handles."""

    async def scenario(lab: Lab) -> None:
        shop = Signer(lab.broker, "shop", "shop-secret")
        root = Signer(lab.broker, "root", "root-secret")
        for _ in range(2):  # once decided, once remembered
            assert (await shop.call(310, message_ext("orders"), b"hello")).code == 0
            assert (await shop.call(11, PULL)).body
            answer = await shop.call(310, message_ext("other"), b"hello")
            assert answer.code == REFUSED
            assert "has no permission to access Topic:other" in (answer.remark or "")
            assert (await shop.call(11, PULL | {"consumerGroup": "h"})).code == REFUSED
        assert (await shop.call(30, {"topic": "orders", "queueId": 0})).code == 0
        for code, ext in ((17, NEW_TOPIC), (25, {}), (215, {"topic": "orders"})):
            answer = await shop.call(code, ext)
            assert (answer.code, "no permission" in (answer.remark or "")) == (REFUSED, True)
        assert (await root.call(215, {"topic": "orders"})).code == 0
        for code in (50, 51, 52, 53, 54, 3001, 9999):
            answer = await root.call(code)
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, code

    on_rules(scenario)


def test_requests_without_a_right_signature_are_refused(on_rules: Callable[..., None]) -> None:
    """With the code of 4.9.8."""

    async def scenario(lab: Lab) -> None:
        send = message_ext("orders")
        for name, secret, why in (
            ("shop", "wrong", "check signature failed."),
            ("nobody", "x", "No acl config for nobody"),
        ):
            answer = await Signer(lab.broker, name, secret).call(310, send, b"hello")
            assert (answer.code, answer.remark) == (REFUSED, why)
        for code in (310, 28, 9999):
            answer = await lab.broker.call(code, send, b"hello")
            assert (answer.code, answer.remark) == (REFUSED, "No accessKey is configured")

    on_rules(scenario)


def test_white_addresses_need_not_sign(on_rules: Callable[..., None]) -> None:
    """An account's own are for requests that name it."""

    async def scenario(lab: Lab) -> None:
        for code in (310, 28):
            ext = message_ext("orders") | {"AccessKey": "here"}
            assert (await lab.broker.call(code, ext, b"hello")).code == 0
            ext = message_ext("orders") | {"AccessKey": "shop"}
            assert (await lab.broker.call(code, ext, b"hello")).code == REFUSED

    async def everything(lab: Lab) -> None:
        assert (await lab.broker.call(310, message_ext("orders"), b"hello")).code == 0
        assert (await lab.broker.call(28)).code == 0
        answer = await lab.broker.call(9999)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    on_rules(scenario)
    on_rules(everything, "globalWhiteRemoteAddresses: [127.0.0.*]")


def test_rules_and_users_are_not_mixed(on_rules: Callable[..., None]) -> None:
    """One of them would not count."""
    for name in ("authentication", "authorization"):
        with pytest.raises(SettingsError, match=r"rights\.rules_path, or aclEnable"):
            on_rules(None, **{name: True})
