"""Whoever watches a process is told whether it is alive, ready, and stores what it is sent."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import aio_pika
import pytest
import requests
from aio_pika.exceptions import DeliveryError
from tests.unit.rocketmq.conftest import RawClient, message_ext
from tests.waits import LONG_SECONDS

from sprocket.base import settings as loader
from sprocket.base.errors import DiskFailed, SettingsError, StoreError
from sprocket.base.settings import Loaded
from sprocket.node.host import Host, Product, Running, Serve, Site, settings_of
from sprocket.node.products import PRODUCTS, named
from sprocket.node.rabbitmq import RunningAmqp
from sprocket.rocketmq.settings import Settings
from sprocket.runtime import driver
from sprocket.runtime.settings import HostSettings
from sprocket.testing.disk import SimulatedDisk

FREE = {
    "health.port": 0,
    "server.nameserver_port": 0,
    "server.broker_port": 0,
    "amqp.port": 0,
    "log.segment_bytes": 1 << 18,
    "index.slots": 10,
    "index.units": 40,
    "durability.sync_timeout_ms": LONG_SECONDS * 1000,
    "amqp_durability.confirm_timeout_ms": LONG_SECONDS * 1000,
}


def given(products: Any = PRODUCTS, **more: object) -> Loaded[object]:
    """Return settings with free ports and small files."""
    root = settings_of(products)
    known = {one.full_name for one in loader.declarations(root)}
    options = {**FREE, **{name.replace("__", "."): value for name, value in more.items()}}
    return loader.load(root, options={n: v for n, v in options.items() if n in known})


async def asked(host: Host, path: str = "", method: str = "GET") -> requests.Response:
    """Ask how well it is."""
    url = f"http://{host.running['health'].ready['health']}/health{path}"
    return await asyncio.to_thread(requests.request, method, url, timeout=LONG_SECONDS)


async def failing(host: Host) -> dict[str, list[str]]:
    """Return why checks fail; each path must say the same as all together."""
    whole = await asked(host)
    checks: dict[str, list[str]] = whole.json()["checks"]
    for name, reasons in checks.items():
        one = await asked(host, f"/{name}")
        status, word = (503, "failed") if reasons else (200, "ok")
        assert (one.status_code, one.json()["status"]) == (status, word)
        assert one.json()["checks"] == {name: reasons}
    assert [*checks] == ["live", "ready", "stores"]
    assert (whole.status_code == 200) is not any(checks.values())
    return {name: reasons for name, reasons in checks.items() if reasons}


def run(scenario: Callable[[Host, SimulatedDisk], Awaitable[None]]) -> None:
    """Run a scenario with every product in one process."""

    async def main() -> None:
        disk = SimulatedDisk()
        host = await Host.start(PRODUCTS, given(), "/s", disk=disk)
        try:
            await scenario(host, disk)
        finally:
            await host.stop()

    driver.run(main())


async def send(host: Host) -> int:
    """Send a message to RocketMQ's broker; return the code of the answer."""
    client = await RawClient.open(host.running["broker"].ready["broker"])
    return (await client.call(310, message_ext(), b"x")).code


async def publish(host: Host) -> None:
    """Publish a message to AMQP's queue `q`. Raises DeliveryError."""
    connection = await aio_pika.connect(f"amqp://guest:guest@{host.running['amqp'].ready['amqp']}/")
    async with connection:
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True)
        message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "q")


def test_a_process_that_is_well_says_so() -> None:
    """To GET and HEAD, with and without a query; nothing else is there."""

    async def scenario(host: Host, _: SimulatedDisk) -> None:
        assert await failing(host) == {}
        assert host.refusals() == []
        assert (await asked(host, "/?x=1")).status_code == 200
        head = await asked(host, "/live", "HEAD")
        assert (head.status_code, head.text) == (200, "")
        assert (await asked(host, "/dead")).status_code == 404
        assert (await asked(host, "/live/live")).status_code == 404
        posted = await asked(host, "/live", "POST")
        assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")

    run(scenario)


def test_a_full_disk_is_seen_of_both_products() -> None:
    """By the broker's percents, and AMQP's bytes that must be free; until there is room."""

    async def scenario(host: Host, disk: SimulatedDisk) -> None:
        broker: Any = host.running["broker"]
        amqp = host.running["amqp"]
        assert isinstance(amqp, RunningAmqp)
        disk.used = 0.96
        broker.broker.upkeep.start()  # looks at the disk as a round does
        amqp.broker.check_resources(lambda _: None)
        assert await failing(host) == {
            "stores": [
                "broker broker-a: the disk is 96 % full, more than 90 %",
                "AMQP: less than 52,428,800 bytes are free: who publishes is blocked",
            ]
        }
        disk.used = 0.5
        broker.broker.upkeep.start()
        amqp.broker.check_resources(lambda _: None)
        assert await failing(host) == {}

    run(scenario)


@pytest.mark.parametrize("product", ["broker", "amqp"])
def test_a_failed_sync_is_seen_until_a_restart(product: str) -> None:
    """Of the one that it has stopped; the other goes on."""

    async def scenario(host: Host, disk: SimulatedDisk) -> None:
        await publish(host)
        assert await send(host) == 0

        def fail(call: str, path: str) -> None:
            logs = {"broker": "/commitlog/", "amqp": "/sprocket.wal."}  # not a flush's sync
            if call == "sync" and logs[product] in path:
                disk.before = None
                raise DiskFailed(f"sync {path}: Input/output error")

        disk.before = fail
        if product == "broker":
            assert await send(host) == 14
        else:
            with pytest.raises(DeliveryError):
                await publish(host)
        (why,) = (await failing(host))["stores"]
        told = {"broker": "broker broker-a: ", "amqp": "virtual host '/': "}
        assert why.startswith(told[product])
        assert "Input/output error" in why

    # AMQP's broker says so in the log when it stops.
    with pytest.raises(StoreError, match="sync") if product == "broker" else nullcontext():
        run(scenario)


def test_while_it_opens_and_stops_it_is_alive_and_not_ready() -> None:
    """A recovery takes its time; whoever ends what is not alive lets it go on."""

    async def main() -> None:
        found: list[requests.Response] = []
        port = 0

        async def ask(name: str) -> requests.Response:
            url = f"http://127.0.0.1:{port}/health/{name}"
            return await asyncio.to_thread(requests.get, url, timeout=LONG_SECONDS)

        async def open_slowly(site: Site) -> Serve:
            nonlocal port
            port = site.ports["health"]
            found.extend([await ask(name) for name in ("live", "ready", "stores")])

            async def stop() -> None:
                found.extend([await ask(name) for name in ("live", "ready")])

            site.parts.push_async_callback(stop)

            async def serve() -> Running:
                return Running(ready={}, rows=[])

            return serve

        slow = Product(name="s", settings=HostSettings, ports=lambda _: {}, open=open_slowly)
        host = await Host.start([slow], given([slow]), "/s", disk=SimulatedDisk())
        assert [one.status_code for one in found] == [200, 503, 503]
        assert found[1].json()["checks"] == {"ready": ["it starts"]}
        assert await failing(host) == {}
        await host.stop()
        assert [one.status_code for one in found[3:]] == [200, 503]
        assert found[4].json()["checks"] == {"ready": ["it stops"]}

    driver.run(main())


def test_without_a_port_nobody_is_told() -> None:
    """By default, and where the settings are of one product that has never heard of it."""

    async def main() -> None:
        off = given(health__port="off")
        given_roots: list[Loaded[object]] = [off, Loaded(root=off.of(Settings), origins={})]
        for one in given_roots:
            host = await Host.start(named("nameserver"), one, "/s", disk=SimulatedDisk())
            assert [*host.running] == ["nameserver"]
            assert host.refusals() == []
            await host.stop()

    driver.run(main())


def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    """Before any store is opened."""

    async def main() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        disk = SimulatedDisk()
        with pytest.raises(SettingsError, match="--health-port takes another"):
            await Host.start(PRODUCTS, given(health__port=port), "/s", disk=disk)
        server.close()
        assert not disk.exists("/s/lock")

    driver.run(main())
