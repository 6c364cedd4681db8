"""What a decider over etcd does when etcd is cut off, emptied, or says odd things."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from tests.decider_contract import BEGUN, GROWN, alter, became, read, renewal, take
from tests.fake_etcd import FakeEtcd

from sprocket.base.clock import SystemClock
from sprocket.rocketmq.failover import Verdict
from sprocket.rocketmq.failover.etcd import EtcdClient, EtcdDecider


@asynccontextmanager
async def decider(etcd: FakeEtcd, seconds: float = 5) -> AsyncIterator[EtcdDecider]:
    """Give a decider over it."""
    client = EtcdClient([("127.0.0.1", etcd.port)], SystemClock(), seconds=seconds)
    one = EtcdDecider(client, "c", "s", 5)
    try:
        yield one
    finally:
        await one.close()


def run(test: Callable[[FakeEtcd], Awaitable[None]]) -> None:
    """Run a test with an etcd of its own."""

    async def main() -> None:
        etcd = FakeEtcd()
        await etcd.start()
        try:
            await test(etcd)
        finally:
            await etcd.stop()

    asyncio.run(main())


def test_a_watch_goes_on_after_it_was_cut_off() -> None:
    """With what happened meanwhile, also if the history of that is gone."""

    async def test(etcd: FakeEtcd) -> None:
        async with decider(etcd) as one, aclosing(one.watch()) as views:
            assert (await anext(views)).state is None
            for state in (BEGUN, GROWN):
                await etcd.stop()
                await etcd.start()
                view = await read(one)
                assert (await one.init(state, seen_revision=view.state_revision)).verdict is (
                    Verdict.DONE
                )
                etcd.compacted = etcd.revision
                etcd.history.clear()
                async for view in views:
                    if view.state == state:
                        break

    run(test)


def test_who_gets_no_answer_knows_nothing() -> None:
    """Within its time."""

    async def test(etcd: FakeEtcd) -> None:
        async with decider(etcd, seconds=0.1) as one:
            call, ruling = await became(one)
            view = await read(one)
            etcd.is_silent = True
            for asked in (
                one.renew(renewal(ruling)),
                one.take(call),
                one.alter(alter(call, ruling, GROWN, view)),
                one.init(BEGUN),
            ):
                assert (await asked).verdict is Verdict.UNKNOWN
            assert await one.read() is None

    run(test)


def test_an_emptied_etcd_is_another_one() -> None:
    """A watch says so, and a lease is not known to it."""

    async def test(etcd: FakeEtcd) -> None:
        async with decider(etcd) as one, aclosing(one.watch()) as views:
            _, ruling = await became(one)
            async for view in views:
                if view.leader is not None:
                    break
            etcd.empty()
            async for now in views:
                if now.decider_id != view.decider_id:
                    break
            assert (now.leader, now.state) == (None, None)
            assert (await one.renew(renewal(ruling))).verdict is Verdict.LOST

    run(test)


def test_a_lease_that_ends_before_it_is_used_gives_nothing() -> None:
    """Nothing was written: somebody else may take."""

    async def test(etcd: FakeEtcd) -> None:
        async with decider(etcd) as one:
            await one.init(BEGUN)
            view = await read(one)
            etcd.forgets_leases = True
            assert (await one.take(take(view))).verdict is Verdict.LOST

    run(test)


def test_what_others_wrote_there_is_no_view() -> None:
    """Nothing is known while a key is not as we write it."""

    async def test(etcd: FakeEtcd) -> None:
        async with decider(etcd) as one:
            await one.init(BEGUN)
            etcd.keys[b"/sprocket/c/s/state"].value = "e30="
            assert await one.read() is None

    run(test)
