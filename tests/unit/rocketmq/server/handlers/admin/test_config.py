"""Settings over the wire."""

from collections.abc import Callable
from typing import Any

from sprocket.rocketmq.codec.config import java_properties


def test_settings_are_told_and_changed(on_node: Callable[..., None]) -> None:
    """A change counts at once."""

    async def scenario(lab: Any) -> None:
        told = await lab.broker.call(26)
        assert '"counter":0' in told.ext_map()["version"]
        before = java_properties.read(told.body)
        assert (before["brokerName"], before["autoCreateTopicEnable"]) == ("broker-a", "true")
        assert (await lab.message("made")).code == 0
        assert (await lab.broker.call(25, {}, b"autoCreateTopicEnable=false\n")).code == 0
        assert (await lab.message("not made")).code == 29
        assert (await lab.message("not_made")).code == 17
        told = await lab.broker.call(26)
        assert '"counter":1' in told.ext_map()["version"]
        after = java_properties.read(told.body)
        assert before | {"autoCreateTopicEnable": "false"} == after

    on_node(scenario)


def test_every_group_that_can_change_does(on_node: Callable[..., None]) -> None:
    """One setting of each."""

    async def scenario(lab: Any) -> None:
        changes = {
            "defaultTopicQueueNums": "5",
            "autoCreateSubscriptionGroup": "false",
            "maxTransferCountOnMessageInMemory": "2",
            "channelExpiredTimeout": "5000",
            "fileReservedTime": "7",
        }
        assert (await lab.broker.call(25, {}, java_properties.write(changes))).code == 0
        told = java_properties.read((await lab.broker.call(26)).body)
        assert {name: told[name] for name in changes} == changes
        assert (await lab.broker.call(352, {"group": "new"})).code == 26

    on_node(scenario)


def test_garbage_is_ignored_and_the_black_list_refused(on_node: Callable[..., None]) -> None:
    """As the real broker has it."""

    async def scenario(lab: Any) -> None:
        for body in (b"", b"\xff\xfe=1", b"fileReservedTime=x", b"nonsense=1"):
            assert (await lab.broker.call(25, {}, body)).code == 0
        assert (await lab.broker.call(25, {}, b"brokerConfigPath=/x")).code == 16

    on_node(scenario)
