"""The errors of RabbitMQ's broker."""

import inspect

from sprocket.base.errors import SprocketError
from sprocket.rabbitmq import errors
from sprocket.rabbitmq.errors import RequestRefused


def test_every_error_is_one_of_ours_and_in_the_tree() -> None:
    """Each class is a `SprocketError`, and the drawing at the head names it."""
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert classes
    for kind in classes:
        assert issubclass(kind, SprocketError)
        assert kind.__name__ in (errors.__doc__ or "")


def test_refusals_carry_their_code() -> None:
    """AMQP's reply code and one sentence."""
    refused = RequestRefused(404, "no queue 'q'")
    assert (refused.code, refused.remark) == (404, "no queue 'q'")
    assert str(refused) == "no queue 'q' (code 404)"
