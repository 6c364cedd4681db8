"""Where a topic lies."""

from sprocket.rocketmq.model.route import MessageQueue


def test_queues_are_ordered_as_clients_share_them_out() -> None:
    """By topic, then broker, then number; equal ones are one key."""
    queues = [
        MessageQueue("t", "b", 10),
        MessageQueue("t", "b", 2),
        MessageQueue("t", "a", 11),
        MessageQueue("s", "z", 99),
    ]
    assert [(queue.topic, queue.broker_name, queue.queue_id) for queue in sorted(queues)] == [
        ("s", "z", 99),
        ("t", "a", 11),
        ("t", "b", 2),
        ("t", "b", 10),
    ]
    assert len({*queues, MessageQueue("t", "b", 2)}) == 4
