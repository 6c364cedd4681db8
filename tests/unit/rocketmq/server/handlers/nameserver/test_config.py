"""The NameServer's requests about key-value pairs and its own settings."""

import json
from collections.abc import Callable
from typing import Any

from sprocket.base.disk import files
from sprocket.testing.disk import SimulatedDisk


def test_key_values_outlive_the_nameserver(on_node: Callable[..., None]) -> None:
    """A power cut right after the answer loses none."""
    disk = SimulatedDisk()

    async def first(lab: Any) -> None:
        names = lab.names
        put = {"namespace": "N", "key": "k", "value": "v \u00e9"}
        assert (await names.call(100, put)).code == 0
        assert (await names.call(100, {"namespace": "E", "key": "k"})).code == 0
        answer = await names.call(101, {"namespace": "N", "key": "k"})
        assert (answer.code, answer.ext_map()) == (0, {"value": "v \u00e9"})
        kept = disk.crash(lambda _: 0).open("/store/namesrv/kvConfig.json")
        assert json.loads(kept.read(0, kept.size()))["configTable"]["N"] == {"k": "v \u00e9"}

    async def second(lab: Any) -> None:
        names = lab.names
        assert (await names.call(101, {"namespace": "N", "key": "k"})).code == 0
        table = json.loads((await names.call(219, {"namespace": "N"})).body)
        assert table == {"table": {"k": "v \u00e9"}}
        assert json.loads((await names.call(219, {"namespace": "E"})).body) == {"table": {}}
        assert (await names.call(102, {"namespace": "N", "key": "k"})).code == 0
        assert (await names.call(102, {"namespace": "N", "key": "k"})).code == 0
        assert (await names.call(101, {"namespace": "N", "key": "k"})).code == 22
        assert (await names.call(219, {"namespace": "none"})).code == 22
        assert (await names.call(100, {"namespace": "N"})).code == 1

    on_node(first, disk=disk)
    on_node(second, disk=disk)
    assert files.read_file(disk, "/store/namesrv/kvConfig.json.bak")


def test_settings_are_changed_and_told(on_node: Callable[..., None]) -> None:
    """What is ignored is a success, as the real one has it; the black list is refused."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        assert b"enableAllTopicList=true\n" in (await names.call(319)).body
        body = b"enableAllTopicList=false\nnonsense\nlistenPort=x\n"
        assert (await names.call(318, {}, body)).code == 0
        assert b"enableAllTopicList=false\n" in (await names.call(319)).body
        answer = await names.call(206)
        assert (answer.code, answer.remark) == (1, "disable")
        assert (await names.call(318, {}, b"")).code == 0
        assert (await names.call(318, {}, b"kvConfigPath=/x")).code == 16

    on_node(scenario)
