"""Clients of a broker that wants signatures: all of them sign everything that they say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rocketmq.conftest import on_node  # noqa: F401

from sprocket.base.disk import RealDisk
from sprocket.base.errors import BrokerRefused
from sprocket.rocketmq.client import (
    Admin,
    ClientSettings,
    Message,
    Producer,
    ProducerSettings,
    Puller,
    SessionCredentials,
    TransactionProducer,
    TransactionState,
)
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import RightsSettings

ROOT = SessionCredentials("root", "root-secret")
SETTINGS = RightsSettings(
    authentication=True,
    authorization=True,
    initial_user=ROOT.access_key,
    initial_password=ROOT.secret_key,
)
Run = Callable[[Callable[[Any], Any]], None]


@pytest.fixture
def on_guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a scenario with a node that wants signatures."""
    run = request.getfixturevalue("on_node")

    def guarded(scenario: Callable[[Any], Any]) -> None:
        run(scenario, disk=RealDisk(), folder=str(tmp_path / "store"), rights=SETTINGS)

    return guarded


def test_producer_puller_and_admin_sign(on_guarded: Run) -> None:
    """Sends, batches, one-way sends, transactions, pulls, heartbeats, topics."""

    async def scenario(lab: Any) -> None:
        names = lab.node.addresses.nameserver
        client = ClientSettings(credentials=ROOT)
        async with Admin(names, client=client) as admin:
            await admin.create_topic("orders", queues=1)
        async with Producer(names, client=client) as producer:
            await producer.send(Message("orders", "ä".encode(), tag="ü", keys=["k"]))
            await producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
        async with TransactionProducer(
            names, group="p", check=lambda _: TransactionState.UNKNOWN, client=client
        ) as transactions:
            await transactions.send(Message("orders", b"3"), lambda _: TransactionState.COMMIT)
        async with Puller(names, client=client) as puller:
            found: list[bytes] = []
            (queue,) = await puller.queues("orders")
            while len(found) < 4:
                result = await puller.pull(queue, len(found), hold_ms=1000)
                found += [one.body for one in record.decode_all(result.body)]
        assert found == ["ä".encode(), b"1", b"2", b"3"]

    on_guarded(scenario)


def test_who_does_not_sign_or_not_rightly_is_refused(on_guarded: Run) -> None:
    """With the broker's own words."""

    async def scenario(lab: Any) -> None:
        names = lab.node.addresses.nameserver
        async with Admin(names, client=ClientSettings(credentials=ROOT)) as admin:
            await admin.create_topic("orders", queues=1)
        producer_settings = ProducerSettings(tries_when_refused=1)
        for credentials, expected in (
            (None, "username cannot be null"),
            (SessionCredentials("root", "wrong"), "check signature failed"),
            (SessionCredentials("nobody", "wrong"), "User:nobody is not found"),
        ):
            client = ClientSettings(credentials=credentials)
            async with Producer(names, client=client, settings=producer_settings) as producer:
                with pytest.raises(BrokerRefused, match=expected):
                    await producer.send(Message("orders", b"1"))

    on_guarded(scenario)
