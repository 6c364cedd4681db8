"""What a channel has not answered yet when it ends."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rabbit_channels import Pier

from sprocket.base.audit import Actor
from sprocket.rabbitmq.broker.access import Unlimited
from sprocket.rabbitmq.broker.publishing import Publisher
from sprocket.rabbitmq.broker.topology import Requester
from sprocket.rabbitmq.codec.amqp import methods
from sprocket.rabbitmq.codec.amqp.methods import AmqpMethod
from sprocket.rabbitmq.model.user import User
from sprocket.rabbitmq.server.handlers import ChannelMethods


class Waits:
    """Writes down what a channel says, and what it has its client wait for."""

    def __init__(self) -> None:
        self.number = 1
        self.is_ready = True
        self.sent: list[AmqpMethod] = []
        self.under_way = 0

    def send(self, method: AmqpMethod) -> None:
        """See `session.Replies`."""
        self.sent.append(method)

    def wait_for(self, begin: Callable[[Callable[[], None]], None]) -> None:
        """See `session.Replies`."""
        self.under_way += 1
        begin(self._ended)

    def _ended(self) -> None:
        self.under_way -= 1


@pytest.mark.parametrize("closes", [False, True])
def test_a_client_waits_for_a_commit_until_its_channel_ends(closes: bool) -> None:
    """A channel that was closed does not answer, and holds nobody."""
    pier = Pier()
    pier.commits.is_holding = True
    vhost: Any = SimpleNamespace(
        name="/",
        topology=None,
        turns=pier.turns,
        commits=pier.commits,
        replies=pier.replies,
        note_write=lambda: None,
        count_closed=lambda _: None,
    )
    replies: Any = Waits()
    actor = Actor(through="amqp", peer="here", user="ann")
    access = Unlimited()
    publisher = Publisher(User(name="ann"), access)
    closed: list[ChannelMethods] = []
    channel = ChannelMethods(
        vhost,
        Requester(access),
        publisher,
        replies,
        frozenset(),
        pier.clock,
        closed.append,
        actor,
    )
    channel.called(methods.TxSelect())
    channel.called(methods.TxCommit())
    pier.settle()
    assert (replies.under_way, replies.sent) == (1, [methods.TxSelectOk()])
    if closes:
        for _ in channel.close_in_turns():
            pass
        assert (replies.under_way, closed) == (0, [channel])
    pier.commits.commit()
    assert replies.under_way == 0
    assert replies.sent[1:] == ([] if closes else [methods.TxCommitOk()])
