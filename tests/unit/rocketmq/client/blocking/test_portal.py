"""A blocking client begins and ends like any resource."""

from sprocket.rocketmq.client.blocking import Producer


def test_closing_twice_is_allowed(names: str) -> None:
    """The second close does nothing."""
    sender = Producer(names)
    sender.start()
    sender.close()
    sender.close()
