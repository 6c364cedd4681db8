"""The blocking admin has every method of the awaited one."""

from typing import Any

from sprocket.rocketmq.client.blocking import Admin, Producer
from sprocket.rocketmq.model.message import Message


def test_every_method_has_its_twin(world: Any, names: str) -> None:
    """What the awaited admin says, the blocking one does."""
    with Admin(names) as looking:
        looking.create_topic("t", 1)
        with Producer(names) as sender:
            sent = sender.send(Message("t", b"x", keys=["k"]))
        (queue,) = looking.queues("t")
        assert looking.topics() == ["t"]
        assert list(looking.cluster().brokers) == ["b"]
        assert len(looking.route("t").queues) == 1
        assert (looking.min_offset(queue), looking.max_offset(queue)) == (0, 1)
        assert looking.offset_by_time(queue, 0) == 0
        assert [one.body for one in looking.query_by_key("t", "k")] == [b"x"]
        found = looking.view(sent.message_id, "t")
        assert found is not None
        assert found.body == b"x"
