"""A blocking client begins and ends like any resource."""

import threading

import pytest

from sprocket.base.errors import NotConnected
from sprocket.rocketmq.client.blocking import Admin, Client, Producer
from sprocket.rocketmq.model.message import Message


def test_closing_twice_is_allowed(names: str) -> None:
    """The second close does nothing."""
    sender = Producer(names)
    sender.start()
    sender.close()
    sender.close()


def test_what_is_not_open_says_so(names: str) -> None:
    """Neither a client of its own, nor one that shares a client that is not open."""
    with pytest.raises(NotConnected, match="the producer is not open; use `with`"):
        Producer(names).send(Message("t", b"x"))
    with pytest.raises(NotConnected, match="the client is not open; use `with`"):
        Admin(Client(names)).start()


def test_a_shared_client_has_one_thread_for_all(names: str) -> None:
    """It outlives those that use it."""
    before = threading.active_count()
    with Client(names) as client:
        with Producer(client) as sender, Admin(client) as looking:
            sender.send(Message("t", b"x"))
            assert looking.topics() == ["t"]
            assert threading.active_count() == before + 1
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
