"""The official Java client with `-Dtls.enable=true`, against a node that takes nothing else."""

import asyncio
import ssl
from pathlib import Path

import pytest
from tests import certificates
from tests.interop import peers, samples
from tests.interop.both import Peer
from tests.interop.java_client import JavaClient

from sprocket.rocketmq.client import Admin, ClientSettings

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-java"),
]

TOPIC = "InteropTls"


def test_java_sends_and_consumes_encrypted(
    java: JavaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 messages in three ways; those of a tag reach a push consumer. Plain is refused."""
    made = certificates.make(tmp_path)
    options = [
        *("--set", "tls.mode=enforcing", "--set", f"tls.cert_path={made.cert}"),
        *("--set", f"tls.key_path={made.key}", "--flush", "async"),
    ]
    with peers.Sprocket(tmp_path, tmp_path / "store", options) as ours:
        context = ssl.create_default_context(cafile=made.cert)

        async def create() -> None:
            client = ClientSettings(tls=context)
            async with Admin(ours.nameserver, client=client) as admin:
                await admin.create_topic(TOPIC, queues=4)

        asyncio.run(create())
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dtls.enable=true")
        messages = samples.three_thousand(TOPIC)
        wanted = samples.tagged(messages, "A")
        consumer = java.start_consumer(
            ours.nameserver, TOPIC, "A", group="tls_group", count=len(wanted)
        )
        sent = java.send(ours.nameserver, messages)
        received = consumer.finish()
        assert {one.status for one in sent} == {"SEND_OK"}
        assert sorted(one.body for one in received) == sorted(messages[n].body for n in wanted)


def test_java_is_served_encrypted_beside_plain_clients_without_any_setting(
    java: JavaClient, peer: Peer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has a throw-away certificate, as RocketMQ makes one; all get the same messages."""

    async def create() -> None:
        async with Admin(peer.nameserver) as admin:  # plain
            await admin.create_topic(topic, queues=4)

    asyncio.run(create())
    messages = samples.three_thousand(topic)[:200]
    wanted = samples.tagged(messages, "A")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dtls.enable=true")
    consumer = java.start_consumer(
        peer.nameserver, topic, "A", group=f"encrypted_{topic}", count=len(wanted)
    )
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dtls.enable=false")
    plain = java.start_consumer(
        peer.nameserver, topic, "A", group=f"plain_{topic}", count=len(wanted)
    )
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dtls.enable=true")
    sent = java.send(peer.nameserver, messages)
    assert {one.status for one in sent} == {"SEND_OK"}
    for received in (consumer.finish(), plain.finish()):
        assert sorted(one.body for one in received) == sorted(messages[n].body for n in wanted)
