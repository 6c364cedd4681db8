"""An order is in the database if, and only if, its message can be consumed; whoever dies when."""

import json
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
from fastapi.testclient import TestClient
from tests.waits import LONG_SECONDS

from examples.outbox.application import GROUP, TOPIC, Order, Shop, create_app
from sprocket.rocketmq.client.blocking import (
    Admin,
    Message,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from sprocket.rocketmq.errors import NoSuchGroup
from sprocket.testing.local_broker import LocalBroker

CHECK_SECONDS = 40.0
"""After so long a broker asks about what it knows nothing of."""


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """Run a broker in this process."""
    with LocalBroker() as running:
        yield running


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Return a shop with 100 bolts in stock."""
    found = Shop(tmp_path / "shop.db")
    found.supply("bolts", 100)
    return found


def ordered(broker: LocalBroker) -> list[int]:
    """Return how many were ordered with each message that consumers see."""
    broker.settle()
    return [json.loads(one.body)["count"] for one in broker.messages(TOPIC)]


def ask(broker: LocalBroker) -> None:
    """Have a broker ask, once it knows somebody in the group."""
    with Admin(broker.nameserver) as admin:
        while True:
            try:
                if admin.group.producers(GROUP):
                    break
            except NoSuchGroup:
                pass
    broker.advance(seconds=CHECK_SECONDS)


def left_by_a_dead_one(broker: LocalBroker, shop: Shop, *, is_taken: bool) -> None:
    """Do what a service does that dies before it tells the broker, after or before its commit."""
    order = Order(what="bolts", count=7)

    def never(_: ReceivedMessage) -> TransactionState:
        raise AssertionError("the dead are not asked")

    with TransactionProducer(broker.nameserver, group=GROUP, check=never) as producer:
        transaction = producer.begin(Message(TOPIC, json.dumps(order.model_dump()).encode()))
        if is_taken:
            assert shop.take(order, transaction.message_id)


def test_an_order_and_its_message(broker: LocalBroker, shop: Shop) -> None:
    """Both, or none if there is not enough; nobody is asked then."""
    with TestClient(create_app(broker.nameserver, shop.path)) as client:
        answer = client.post("/orders", json={"what": "bolts", "count": 42})
        assert answer.status_code == 201
        assert client.post("/orders", json={"what": "bolts", "count": 59}).status_code == 409
        assert client.get("/stock/bolts").json() == {"count": 58}
        assert ordered(broker) == [42]
        (message,) = broker.messages(TOPIC)
        assert message.message_id == answer.json()["message_id"]
        ask(broker)
        assert ordered(broker) == [42]


def test_a_service_that_died_after_its_commit(broker: LocalBroker, shop: Shop) -> None:
    """The one that is started next is asked, finds the row, and consumers get the message once."""
    left_by_a_dead_one(broker, shop, is_taken=True)
    assert ordered(broker) == []
    with TestClient(create_app(broker.nameserver, shop.path)) as client:
        ask(broker)
        while not ordered(broker):
            pass
        ask(broker)
        assert ordered(broker) == [7]
        assert client.get("/stock/bolts").json() == {"count": 93}


def test_a_service_that_died_before_its_commit(broker: LocalBroker, shop: Shop) -> None:
    """Nobody hears of an order that is in no database, once it is certain that none will come."""
    left_by_a_dead_one(broker, shop, is_taken=False)
    said: SimpleQueue[TransactionState] = SimpleQueue()
    ages_ms = [10**9, 0]

    def check(message: ReceivedMessage) -> TransactionState:
        state = Shop(shop.path, ages_ms.pop(0)).check(message)
        said.put(state)
        return state

    with TransactionProducer(broker.nameserver, group=GROUP, check=check):
        for expected in (TransactionState.UNKNOWN, TransactionState.ROLLBACK):
            ask(broker)
            assert said.get(timeout=LONG_SECONDS) is expected
    assert ordered(broker) == []


def test_an_order_that_fails_takes_nothing(broker: LocalBroker, shop: Shop) -> None:
    """An error in the middle of the database's transaction leaves neither stock nor order."""
    app = create_app(broker.nameserver, shop.path)
    with shop.connect() as database, database:
        database.execute("DROP TABLE outbox")
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.post("/orders", json={"what": "bolts", "count": 1}).status_code == 500
        assert client.get("/stock/bolts").json() == {"count": 100}
        assert ordered(broker) == []
