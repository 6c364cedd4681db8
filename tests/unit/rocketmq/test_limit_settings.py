"""Limits of the network fit each other."""

from sprocket.rocketmq.settings import LimitSettings


def test_the_defaults_fit_each_other() -> None:
    """What one connection may take is a part of what all may."""
    limits = LimitSettings()
    assert limits.answer_bytes_high < limits.answer_bytes_max < limits.all_answer_bytes_max
    assert limits.connection_unsynced_bytes_max < limits.unsynced_bytes_max // 2
