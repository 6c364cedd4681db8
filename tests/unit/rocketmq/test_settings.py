"""Groups of settings are frozen, in range, and have small forms."""

import dataclasses
import typing

import msgspec
import pytest

from sprocket.base import settings as loader
from sprocket.rocketmq import settings
from sprocket.rocketmq.geometry import Geometry, IndexGeometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.settings import Settings, StoreSettings


def test_small_is_small() -> None:
    """Every file of the small geometry fits into a page or two."""
    small = Geometry.small()
    assert small.log.segment_bytes == 4096
    assert small.queue.file_bytes == 200
    assert small.index.file_bytes == 868
    assert StoreSettings.small().message_bytes_max < small.log.segment_bytes


@pytest.mark.parametrize("group", [StoreSettings, QueueGeometry, IndexGeometry])
def test_every_field_says_what_it_does(group: type) -> None:
    """The description is what `sprocket settings` prints, a sentence."""
    told = loader.descriptions(group)
    assert [name for name in typing.get_type_hints(group) if not told[name].endswith(".")] == []


def test_out_of_range_is_refused_on_loading() -> None:
    """The ranges are msgspec's to check."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"units": 1}, IndexGeometry)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"flush": "never"}, StoreSettings)


def test_settings_do_not_change() -> None:
    """A component can keep what it was given."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.StoreSettings().flush = "async"  # type: ignore[misc]


def test_every_default_is_inside_its_own_limits() -> None:
    """Loading without a source gives the defaults, and each passes its own check."""
    loaded = loader.load(
        Settings,
        overrides=[
            f"{one.full_name}={one.default}"
            for one in loader.declarations(Settings)
            if not isinstance(one.default, bool | tuple)
        ],
    )
    assert Settings() == loaded.root


def test_every_setting_says_what_it_does() -> None:
    """No field is without a description."""
    told = {
        name: loader.descriptions(group) for name, group in typing.get_type_hints(Settings).items()
    }
    without = [
        one.full_name for one in loader.declarations(Settings) if not told[one.group][one.name]
    ]
    assert without == []


def test_small_presets_are_small() -> None:
    """The presets for tests make files that roll after a few messages."""
    assert Geometry.small().log == LogGeometry.small()
    assert Geometry.small().log.segment_bytes < 10_000
    assert StoreSettings.small().message_bytes_max < Geometry.small().log.segment_bytes
    assert Geometry.small().queue.file_bytes == 20 * Geometry.small().queue.units_per_file
    assert Geometry.small().index.file_bytes > 0


def test_the_geometry_is_made_of_its_groups() -> None:
    """`Settings.geometry` carries what the three groups say."""
    assert Settings(log=LogGeometry(segment_bytes=4096)).geometry.log.segment_bytes == 4096
