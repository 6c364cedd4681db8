"""Producers over gRPC: routes, settings, transactions, and messages that are taken back."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tests.grpc_client import GrpcClient, message, producer_settings
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.grpc.message_in import MessageType
from sprocket.rocketmq.codec.grpc.messages import (
    Address,
    Endpoints,
    EndTransactionRequest,
    QueryRouteRequest,
    RecallMessageRequest,
    Resource,
    Settings,
    Subscription,
    TelemetryCommand,
    UpdateOffsetRequest,
)
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import ServerSettings, TransactionSettings

OnGrpc = Callable[..., None]
COMMIT, ROLLBACK = 1, 2
CHECKED = 2


def bodies(lab: Any, topic: str = "T") -> list[bytes]:
    """Return the bodies of a topic's messages."""
    found = [record.decode(one) for _, one in lab.broker.store.records()]
    return [one.body for one in found if one.topic == topic]


def test_a_route_names_the_address_of_the_client(on_grpc: OnGrpc) -> None:
    """As the client wrote it; each queue by its own number."""

    async def scenario(lab: Any) -> None:
        lab.make_topic(queues=3)
        answer = await lab.client.route("T")
        assert answer.status.code == Code.OK
        queues = answer.message_queues
        assert [one.id for one in queues] == [0, 1, 2]
        assert {one.permission for one in queues} == {4}
        assert {one.topic.name for one in queues} == {"T"}
        assert {(one.broker.name, one.broker.id) for one in queues} == {("broker-a", 0)}
        assert all(one.broker.endpoints == lab.client.endpoints for one in queues)
        assert [*queues[0].accept_message_types] == [1, 2, 3, 4]
        port = lab.client.endpoints.addresses[0].port
        by_name = GrpcClient(f"localhost:{port}")
        by_name.endpoints = Endpoints(scheme=3, addresses=[Address(host="localhost", port=port)])
        answer = await by_name.route("T")
        await by_name.close()
        assert answer.message_queues[0].broker.endpoints == by_name.endpoints

    on_grpc(scenario)


def test_a_client_with_several_addresses_stays_where_it_is(on_grpc: OnGrpc) -> None:
    """It is named the one by which it has come."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        here = lab.client.endpoints.addresses[0]
        several = Endpoints(scheme=1, addresses=[Address(host="10.0.0.9", port=1), here])
        request = QueryRouteRequest(topic=Resource(name="T"), endpoints=several)
        answer = await lab.client.call("QueryRoute", request)
        assert [*answer.message_queues[0].broker.endpoints.addresses] == [here]
        nowhere = await lab.client.call("QueryRoute", QueryRouteRequest(topic=Resource(name="T")))
        assert nowhere.status.code == Code.ILLEGAL_ACCESS_POINT

    on_grpc(scenario)


def test_an_advertised_host_is_told_to_who_came_by_another_name(on_grpc: OnGrpc) -> None:
    """As behind a load balancer."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        lab.client.endpoints = Endpoints(scheme=3, addresses=[Address(host="balancer", port=8081)])
        answer = await lab.client.route("T")
        (address,) = answer.message_queues[0].broker.endpoints.addresses
        assert address.host == "localhost"

    server = ServerSettings(nameserver_port=0, broker_port=0, advertised_host="localhost")
    on_grpc(scenario, server=server)


def test_a_producer_is_told_what_to_go_by(on_grpc: OnGrpc) -> None:
    """At once, on its stream, and each time that it asks."""

    async def scenario(lab: Any) -> None:
        async with lab.client.telemetry(producer_settings("T", "U")) as stream:
            told = stream.first
            assert told.status.code == Code.OK
            assert told.settings.publishing.max_body_size == 4 * 1024 * 1024
            assert told.settings.publishing.validate_message_type
            assert [one.name for one in told.settings.publishing.topics] == ["T", "U"]
            backoff = told.settings.backoff_policy
            assert backoff.max_attempts == 3
            assert backoff.exponential_backoff.multiplier == 2
            assert next(iter(lab.broker.members.producers("T").values())).client_id == "c1"
            await stream.write(TelemetryCommand(settings=producer_settings("T")))
            assert (await stream.read()).settings.publishing.topics[0].name == "T"
            assert not lab.broker.members.producers("U")

    on_grpc(scenario)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        (Settings(client_type=1), grpc.StatusCode.INVALID_ARGUMENT),
        (producer_settings("a b"), grpc.StatusCode.INVALID_ARGUMENT),
        (
            Settings(client_type=2, subscription=Subscription(group=Resource(name=" "))),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
    ],
)
def test_a_stream_with_wrong_settings_ends(
    on_grpc: OnGrpc, settings: Settings, code: grpc.StatusCode
) -> None:
    """With an error of gRPC, as there is no answer that could have a status."""

    async def scenario(lab: Any) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            async with lab.client.telemetry(settings):
                pass
        assert failed.value.code() is code

    on_grpc(scenario)


def test_what_the_proxy_does_not_serve_is_not_served(on_grpc: OnGrpc) -> None:
    """As an error of gRPC."""

    async def scenario(lab: Any) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await lab.client.call("UpdateOffset", UpdateOffsetRequest())
        assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED

    on_grpc(scenario)


async def half(lab: Any, body: bytes) -> str:
    """Send a message of a transaction, and return the transaction's id."""
    sent = message("T", body, body.decode().upper(), message_type=MessageType.TRANSACTION)
    answer = await lab.client.send(sent)
    assert answer.status.code == Code.OK
    return str(answer.entries[0].transaction_id)


async def end(lab: Any, transaction: str, resolution: int, source: int = 1) -> Any:
    """Say how a transaction ended."""
    request = EndTransactionRequest(
        topic=Resource(name="T"),
        message_id="M",
        transaction_id=transaction,
        resolution=resolution,
        source=source,
    )
    return await lab.client.call("EndTransaction", request)


def test_a_transaction_ends_as_its_producer_says(on_grpc: OnGrpc) -> None:
    """Committed it is consumed, rolled back it is not."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        first, second = await half(lab, b"a"), await half(lab, b"b")
        assert bodies(lab) == []
        assert (await end(lab, first, COMMIT)).status.code == Code.OK
        assert (await end(lab, second, ROLLBACK)).status.code == Code.OK
        assert bodies(lab) == [b"a"]
        assert (await end(lab, first, COMMIT)).status.code == Code.INTERNAL_SERVER_ERROR

    on_grpc(scenario)


def test_ids_of_transactions_that_are_none(on_grpc: OnGrpc) -> None:
    """And an unknown outcome, which changes nothing."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        known = await half(lab, b"a")
        for text in ("", " ", "x", "x.1", "x.y.z"):
            assert (await end(lab, text, COMMIT)).status.code == Code.INVALID_TRANSACTION_ID
        assert (await end(lab, "x.0.99999999", COMMIT)).status.code == Code.INTERNAL_SERVER_ERROR
        assert (await end(lab, known, 0)).status.code == Code.OK
        assert bodies(lab) == []

    on_grpc(scenario)


def test_a_producer_is_asked_how_its_transaction_ended(on_grpc: OnGrpc) -> None:
    """Any of the topic, on its stream; also after the one that has sent it is gone."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        await half(lab, b"a")
        other = lab.another("c2")
        async with other.telemetry(producer_settings("T")) as stream:
            lab.advance(7)
            lab.broker.check_halves()
            async with asyncio.timeout(LONG_SECONDS):
                asked = await stream.read()
            command = asked.recover_orphaned_transaction_command
            got = command.message
            assert (got.body, got.system_properties.message_id) == (b"a", "A")
            assert (got.topic.name, got.system_properties.message_type) == ("T", 4)
            answer = await end(lab, command.transaction_id, COMMIT, CHECKED)
            assert answer.status.code == Code.OK
            assert bodies(lab) == [b"a"]

    on_grpc(scenario, transactions=TransactionSettings(check_interval_ms=3_600_000))


def test_a_message_that_waits_is_taken_back(on_grpc: OnGrpc) -> None:
    """By its handle; another handle is refused."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        sent = message("T", b"later", "K", message_type=MessageType.DELAY)
        sent.system_properties.delivery_timestamp.FromMilliseconds(lab.clock.now_ms() + 60_000)
        handle = (await lab.client.send(sent)).entries[0].recall_handle

        async def recall(text: str) -> Any:
            request = RecallMessageRequest(topic=Resource(name="T"), recall_handle=text)
            return await lab.client.call("RecallMessage", request)

        answer = await recall(handle)
        assert (answer.status.code, answer.message_id) == (Code.OK, "K")
        assert (await recall("x")).status.code == Code.INTERNAL_SERVER_ERROR

    on_grpc(scenario)
