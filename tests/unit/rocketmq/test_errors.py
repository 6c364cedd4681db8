"""The errors of RocketMQ's broker and clients."""

import inspect
from enum import Enum

from sprocket.base.errors import SprocketError
from sprocket.rocketmq import errors


def test_every_error_is_one_of_ours_and_in_the_tree() -> None:
    """Each class is a `SprocketError`, and the drawing at the head names it."""
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    classes = [
        kind
        for kind in classes
        if kind.__module__ == errors.__name__ and not issubclass(kind, Enum)
    ]
    assert classes
    for kind in classes:
        assert issubclass(kind, SprocketError)
        assert kind.__name__ in (errors.__doc__ or "")
