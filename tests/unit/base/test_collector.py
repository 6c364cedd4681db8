"""The garbage collector is out of the way, and back again."""

import gc

import pytest

from sprocket.base.collector import uncollected


def test_the_collector_rests_and_goes_on_as_it_was() -> None:
    """Also after an error; who had switched it off finds it off."""
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), uncollected():
        1 / gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
