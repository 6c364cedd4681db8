"""A node that serves AMQP: its folder, its definitions, and what it refuses to start with."""

import asyncio
import json
import shutil
import ssl
import struct
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
from tests import certificates
from tests.waits import LONG_SECONDS

from sprocket.base.clock import SystemClock
from sprocket.base.errors import SettingsError, StoreLocked
from sprocket.base.settings import Loaded
from sprocket.node.host import Host
from sprocket.node.rabbitmq import AMQP, AmqpNode
from sprocket.rabbitmq.settings import AmqpNodeSettings, AmqpSettings
from sprocket.runtime import driver
from sprocket.runtime.certificates import validities
from sprocket.runtime.settings import EncryptionSettings
from sprocket.testing.clock import FakeClock

SETTINGS = AmqpNodeSettings(amqp=AmqpSettings(port=0))


def test_its_files_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    """Whether it runs alone or beside others; a second one cannot have it meanwhile."""

    async def main() -> None:
        node = await AmqpNode.start(SETTINGS, str(tmp_path))
        with pytest.raises(StoreLocked):
            await AmqpNode.start(SETTINGS, str(tmp_path))
        await node.stop()

    driver.run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["rabbitmq"]
    assert (tmp_path / "rabbitmq" / "msg_stores" / "vhosts").is_dir()


def test_a_port_that_is_taken_is_told_with_what_to_do(tmp_path: Path) -> None:
    """One line that names the options."""

    async def main() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        taken = replace(SETTINGS, amqp=AmqpSettings(port=port))
        given: Loaded[object] = Loaded(root=taken, origins={})
        with pytest.raises(
            SettingsError, match="--amqp-port takes another, --amqp-http-port"
        ) as caught:
            await Host.start([AMQP], given, str(tmp_path))
        assert f"cannot listen on 127.0.0.1:{port}" in str(caught.value)
        server.close()

    driver.run(main())


def test_definitions_are_there_at_the_start(tmp_path: Path) -> None:
    """Of two virtual hosts; a second start with the same file changes nothing."""
    path = tmp_path / "definitions.json"
    queue = {"name": "q", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {}}
    path.write_text(json.dumps({"vhosts": [{"name": "v"}], "queues": [queue]}))
    settings = replace(SETTINGS, amqp=AmqpSettings(port=0, definitions_path=str(path)))

    async def main() -> list[dict[str, list[str]]]:
        found = []
        for _ in range(2):
            node = await AmqpNode.start(settings, str(tmp_path / "node"))
            vhosts = node.broker.vhosts
            found.append({name: [q.label for q in one.queues] for name, one in vhosts.items()})
            await node.stop()
        return found

    assert driver.run(main()) == [{"/": [], "v": ["q"]}] * 2


@pytest.mark.parametrize(
    ("content", "why"),
    [("{", "definitions.json"), ('{"queues": [{"name": "q"}]}', "definitions.json")],
)
def test_wrong_definitions_are_an_error_of_settings(tmp_path: Path, content: str, why: str) -> None:
    """Which names the file; the next start without it goes on."""
    path = tmp_path / "definitions.json"
    path.write_text(content)
    settings = replace(SETTINGS, amqp=AmqpSettings(port=0, definitions_path=str(path)))

    async def main() -> None:
        with pytest.raises(SettingsError, match=why):
            await AmqpNode.start(settings, str(tmp_path / "node"))
        await (await AmqpNode.start(SETTINGS, str(tmp_path / "node"))).stop()

    driver.run(main())


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_certificate_is_a_login_only_if_that_is_wanted(tmp_path: Path, is_wanted: bool) -> None:
    """EXTERNAL is offered by the setting, as by RabbitMQ's plugin, and only over TLS."""
    own = certificates.make(tmp_path)
    settings = replace(
        SETTINGS,
        amqp=AmqpSettings(port=0, external_login=is_wanted),
        tls=EncryptionSettings(
            cert_path=own.cert, key_path=own.key, client_auth="optional", trust_path=own.cert
        ),
    )
    context = ssl.create_default_context(cafile=own.cert)

    async def mechanisms(address: str, tls: ssl.SSLContext | None) -> bytes:
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
        writer.write(b"AMQP\0\0\x09\x01")
        _, _, size = struct.unpack(">BHL", await reader.readexactly(7))
        payload = await reader.readexactly(size)
        writer.close()
        return payload[payload.rindex(b"PLAIN AMQPLAIN") : payload.rindex(b"\0\0\0\x05en_US")]

    async def main() -> list[bytes]:
        node = await AmqpNode.start(settings, str(tmp_path / "node"))
        found = [await mechanisms(node.address, tls) for tls in (None, context)]
        await node.stop()
        return found

    with_certificate = b"PLAIN AMQPLAIN EXTERNAL" if is_wanted else b"PLAIN AMQPLAIN"
    assert [b"PLAIN AMQPLAIN", with_certificate] == driver.run(main())


def test_certificates_that_end_soon_are_told(tmp_path: Path) -> None:
    """Those in use: the node's, the authority's, and another one after it was replaced."""
    short, long = (certificates.make(tmp_path, f"{days}", days=days) for days in (2, 400))
    for part in ("cert", "key"):
        shutil.copy(getattr(short, part), tmp_path / part)
    clock = FakeClock(SystemClock().now_ms())
    settings = replace(
        SETTINGS,
        amqp=AmqpSettings(port=0),
        tls=EncryptionSettings(
            cert_path=str(tmp_path / "cert"),
            key_path=str(tmp_path / "key"),
            client_auth="optional",
            trust_path=long.cert,
        ),
    )

    def check(node: AmqpNode, within: str) -> requests.Response:
        url = f"http://{node.http_address}/api/health/checks/certificate-expiration/{within}"
        return requests.get(url, auth=("guest", "guest"), timeout=LONG_SECONDS)

    async def main() -> None:
        node = await AmqpNode.start(settings, str(tmp_path / "node"), clock=clock)
        for within, status in (
            ("1/days", 200),
            ("3/Days", 503),
            ("1/weeks", 503),
            ("2/years", 503),
        ):
            assert (await asyncio.to_thread(check, node, within)).status_code == status
        told = (await asyncio.to_thread(check, node, "1/months")).json()
        assert (told["status"], told["reason"]) == ("failed", "Certificates expiring")
        (one,) = [one for one in told["expired"] if one["protocol"] == "amqp"]
        assert one["certfile"] == str(tmp_path / "cert")
        (end,) = one["certfile_expires_on"]
        at = datetime.strptime(end, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        ((_, expected),) = validities(Path(short.cert).read_bytes())
        assert at == expected
        assert one["cacertfile_expires_on"] == []
        told = (await asyncio.to_thread(check, node, "2/years")).json()
        assert len(told["expired"][0]["cacertfile_expires_on"]) == 1
        for part in ("cert", "key"):
            shutil.copy(getattr(long, part), tmp_path / part)
        clock.advance(1000)
        assert (await asyncio.to_thread(check, node, "1/years")).json() == {"status": "ok"}
        for wrong in ("1/nothing", "x/days", "9999999999/days"):
            assert (await asyncio.to_thread(check, node, wrong)).status_code == 400
        await node.stop()

    driver.run(main())
