"""The decider over real etcd: its contract, and members of etcd that fail."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from tests import certificates
from tests.decider_contract import (
    BEGUN,
    CONTRACT,
    GROWN,
    TTL_SECONDS,
    alter,
    became,
    read,
    renewal,
    take,
)
from tests.interop import etcd_cluster
from tests.interop.etcd_cluster import EtcdCluster
from tests.interop.peers import PeerMissing

from sprocket.base.clock import SystemClock
from sprocket.base.errors import SettingsError
from sprocket.rocketmq.failover import Decider, Verdict
from sprocket.rocketmq.failover.etcd import EtcdClient, EtcdCredentials, EtcdDecider
from sprocket.runtime.tls_files import server_checking_context

pytestmark = pytest.mark.interop

names = iter(range(10_000))


def program() -> Path:
    """Return etcd; without it the test is skipped by name."""
    try:
        return etcd_cluster.program()
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """Three members of etcd."""
    cluster = EtcdCluster(program(), tmp_path_factory.mktemp("etcd"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@asynccontextmanager
async def decider(
    etcd: EtcdCluster,
    name: str = "",
    *,
    credentials: EtcdCredentials | None = None,
    trust: str = "",
) -> AsyncIterator[EtcdDecider]:
    """Give a decider of a set, a new one if it is not named."""
    tls = server_checking_context(trust) if trust else None
    client = EtcdClient(
        etcd.addresses, SystemClock(), seconds=0.4, tls=tls, credentials=credentials
    )
    found = EtcdDecider(client, "c", name or f"s{next(names)}", TTL_SECONDS)
    try:
        yield found
    finally:
        await found.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test in a loop of its own."""

    async def main() -> None:
        await test()

    asyncio.run(main())


@pytest.mark.parametrize("rule", CONTRACT, ids=lambda rule: rule.__name__)
def test_the_contract(etcd: EtcdCluster, rule: Callable[[Decider], Awaitable[None]]) -> None:
    """That of each decider."""

    async def test() -> None:
        async with decider(etcd) as one:
            await rule(one)

    run(test)


def test_etcds_leader_is_killed(etcd: EtcdCluster) -> None:
    """Renewals go on at the other members, in time; and a watch tells what follows."""

    async def test() -> None:
        leader = etcd.leader()
        etcd.members.sort(key=lambda member: member is not leader)  # it is asked first
        async with decider(etcd) as one, aclosing(one.watch()) as views:
            call, ruling = await became(one)
            async for view in views:
                if view.leader is not None:
                    break
            leader.kill()
            last, longest = time.monotonic(), 0.0
            for _ in range(12):
                sent = time.monotonic()
                if (await one.renew(renewal(ruling))).verdict is Verdict.DONE:
                    longest, last = max(longest, sent - last), sent
                await asyncio.sleep(max(0, 0.3 - (time.monotonic() - sent)))
            print(f"longest time between two renewals: {longest:.2f} s")
            seen = await read(one)
            assert seen.leader == call.leader
            assert (await one.alter(alter(call, ruling, GROWN, seen))).verdict is Verdict.DONE
            async for view in views:
                if view.state == GROWN:
                    break
        etcd.begin(leader)
        etcd.wait(leader)

    run(test)


def test_a_member_that_stands_still_is_passed_over(etcd: EtcdCluster) -> None:
    """After one renewal that fails the next one is answered by another member."""

    async def test() -> None:
        leader = etcd.leader()
        etcd.members.sort(key=lambda member: member is leader)
        asked_first = etcd.members[0]
        async with decider(etcd) as one:
            _, ruling = await became(one)
            asked_first.signal(signal.SIGSTOP)
            try:
                verdicts = [(await one.renew(renewal(ruling))).verdict for _ in range(2)]
            finally:
                asked_first.signal(signal.SIGCONT)
            assert verdicts == [Verdict.UNKNOWN, Verdict.DONE]

    run(test)


def test_without_a_quorum_nothing_is_known(etcd: EtcdCluster) -> None:
    """Writes end unknown, reads without an answer, within their time; then all goes on."""

    async def test() -> None:
        async with decider(etcd) as one:
            await one.init(BEGUN)
            view = await read(one)
            leader = etcd.leader()
            others = [member for member in etcd.members if member is not leader]
            for member in others:
                member.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(1.0)
                began = time.monotonic()
                assert (await one.take(take(view))).verdict is Verdict.UNKNOWN
                assert await one.read() is None
                assert time.monotonic() - began < 2
            finally:
                for member in others:
                    member.signal(signal.SIGCONT)
            await read(one)

    run(test)


def test_a_watch_survives_a_compacted_history(etcd: EtcdCluster) -> None:
    """It is cut off, what it was to go on from is dropped, and it tells what holds."""

    async def test() -> None:
        async with decider(etcd) as one, aclosing(one.watch()) as views:
            await one.init(BEGUN)
            async for view in views:
                if view.state == BEGUN:
                    break
            call = take(view)
            ruling = await one.take(call)
            assert ruling.verdict is Verdict.DONE
            revision = str(ruling.state_revision)
            compaction = {"revision": revision, "physical": True}
            assert etcd.ask(etcd.leader(), "/v3/kv/compaction", compaction)
            for member in etcd.members:
                member.kill()
            for member in etcd.members:
                etcd.begin(member)
            for member in etcd.members:
                etcd.wait(member)
            async for view in views:
                if view.state == call.state:
                    break

    run(test)


def test_tokens_are_fetched_again(tmp_path: Path) -> None:
    """Of a user; without one, or with a wrong password, nothing is known."""
    etcd = EtcdCluster(program(), tmp_path / "auth", 1)

    async def test() -> None:
        user = EtcdCredentials("root", "very secret")
        async with decider(etcd, "s", credentials=user) as one:
            assert (await one.init(BEGUN)).verdict is Verdict.DONE
            (member,) = etcd.members
            member.kill()  # it forgets its tokens
            etcd.begin(member)
            view = None
            until = time.monotonic() + 20
            while view is None and time.monotonic() < until:
                view = await one.read()
            assert view is not None
            assert view.state == BEGUN
            async with aclosing(one.watch()) as views:
                assert (await anext(views)).state == BEGUN
        wrong = EtcdCredentials("root", "wrong")
        assert "very secret" not in repr(user)
        for credentials in (None, wrong):
            async with decider(etcd, "s", credentials=credentials) as one:
                assert await one.read() is None
                refused = await one.init(BEGUN)
                assert refused.verdict is Verdict.UNKNOWN
                assert "wrong" not in refused.why

    try:
        etcd.start()
        etcd.command(
            ("/v3/auth/user/add", {"name": "root", "password": "very secret"}),
            ("/v3/auth/role/add", {"name": "root"}),
            ("/v3/auth/user/grant", {"user": "root", "role": "root"}),
            ("/v3/auth/enable", {}),
        )
        run(test)
    finally:
        etcd.stop()


def test_connections_are_encrypted(tmp_path: Path) -> None:
    """And the server's certificate is checked, its name as well."""
    certificate, other = certificates.make(tmp_path), certificates.make(tmp_path, "other")
    etcd = EtcdCluster(program(), tmp_path / "tls", 1, certificate)

    async def test() -> None:
        async with decider(etcd, "s", trust=certificate.cert) as one:
            assert (await one.init(BEGUN)).verdict is Verdict.DONE
            async with aclosing(one.watch()) as views:
                assert (await anext(views)).state == BEGUN
        async with decider(etcd, "s", trust=other.cert) as one:
            assert await one.read() is None
        async with decider(etcd, "s") as one:
            assert await one.read() is None

    try:
        etcd.start()
        run(test)
    finally:
        etcd.stop()
    with pytest.raises(SettingsError, match=r"nothing\.pem"):
        server_checking_context("nothing.pem")


def test_an_emptied_etcd_is_another_one(tmp_path: Path) -> None:
    """Its views say so, no lease is known to it, and nothing is decided without an operator."""
    etcd = EtcdCluster(program(), tmp_path / "wiped", 1)

    async def test() -> None:
        async with decider(etcd, "s") as one, aclosing(one.watch()) as views:
            before = await anext(views)
            _, ruling = await became(one)
            etcd.empty()
            async for view in views:
                if view.decider_id != before.decider_id:
                    break
            assert (view.leader, view.state) == (None, None)
            assert (await one.renew(renewal(ruling))).verdict is Verdict.LOST

    try:
        etcd.start()
        run(test)
    finally:
        etcd.stop()
