"""A node's certificate: needed, checked, and read again when it changes."""

import asyncio
import os
import shutil
import ssl
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests import certificates
from tests.certificates import Certificate
from tests.unit.rocketmq.conftest import RawClient

from sprocket.base.disk import RealDisk
from sprocket.base.errors import ClientError, SettingsError
from sprocket.node import throw_away
from sprocket.node.broker_role import nameserver_tls
from sprocket.node.encryption import NodeEncryption
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.client import ClientSettings
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import ServerSettings, Settings, TlsSettings
from sprocket.runtime import driver
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Certificate, Certificate]:
    """Return a server's certificate and another's."""
    folder = tmp_path_factory.mktemp("tls")
    return certificates.make(folder, "one"), certificates.make(folder, "two")


def settings(one: Certificate, **changes: object) -> TlsSettings:
    """Return settings with a certificate."""
    given = TlsSettings(mode="permissive", cert_path=one.cert, key_path=one.key)
    return replace(given, **changes)  # type: ignore[arg-type]


def encryption(given: TlsSettings, clock: FakeClock | None = None) -> NodeEncryption:
    """Return the server's side over real files."""
    return NodeEncryption(given, RealDisk(), clock or FakeClock())


def test_what_is_missing_is_one_clear_error(
    made: tuple[Certificate, Certificate], tmp_path: Path
) -> None:
    """It names the setting or the file."""
    one, two = made
    for given, text in (
        (TlsSettings(mode="enforcing"), "tls.cert_path"),
        (settings(one, cert_path="/none.crt"), "/none.crt"),
        (settings(one, key_path=two.key), "cannot be used"),
        (settings(one, client_auth="require"), "tls.trust_path"),
        (settings(one, trust_path=one.key), "cannot be used"),
    ):
        with pytest.raises(SettingsError, match=text):
            encryption(given)
    locked = certificates.make(tmp_path, "locked", password="secret")  # noqa: S106
    with pytest.raises(SettingsError, match="locked"):
        encryption(settings(locked, key_password="wrong"))  # noqa: S106
    encryption(settings(locked, key_password="secret"))  # noqa: S106


def test_a_new_certificate_is_used_without_a_restart(
    made: tuple[Certificate, Certificate], tmp_path: Path
) -> None:
    """Once both files are there; in between, and with a broken one, the old one goes on."""
    one, two = made
    cert, key = str(tmp_path / "c"), str(tmp_path / "k")
    shutil.copy(one.cert, cert)
    shutil.copy(one.key, key)
    clock = FakeClock()
    tls = encryption(settings(Certificate(cert, key)), clock)
    first = tls.context()
    for number, (source, target) in enumerate(((two.cert, cert), (two.key, key))):
        assert tls.context() is first
        shutil.copy(source, target)
        os.utime(target, (number, number))
        assert tls.context() is first  # looked at less than a second ago
        clock.advance(1000)
    second = tls.context()
    assert second is not first
    os.remove(cert)
    clock.advance(1000)
    assert tls.context() is second


TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE
"""What Java's clients with `tls.enable=true` do: encrypt, and check nobody."""


def node_settings(tls: TlsSettings | None = None) -> Settings:
    """Return settings of a node on free ports."""
    server = ServerSettings(nameserver_port=0, broker_port=0)
    return Settings(server=server, tls=tls or TlsSettings())


def test_encrypted_clients_are_served_beside_plain_ones_without_any_setting() -> None:
    """RocketMQ makes a throw-away certificate; here such clients were cut off."""

    async def main() -> None:
        node = await Node.start(
            node_settings(),
            "/store",
            disk=SimulatedDisk(),
            geometry=Geometry.small(),
            clock=FakeClock(),
        )
        try:
            for client in (ClientSettings(tls=TRUSTING), ClientSettings()):
                async with Admin(node.addresses.nameserver, client=client) as admin:
                    assert "broker-a" in (await admin.cluster()).brokers
                    assert await admin.topic.stats("BenchmarkTest")
        finally:
            await node.stop()

    driver.run(main())


def test_one_throw_away_certificate_serves_all_who_come_meanwhile() -> None:
    """It is made once, off the loop, and those who wait go on in their order."""
    threads: list[str] = []

    def certify(context: ssl.SSLContext, now_ms: int) -> None:
        threads.append(threading.current_thread().name)
        throw_away.certify(context, now_ms)

    async def main() -> None:
        tls = NodeEncryption(TlsSettings(), SimulatedDisk(), FakeClock(), certify)
        told: list[ssl.SSLContext | str] = []
        for _ in range(3):
            tls.obtain(told.append, told.append)
        assert told == []
        while not told:
            await asyncio.sleep(0)
        tls.obtain(told.append, told.append)
        assert told == 4 * [tls.context()]

    driver.run(main())
    assert threads == ["sprocket-certificate"]


def test_without_the_package_tls_is_off_and_the_refusal_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plain clients are served; the reason names the package and the setting."""
    monkeypatch.setitem(sys.modules, "cryptography", None)

    async def main() -> None:
        tls = NodeEncryption(TlsSettings(), SimulatedDisk(), FakeClock())
        told: list[str] = []
        for count in (1, 2):
            tls.obtain(lambda _: told.append("used"), told.append)
            while len(told) < count:
                await asyncio.sleep(0)
        assert told[0] == told[1]
        assert "sprocketmq[tls]" in told[0]
        assert "tls.cert_path" in told[0]

    driver.run(main())


def test_a_throw_away_certificate_that_cannot_be_made_does_not_end_the_node() -> None:
    """Whatever is wrong: it is said, and TLS is off."""

    def broken(_: ssl.SSLContext, _now_ms: int) -> None:
        raise ValueError("broken")

    async def main() -> None:
        tls = NodeEncryption(TlsSettings(), SimulatedDisk(), FakeClock(), broken)
        told: list[str] = []
        tls.obtain(lambda _: None, told.append)
        while not told:
            await asyncio.sleep(0)
        assert told == ["broken"]

    driver.run(main())


def test_the_broker_encrypts_what_it_must(made: tuple[Certificate, Certificate]) -> None:
    """Towards NameServers: where it is set so, and where its own takes nothing else."""
    one, _ = made
    assert nameserver_tls(TlsSettings()) is None
    assert nameserver_tls(settings(one)) is None
    enforced = nameserver_tls(settings(one, mode="enforcing"))
    assert enforced is not None
    assert enforced.verify_mode == ssl.CERT_NONE
    checked = nameserver_tls(settings(one, to_nameservers=True, trust_path=one.cert))
    assert checked is not None
    assert checked.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("client_auth", ["none", "require"])
def test_a_node_under_tls(made: tuple[Certificate, Certificate], client_auth: str) -> None:
    """NameServer and broker; plain clients, and those without a certificate, are not served."""
    one, _ = made
    given = settings(one, mode="enforcing", client_auth=client_auth, trust_path=one.cert)
    wanted = node_settings(given)

    async def main() -> None:
        node = await Node.start(
            wanted, "/store", disk=_Both(), geometry=Geometry.small(), clock=FakeClock()
        )
        try:
            context = ssl.create_default_context(cafile=one.cert)
            if client_auth == "require":
                context.load_cert_chain(one.cert, one.key)
            clients = ClientSettings(tls=context)
            async with Admin(node.addresses.nameserver, client=clients) as admin:
                assert "broker-a" in (await admin.cluster()).brokers
            plain = await RawClient.open(node.addresses.broker)
            plain.send(30, {"topic": "T", "queueId": 0})
            closed: list[object] = []
            plain.peer.on_close.append(closed.append)
            nobody = ClientSettings(tls=ssl.create_default_context())
            with pytest.raises(ClientError):
                async with Admin(node.addresses.nameserver, client=nobody) as admin:
                    await admin.cluster()
            assert closed
        finally:
            await node.stop()

    driver.run(main())


class _Both(SimulatedDisk):
    """A simulated disk that sees the certificates, which OpenSSL reads from the real one."""

    def modified_at_ms(self, path: str) -> int:
        """Return when a file was changed, on whichever disk it is."""
        real = RealDisk()
        return real.modified_at_ms(path) if real.exists(path) else super().modified_at_ms(path)
