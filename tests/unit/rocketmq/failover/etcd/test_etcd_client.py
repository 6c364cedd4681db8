"""Etcd's gateway as it is spoken to, with servers that say what a test wants.

What the real one says is in `tests/interop/test_etcd.py`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from sprocket.base.clock import SystemClock
from sprocket.base.errors import NotConnected, RequestTimeout, SettingsError, WireError
from sprocket.rocketmq.failover import Renew, Tenure, Verdict
from sprocket.rocketmq.failover.etcd import (
    EtcdClient,
    EtcdCredentials,
    EtcdDecider,
    addresses_in,
)
from sprocket.rocketmq.failover.etcd.client import EtcdRefused
from sprocket.rocketmq.failover.etcd.messages import LeaseAnswer
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer, Server
from sprocket.runtime.http import HttpRequest, HttpResponse, HttpServer

Say = Callable[[HttpRequest], Awaitable[HttpResponse]]


def ok(**body: object) -> HttpResponse:
    """Return an answer."""
    return HttpResponse(status=200, body=[json.dumps(body).encode()])


def problem(status: int, code: int, message: str) -> HttpResponse:
    """Return an answer that is an error."""
    body = {"error": message, "message": message, "code": code}
    return HttpResponse(status=status, body=[json.dumps(body).encode()])


async def lease(_: HttpRequest) -> HttpResponse:
    """Grant a lease."""
    return ok(ID="7", TTL="5")


async def silent(_: HttpRequest) -> HttpResponse:
    """Say nothing."""
    await asyncio.sleep(60)
    raise AssertionError("unreachable")


def run(test: Callable[..., Awaitable[None]], *said: Say, user: str = "") -> None:
    """Run a test with a client of some members, each of which says what it is to say."""

    async def main() -> None:
        servers: list[Server] = []
        https: list[HttpServer] = []
        for say in said:

            async def handle(request: HttpRequest, _: Peer, say: Say = say) -> HttpResponse:
                return await say(request)

            http = HttpServer(handle, lambda _: 10_000, lambda *_: True, SystemClock())
            bound = await driver.bind("127.0.0.1", 0)
            servers.append(await driver.listen(bound, http.connection, http.on_event))
            https.append(http)
        client = EtcdClient(
            [("127.0.0.1", one.port) for one in servers],
            SystemClock(),
            seconds=2,
            credentials=EtcdCredentials(user, "secret") if user else None,
        )
        try:
            await test(client)
        finally:
            client.close()
            for one in https:
                await one.stop()
            for server in servers:
                await server.close(0.1)

    asyncio.run(main())


async def grant(client: EtcdClient) -> LeaseAnswer:
    """Ask for a lease."""
    return await client.ask("/v3/lease/grant", {"TTL": "5"}, LeaseAnswer)


def test_who_does_not_answer_is_asked_no_more() -> None:
    """The request may have been carried out; the next one goes to another member."""

    async def test(client: EtcdClient) -> None:
        with pytest.raises(RequestTimeout):
            await grant(client)
        assert (await grant(client)).ID == "7"

    run(test, silent, lease)


def test_who_says_that_it_cannot_now_is_asked_no_more() -> None:
    """As a member without a leader."""

    async def unavailable(_: HttpRequest) -> HttpResponse:
        return problem(503, 14, "etcdserver: no leader")

    async def test(client: EtcdClient) -> None:
        with pytest.raises(RequestTimeout, match="no leader"):
            await grant(client)
        assert (await grant(client)).ID == "7"

    run(test, unavailable, lease)


def test_who_is_not_there_costs_no_request() -> None:
    """It is sent to the next member at once."""

    async def test(client: EtcdClient) -> None:
        gone = await driver.bind("127.0.0.1", 0)
        there = addresses_in(f"etcd://{client.address}")
        both = EtcdClient([("127.0.0.1", gone.port), *there], SystemClock(), seconds=2)
        assert (await grant(both)).ID == "7"
        both.close()
        gone.close()

    run(test, lease)


def test_an_error_of_the_request_is_one() -> None:
    """Nothing was done, and the same member is asked on."""

    async def refusing(_: HttpRequest) -> HttpResponse:
        return problem(403, 7, "etcdserver: permission denied")

    async def test(client: EtcdClient) -> None:
        before = client.address
        with pytest.raises(EtcdRefused, match="permission denied"):
            await grant(client)
        assert client.address == before

    run(test, refusing, lease)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"ID": 7}', b"\xff"])
def test_what_is_not_an_answer_of_etcd_is_an_error(body: bytes) -> None:
    """A decider knows nothing then."""

    async def odd(_: HttpRequest) -> HttpResponse:
        return HttpResponse(status=200, body=[body])

    async def test(client: EtcdClient) -> None:
        with pytest.raises(WireError):
            await grant(client)
        decider = EtcdDecider(client, "c", "s", 5)
        assert await decider.read() is None
        renewed = await decider.renew(Renew(tenure=Tenure(revision=1, lease=7)))
        assert renewed.verdict is Verdict.UNKNOWN

    run(test, odd)


def test_a_token_that_ended_is_fetched_again() -> None:
    """Once for a request."""
    signed_in: list[object] = []

    async def guarded(request: HttpRequest) -> HttpResponse:
        if request.target == "/v3/auth/authenticate":
            signed_in.append(json.loads(request.body))
            return ok(token=f"t{len(signed_in)}")
        if request.headers.get("authorization") != "t2":
            return problem(401, 16, "etcdserver: invalid auth token")
        return ok(ID="7")

    async def test(client: EtcdClient) -> None:
        assert (await grant(client)).ID == "7"
        assert (await grant(client)).ID == "7"

    run(test, guarded, user="me")
    assert signed_in == [{"name": "me", "password": "secret"}] * 2


def test_a_lease_that_etcd_does_not_know_is_lost() -> None:
    """It says so by a time of zero, which it leaves out."""

    async def forgotten(_: HttpRequest) -> HttpResponse:
        return ok(result={"header": {}, "ID": "7"})

    async def test(client: EtcdClient) -> None:
        decider = EtcdDecider(client, "c", "s", 5)
        renewed = await decider.renew(Renew(tenure=Tenure(revision=1, lease=7)))
        assert renewed.verdict is Verdict.LOST

    run(test, forgotten)


def test_addresses_of_members() -> None:
    """With and without a port."""
    assert addresses_in("etcd://a:1,b , [::1]:2379") == [("a", 1), ("b", 2379), ("::1", 2379)]
    for url in (
        "",
        "etcd://",
        "http://a:1",
        "etcd://a:b",
        "etcd://u:p@a",
        "etcd://a/b",
        "etcd://a,",
    ):
        with pytest.raises(SettingsError, match=r"ha\.decider"):
            addresses_in(url)


def test_nobody_is_there() -> None:
    """It is known that nothing was sent."""

    async def main() -> None:
        gone = await driver.bind("127.0.0.1", 0)
        client = EtcdClient([("127.0.0.1", gone.port)] * 2, SystemClock(), seconds=2)
        with pytest.raises(NotConnected):
            await grant(client)
        gone.close()

    asyncio.run(main())
