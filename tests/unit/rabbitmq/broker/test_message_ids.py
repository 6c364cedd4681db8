"""Ids of messages; what else becomes of what a client publishes is tested through the server."""

from sprocket.rabbitmq.broker.message_ids import MessageIds


def test_ids_differ() -> None:
    """Of one life and of two, and have sixteen bytes."""
    one, other = MessageIds(), MessageIds()
    found = [ids.next() for ids in (one, other) for _ in range(1000)]
    assert {16} == {len(one) for one in found}
    assert len(set(found)) == len(found)
