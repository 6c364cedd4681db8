"""Settings of a store: defaults inside their ranges, bad values refused, a small form."""

import msgspec
import pytest

from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import RetentionSettings, StoreSettings


def test_small_messages_fit_a_small_log() -> None:
    """The small preset goes with the small geometry."""
    assert StoreSettings.small().message_bytes_max < Geometry.small().log.segment_bytes


@pytest.mark.parametrize(
    ("group", "value"),
    [
        (StoreSettings, {"flush": "never"}),
        (StoreSettings, {"message_bytes_max": 0}),
        (RetentionSettings, {"clean_hours": [24]}),
        (RetentionSettings, {"clean_percent": 101}),
    ],
)
def test_out_of_range_is_refused(group: type, value: dict[str, object]) -> None:
    """The ranges are msgspec's to check."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, group)
