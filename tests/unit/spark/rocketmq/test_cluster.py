"""The door to a live cluster."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests import certificates

from sprocket.base.errors import ClientError, SettingsError
from sprocket.rocketmq.client import ClientSettings, blocking, tls_context
from sprocket.rocketmq.settings import TlsSettings
from sprocket.spark.rocketmq.cluster import Door
from sprocket.spark.rocketmq.options import read_live
from sprocket.spark.rocketmq.stream import open_live
from sprocket.testing.local_broker import LocalBroker, small_settings


def test_nobody_there_is_said_at_once() -> None:
    """A question where nobody listens fails with a client's error, so that it can be put again."""
    puller = Door("127.0.0.1:1", 500).connect()
    try:
        with pytest.raises(ClientError):
            puller.queues("orders")
    finally:
        puller.close()


def test_an_address_that_cannot_be_read() -> None:
    """It is an error of the settings, which no waiting mends."""
    with pytest.raises(SettingsError):
        Door("nowhere", 500).connect()


def test_wait_comes_back() -> None:
    """Waiting blocks and ends."""
    Door("127.0.0.1:1", 500).wait(0.001)


@pytest.mark.slow
def test_a_stream_speaks_tls(tmp_path: Path) -> None:
    """By the options alone, which are what workers get; without them the error names TLS."""
    made = certificates.make(tmp_path)
    tls = TlsSettings(mode="enforcing", cert_path=made.cert, key_path=made.key)
    with LocalBroker(settings=replace(small_settings(), tls=tls)) as broker:
        settings = ClientSettings(tls=tls_context())
        with blocking.Admin(broker.nameserver, client=settings) as admin:
            admin.create_topic("orders", queues=2)
        given = {
            "nameServer": broker.nameserver,
            "subscribe": "orders",
            "fetchOffset.numRetries": "0",
        }
        for more in ({"tls": "true"}, {"tlsTrustPath": made.cert}):
            live = open_live(read_live(given | more))
            assert len(live.ask(lambda cluster: cluster.queues("orders"))) == 2
            live.close()
        plain = open_live(read_live(given))
        with pytest.raises(ClientError, match="if it wants TLS"):
            plain.ask(lambda cluster: cluster.queues("orders"))
        plain.close()
        with pytest.raises(SettingsError, match=r"none\.crt cannot be used"):
            open_live(read_live({**given, "tlsTrustPath": "/none.crt"}))
