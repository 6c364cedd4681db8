"""The service: an order is in the database if, and only if, its message reaches consumers.

The table `outbox` has the ids of the messages whose transactions have committed. A row of it is
written in the same database transaction as the order, so it is the one place that knows how the
transaction ended, whoever died meanwhile: the check asks it.

With PostgreSQL only `connect` and the place-holders change.
"""

import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, closing
from pathlib import Path

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, PositiveInt

from sprocket.rocketmq.client.blocking import (
    Message,
    ReceivedMessage,
    Transaction,
    TransactionProducer,
    TransactionState,
)

TOPIC, GROUP = "orders", "shop-orders"
"""The group keeps its name for ever: a broker asks its members about what earlier ones left."""

WORK_MS_MAX = 60_000
"""No request is at work for longer, in any process. Until then a row that is not there may still
come; after that it cannot."""

TABLES = """
CREATE TABLE IF NOT EXISTS stock (what TEXT PRIMARY KEY, count INTEGER NOT NULL CHECK (count >= 0));
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL, count INTEGER);
CREATE TABLE IF NOT EXISTS outbox (message_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL);
"""


class Order(BaseModel):
    """What a customer wants."""

    what: str
    count: PositiveInt


class Shop:
    """What the service does with its database.

    Args:
        path: The database.
        work_ms_max: See `WORK_MS_MAX`.
    """

    def __init__(self, path: Path, work_ms_max: int = WORK_MS_MAX) -> None:
        self.path = path
        self._work_ms_max = work_ms_max
        with self.connect() as database:
            database.executescript(TABLES)

    def connect(self) -> AbstractContextManager[sqlite3.Connection]:
        """Return a connection of this thread's own, for a `with`."""
        return closing(sqlite3.connect(self.path))

    def supply(self, what: str, count: int) -> None:
        """Put something into stock."""
        with self.connect() as database, database:
            row = "INSERT INTO stock VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + ?"
            database.execute(row, (what, count, count))

    def take(self, order: Order, message_id: str) -> bool:
        """Take an order, if there is enough; note its message in the same transaction."""
        with self.connect() as database, database:  # the second commits, or rolls back
            enough = "UPDATE stock SET count = count - ? WHERE what = ? AND count >= ?"
            if not database.execute(enough, (order.count, order.what, order.count)).rowcount:
                return False
            wanted = "INSERT INTO orders (what, count) VALUES (?, ?)"
            database.execute(wanted, (order.what, order.count))
            sent = (message_id, time.time_ns() // 1_000_000)
            database.execute("INSERT INTO outbox VALUES (?, ?)", sent)
            return True

    def check(self, message: ReceivedMessage) -> TransactionState:
        """Say how a transaction ended of which the broker has heard nothing."""
        with self.connect() as database:
            row = "SELECT 1 FROM outbox WHERE message_id = ?"
            if database.execute(row, (message.message_id,)).fetchone():
                return TransactionState.COMMIT
        age_ms = time.time_ns() // 1_000_000 - message.born_at_ms
        is_over = age_ms >= self._work_ms_max
        return TransactionState.ROLLBACK if is_over else TransactionState.UNKNOWN


def create_app(
    nameserver: str | None = None,
    path: Path | None = None,
    work_ms_max: int = WORK_MS_MAX,
) -> FastAPI:
    """Return the service; by default the environment says where broker and database are."""
    nameserver = nameserver or os.environ.get("SHOP_NAMESERVER", "127.0.0.1:9876")
    shop = Shop(path or Path(os.environ.get("SHOP_DATABASE", "shop.db")), work_ms_max)
    producer = TransactionProducer(nameserver, group=GROUP, check=shop.check)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with producer:
            yield

    app = FastAPI(lifespan=lifespan)
    app.state.shop, app.state.producer = shop, producer

    @app.post("/orders", status_code=201)
    def post_order(order: Order) -> dict[str, str]:
        """Take an order; FastAPI runs this in a thread, which may block."""

        def work(transaction: Transaction) -> TransactionState:
            is_taken = shop.take(order, transaction.message_id)
            return TransactionState.COMMIT if is_taken else TransactionState.ROLLBACK

        message = Message(TOPIC, json.dumps(order.model_dump()).encode())
        result = producer.send(message, work)
        if result.state is TransactionState.ROLLBACK:
            raise HTTPException(409, f"there are not {order.count} {order.what}")
        return {"message_id": result.sent.message_id}

    @app.get("/stock/{what}")
    def get_stock(what: str) -> dict[str, int]:
        """Say how much of something there is."""
        with shop.connect() as database:
            row = database.execute("SELECT count FROM stock WHERE what = ?", (what,)).fetchone()
        return {"count": row[0] if row else 0}

    return app
