"""What every decider does, whatever it is made of: plain functions that are given one of a new set.

Leases live for `TTL_SECONDS`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from sprocket.rocketmq.failover import (
    Alter,
    Decider,
    Incarnation,
    Leader,
    Member,
    MemberAddresses,
    MemberId,
    MemberReport,
    Renew,
    Ruling,
    SetState,
    SetView,
    Take,
    Verdict,
)

TTL_SECONDS = 2
ME, OTHER = (Member(MemberId(n), Incarnation(f"i{n}")) for n in (1, 2))
ADDRESSES = MemberAddresses(broker="127.0.0.1:10911", slaves="127.0.0.1:10912")
BOTH = frozenset({ME, OTHER})
BEGUN = SetState(epoch=0, master=None, in_sync=BOTH, in_sync_min=1)
GROWN = SetState(epoch=1, master=ME, in_sync=BOTH, in_sync_min=1)


async def read(one: Decider) -> SetView:
    """Return what holds, as soon as somebody says so."""
    for _ in range(200):
        view = await one.read()
        if view is not None:
            return view
        await asyncio.sleep(0.1)
    raise AssertionError("nobody answers")


def take(view: SetView, member: Member = ME, attempt: str = "a1") -> Take:
    """Return a try to become master."""
    assert view.state is not None
    epoch = view.state.epoch + 1
    return Take(
        leader=Leader(member=member, addresses=ADDRESSES, epoch=epoch, attempt=attempt),
        state=SetState(epoch=epoch, master=member, in_sync=frozenset({member}), in_sync_min=1),
        seen=view.state,
        seen_revision=view.state_revision,
    )


def alter(call: Take, ruling: Ruling, state: SetState | None, seen: SetView) -> Alter:
    """Return a change by whoever has become master so."""
    assert ruling.tenure is not None
    assert seen.state is not None
    return Alter(
        leader=call.leader,
        tenure=ruling.tenure,
        state=state,
        seen=seen.state,
        seen_revision=seen.state_revision,
    )


def renewal(ruling: Ruling) -> Renew:
    """Return what keeps a master."""
    assert ruling.tenure is not None
    return Renew(tenure=ruling.tenure)


async def became(one: Decider) -> tuple[Take, Ruling]:
    """Have a set in which `ME` is master."""
    await one.init(BEGUN)
    call = take(await read(one))
    ruling = await one.take(call)
    assert ruling.verdict is Verdict.DONE
    return call, ruling


async def a_state_is_made_once(one: Decider) -> None:
    """By the operator's word; a second word changes nothing, unless it stands on what is there."""
    empty = await read(one)
    assert (empty.state, empty.leader, empty.state_revision) == (None, None, 0)
    first = await one.init(BEGUN)
    assert first.verdict is Verdict.DONE
    again = await one.init(BEGUN)
    assert again.verdict is Verdict.LOST
    view = await read(one)
    assert (view.state, view.state_revision) == (BEGUN, first.state_revision)
    assert (await one.init(GROWN, seen_revision=view.state_revision)).verdict is Verdict.DONE
    assert (await read(one)).state == GROWN


async def one_becomes_master(one: Decider) -> None:
    """Who comes second, or knows an older state, does not; nor does an operator change anything."""
    await one.init(BEGUN)
    before = await read(one)
    call = take(before)
    ruling = await one.take(call)
    assert ruling.verdict is Verdict.DONE
    view = await read(one)
    assert (view.leader, view.tenure) == (call.leader, ruling.tenure)
    assert (view.state, view.state_revision) == (call.state, ruling.state_revision)
    for seen in (before, view):
        assert (await one.take(take(seen, OTHER, "b1"))).verdict is Verdict.LOST
    assert (await one.init(BEGUN, seen_revision=view.state_revision)).verdict is Verdict.LOST


async def a_master_changes_its_set(one: Decider) -> None:
    """A change stands on the state that was seen, and on the tenure; then it hands over."""
    call, ruling = await became(one)
    change = alter(call, ruling, GROWN, await read(one))
    done = await one.alter(change)
    assert done.verdict is Verdict.DONE
    assert (await one.alter(change)).verdict is Verdict.LOST
    view = await read(one)
    assert (view.state, view.state_revision) == (GROWN, done.state_revision)
    gone = alter(call, ruling, None, view)
    assert (await one.alter(gone)).verdict is Verdict.DONE
    assert (await read(one)).leader is None
    assert (await one.alter(gone)).verdict is Verdict.LOST
    second = take(await read(one), OTHER, "b1")
    assert (await one.take(second)).verdict is Verdict.DONE
    late = alter(call, ruling, GROWN, await read(one))
    assert (await one.alter(late)).verdict is Verdict.LOST


async def a_lease_that_is_not_renewed_ends(one: Decider) -> None:
    """And one that is lives on; a watch tells of the end."""
    call, ruling = await became(one)
    for _ in range(6):
        await asyncio.sleep(0.5)
        assert (await one.renew(renewal(ruling))).verdict is Verdict.DONE
    async with aclosing(one.watch()) as views:
        async for view in views:
            if view.leader is None:
                break
            assert view.leader == call.leader
    assert (await one.renew(renewal(ruling))).verdict is Verdict.LOST
    assert (await one.alter(alter(call, ruling, GROWN, view))).verdict is Verdict.LOST


async def what_members_say_is_read(one: Decider) -> None:
    """Again and again."""
    for end in (5, 10):
        report = MemberReport(member=ME, addresses=ADDRESSES, epoch=2, end=end)
        assert await one.report(report)
        assert (await read(one)).reports == {ME.id: report}


async def a_watch_tells_each_state_that_lasts(one: Decider) -> None:
    """In order, and the newest one soon."""
    async with aclosing(one.watch()) as views:
        assert (await anext(views)).state is None
        await one.init(BEGUN)
        revisions = []
        async for view in views:
            revisions.append(view.revision)
            if view.state == BEGUN:
                break
        call = take(view)
        assert (await one.take(call)).verdict is Verdict.DONE
        async for view in views:
            revisions.append(view.revision)
            if view.leader == call.leader:
                break
        assert view.state == call.state
        assert revisions == sorted(revisions)


CONTRACT: tuple[Callable[[Decider], Awaitable[None]], ...] = (
    a_state_is_made_once,
    one_becomes_master,
    a_master_changes_its_set,
    a_lease_that_is_not_renewed_ends,
    what_members_say_is_read,
    a_watch_tells_each_state_that_lasts,
)
