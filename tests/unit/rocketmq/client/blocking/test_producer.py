"""The blocking producer does what the awaited one does, from any thread."""

from typing import Any

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.blocking import Producer
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.model.message import Message


def test_sends_of_every_kind(world: Any, names: str) -> None:
    """One by one, soon, as a batch, one-way; errors are raised where they belong."""
    world.cluster.topics["t"] = 1
    with Producer(names, settings=ProducerSettings(unanswered_messages_max=4)) as sender:
        assert sender.send(Message("t", b"0"), sharding_key="k").queue_offset == 0
        futures = [sender.send_soon(Message("t", b"%d" % n), sharding_key="k") for n in range(20)]
        assert [one.result(10).queue_offset for one in futures] == list(range(1, 21))
        batch = sender.send_batch([Message("t", b"a"), Message("t", b"b")], sharding_key="k")
        assert [one.queue_offset for one in batch] == [21, 22]
        sender.send_oneway(Message("t", b"last"))
        with pytest.raises(InvalidMessage):
            sender.send(Message("t", b""))
        with pytest.raises(InvalidMessage):
            sender.send_soon(Message("", b"x"))
        sender.flush()
