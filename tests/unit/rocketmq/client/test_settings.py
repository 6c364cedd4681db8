"""Settings describe themselves and their defaults are within their ranges."""

import dataclasses
import typing

import msgspec
import pytest

from sprocket.base import settings as loader
from sprocket.rocketmq.client import ClientSettings, ConsumerSettings, ProducerSettings

GROUPS = [ClientSettings, ConsumerSettings, ProducerSettings]


@pytest.mark.parametrize("group", GROUPS)
def test_every_field_has_a_sentence_and_a_legal_default(group: type) -> None:
    """`msgspec` takes the defaults back, and each field says what it does."""
    hints = typing.get_type_hints(group, include_extras=True)
    told = loader.descriptions(group)
    for field in dataclasses.fields(group):
        assert told[field.name].endswith(".")
        assert field.default == msgspec.convert(field.default, hints[field.name])
        if type(field.default) is int:
            assert any(field.name.endswith(unit) for unit in UNITS), field.name


UNITS = (
    "_ms",
    "_ms_max",
    "_bytes_max",
    "_bytes_min",
    "_messages_max",
    "_max",
    "_refused",
    "_queues",
    "_level",
    "concurrency",
)
