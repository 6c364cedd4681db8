"""Calls over gRPC to a broker with rights, and over TLS."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from tests import certificates
from tests.grpc_client import GrpcClient, consumer_settings, message
from tests.waits import LONG_SECONDS

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.model.rights import (
    AclPolicy,
    AclResource,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    ResourceType,
)
from sprocket.rocketmq.server.grpc.guard import sign, signature_of, user_of
from sprocket.rocketmq.settings import GrpcSettings, RightsSettings, TlsSettings

OnGrpc = Callable[..., None]
AT: Final = "20261120T055820Z"
RIGHTS: Final = RightsSettings(
    authentication=True,
    authorization=True,
    initial_user="root",
    initial_password="root-secret",  # noqa: S106 - of a test
)


def signed(lab: Any, client_id: str, name: str, secret: str, at: str = AT) -> GrpcClient:
    """Return a client that signs its calls."""
    header = f"MQv2-HMAC-SHA1 Credential={name}/x/y, SignedHeaders=x-mq-date-time, "
    header += f"Signature={sign(secret, at).upper()}"
    client: GrpcClient = lab.another(client_id, authorization=header, x_mq_date_time=at)
    return client


async def done(start: Callable[[Callable[[Any], None]], object]) -> None:
    """Start something and wait until it is done."""
    loop = asyncio.get_running_loop()
    is_done: asyncio.Future[None] = loop.create_future()
    start(lambda error: is_done.set_result(None) if error is None else is_done.set_exception(error))
    await asyncio.wait_for(is_done, LONG_SECONDS)


async def make_user(lab: Any, name: str, *entries: tuple[ResourceType, str, Action]) -> None:
    """Make a user with the password `name-secret`, who may do this alone."""
    rights = lab.broker.rights
    await done(lambda told: rights.users.put(AclUser(name, f"{name}-secret"), told))
    made = [
        PolicyEntry(resource=AclResource(kind, what), actions=(action,), decision=Decision.ALLOW)
        for kind, what, action in entries
    ]
    policy = AclPolicy(PolicyType.CUSTOM, made)
    await done(lambda told: rights.acls.put(f"User:{name}", [policy], told))


def test_a_signature_is_that_of_the_protocol() -> None:
    """As the official client for Python has sent it."""
    assert sign("sk", AT) == "0722d1457b5df500311ca96aeebe54c9d77fc77d"
    header = "MQv2-HMAC-SHA1 Credential=ak/r/s, SignedHeaders=x-mq-date-time, Signature=AB"
    assert signature_of(header)["Signature"] == "AB"
    assert user_of(signature_of(header)) == "ak"
    for text in ("", "MQv2-HMAC-SHA1", "x y z", "MQv2 Credential=,"):
        assert user_of(signature_of(text)) == ""


def test_a_call_must_be_signed(on_grpc: OnGrpc, tmp_path: Path) -> None:
    """By a user, with their password, over the time that it names."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        root = signed(lab, "c2", "root", "root-secret")
        assert (await root.send(message("T", b"x"))).status.code == Code.OK
        for name, secret, at in (
            ("root", "wrong", AT),
            ("nobody", "root-secret", AT),
            ("root", "root-secret", ""),
        ):
            wrong = signed(lab, "c3", name, secret, at)
            assert (await wrong.send(message("T", b"x"))).status.code == Code.UNAUTHORIZED
        assert (await lab.client.send(message("T", b"x"))).status.code == Code.UNAUTHORIZED
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            async with lab.client.telemetry(consumer_settings("g", "T")):
                pass
        assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED

    on_grpc(scenario, disk=RealDisk(), folder=str(tmp_path / "store"), rights=RIGHTS)


def test_a_user_does_what_they_may(on_grpc: OnGrpc, tmp_path: Path) -> None:
    """On topics and groups, as over remoting."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        await make_user(lab, "alice", (ResourceType.TOPIC, "T", Action.PUB))
        await make_user(
            lab,
            "bob",
            (ResourceType.TOPIC, "T", Action.SUB),
            (ResourceType.GROUP, "g", Action.SUB),
        )
        alice = signed(lab, "a", "alice", "alice-secret")
        bob = signed(lab, "b", "bob", "bob-secret")
        assert (await alice.route("T")).status.code == Code.OK
        assert (await alice.send(message("T", b"x"))).status.code == Code.OK
        assert (await bob.send(message("T", b"x"))).status.code == Code.FORBIDDEN
        assert (await alice.receive("T", "g")).code is Code.FORBIDDEN
        async with asyncio.timeout(LONG_SECONDS):
            while not (found := (await bob.receive("T", "g")).messages):
                await asyncio.sleep(0.01)
        assert (await bob.ack("T", "other", *found)).status.code == Code.FORBIDDEN
        assert (await bob.ack("T", "g", *found)).status.code == Code.OK
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            async with bob.telemetry(consumer_settings("other", "T")):
                pass
        assert failed.value.code() is grpc.StatusCode.PERMISSION_DENIED

    on_grpc(scenario, disk=RealDisk(), folder=str(tmp_path / "store"), rights=RIGHTS)


def test_tls_and_plain_clients_use_one_port(on_grpc: OnGrpc, tmp_path: Path) -> None:
    """A client of gRPC goes on only if HTTP/2 was agreed upon."""
    made = certificates.make(tmp_path)

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        trusted = grpc.ssl_channel_credentials(Path(made.cert).read_bytes())
        encrypted = lab.another("c2")
        await encrypted.channel.close()
        encrypted.channel = grpc.aio.secure_channel(lab.node.addresses.grpc, trusted)
        assert (await encrypted.send(message("T", b"x"))).status.code == Code.OK
        assert (await lab.client.send(message("T", b"x"))).status.code == Code.OK

    tls = TlsSettings(mode="permissive", cert_path=made.cert, key_path=made.key)
    on_grpc(scenario, tls=tls, grpc=GrpcSettings(port=0))
