"""What was counted is seen for as long as its window lasts."""

import weakref
from typing import TypeVar

from sprocket.base.meters import Count, Meter

K = TypeVar("K")


def rolled(meter: Meter[K], times: int) -> None:
    """Let time pass, ten seconds each."""
    for _ in range(times):
        meter.roll(10)


def test_windows_have_their_spans() -> None:
    """A minute, an hour, a day; then it is forgotten."""
    meter: Meter[str] = Meter()
    meter.add("a", 5, 100)
    meter.add("a", 1, 20)
    assert meter.day.find("a") is None
    rolled(meter, 1)
    expected = Count(2, 6, 120)
    assert meter.minute.find("a") == meter.hour.find("a") == meter.day.find("a") == expected
    assert (meter.minute.seconds, meter.day.seconds) == (10, 10)
    rolled(meter, 5)
    assert meter.minute.find("a") == expected
    rolled(meter, 1)
    assert (meter.minute.find("a"), meter.hour.find("a")) == (None, expected)
    assert meter.minute.seconds == 60
    rolled(meter, 360)
    assert (meter.hour.find("a"), meter.day.find("a")) == (None, expected)
    rolled(meter, 8640)
    assert meter.day.find("a") is None
    assert meter.day.seconds <= 86_400


def test_totals_are_those_of_all_keys() -> None:
    """Also of keys that were forgotten since."""
    meter: Meter[str] = Meter()
    meter.add("a", 1, 10)
    meter.roll(10)
    meter.add("b", 2, 20)
    meter.roll(10)
    meter.add("a", 4, 40)
    meter.forget(lambda key: key == "a")
    meter.roll(10)
    assert meter.minute.find("a") is None
    assert meter.minute.find("b") == Count(1, 2, 20)
    assert meter.minute.total() == Count(2, 3, 30)


def test_idle_keys_take_no_room() -> None:
    """Only buckets in which something was counted have them."""

    class Key:
        pass

    meter: Meter[Key] = Meter()
    meter.add(key := Key(), 1, 1)
    left = weakref.ref(key)
    del key
    assert left() is not None
    rolled(meter, 10_000)
    assert left() is None
