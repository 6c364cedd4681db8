"""Limits on connections and channels."""

import pytest

from sprocket.rabbitmq.broker.access import Admissions
from sprocket.rabbitmq.codec.amqp import ReplyCode
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.user import User
from sprocket.rabbitmq.model.vhost import Vhost

OPEN = Vhost(name="open", limits={"max-connections": -1})


def refusal(attempt: object, *arguments: object) -> tuple[int, str]:
    """Return code and text with which something is refused."""
    assert callable(attempt)
    with pytest.raises(RequestRefused) as refused:
        attempt(*arguments)
    return refused.value.code, refused.value.remark


def test_a_virtual_host_has_so_many_connections() -> None:
    """Whoever's they are; one that leaves makes room."""
    admissions = Admissions()
    vhost = Vhost(name="v", limits={"max-connections": 2})
    admissions.enter(User(name="a"), vhost)
    admissions.enter(User(name="b"), vhost)
    text = "access to vhost 'v' refused for user 'c': connection limit (2) is reached"
    assert refusal(admissions.enter, User(name="c"), vhost) == (ReplyCode.NOT_ALLOWED, text)
    admissions.enter(User(name="c"), OPEN)
    admissions.leave("a", "v")
    admissions.enter(User(name="c"), vhost)


def test_a_user_has_so_many_connections() -> None:
    """In all virtual hosts together."""
    admissions = Admissions()
    user = User(name="u", limits={"max-connections": 1})
    admissions.enter(user, OPEN)
    text = "connection refused for user 'u': user connection limit (1) is reached"
    assert refusal(admissions.enter, user, Vhost(name="v")) == (ReplyCode.NOT_ALLOWED, text)
    admissions.leave("u", "open")
    admissions.enter(user, Vhost(name="v"))


def test_a_user_has_so_many_channels() -> None:
    """On all connections together."""
    admissions = Admissions()
    user = User(name="u", limits={"max-channels": 1})
    admissions.open_channel(user)
    text = (
        "number of channels opened for user 'u' has reached the maximum allowed user limit of (1)"
    )
    assert refusal(admissions.open_channel, user) == (ReplyCode.NOT_ALLOWED, text)
    admissions.open_channel(User(name="other"))
    admissions.close_channel("u")
    admissions.open_channel(user)


def test_a_limit_of_zero_lets_nobody_in() -> None:
    """Unlike a negative one, which is none."""
    admissions = Admissions()
    refusal(admissions.enter, User(name="a"), Vhost(name="v", limits={"max-connections": 0}))
    admissions.enter(User(name="a"), OPEN)
