"""The files that docs/guides/cluster.md shows are files that are understood."""

import re
from dataclasses import fields
from pathlib import Path

from sprocket.base import settings as loader
from sprocket.rocketmq import aliases
from sprocket.rocketmq.settings import LimitSettings, ServerSettings, Settings

PAGE = (Path(__file__).resolve().parents[3] / "docs/guides/cluster.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_settings_are_settings() -> None:
    """Of ours."""
    broker, tls = (loader.load(Settings, file_text=text).root for text in blocks("toml"))
    assert broker.broker.nameservers == ("127.0.0.1:9876", "127.0.0.1:9877")
    assert tls.tls.mode == "permissive"


def test_the_broker_conf_is_one() -> None:
    """And what is said to be ignored is."""
    (text,) = blocks("properties")
    found = aliases.read_broker_conf(text, "b.conf")
    assert found.ignored == ("haMaxTimeSlaveNotCatchup",)
    settings = loader.load(Settings, values=found.values).root
    assert (settings.broker.name, settings.server.broker_port) == ("broker-b", 10931)


def test_the_limits_are_settings() -> None:
    """By the names they have."""
    names = {one.name for group in (LimitSettings, ServerSettings) for one in fields(group)}
    told = set(re.findall(r"`(\w+_(?:max|high|seconds))`", PAGE.split("## Limits")[1]))
    assert told
    assert told <= names
