"""The table of states: what a member does when, with a decider and a clock that tests move."""

import pytest

from sprocket.rocketmq.failover import (
    Alter,
    Incarnation,
    Leader,
    LogState,
    Mastership,
    Member,
    MemberAddresses,
    MemberId,
    MemberReport,
    Phase,
    ReadBack,
    Role,
    RoleKind,
    Ruling,
    SetState,
    SetView,
    Take,
    Tenure,
    Verdict,
)

ME, SLAVE, THIRD = (Member(MemberId(n), Incarnation(f"i{n}")) for n in (1, 2, 3))
ADDRESSES = MemberAddresses(broker="b:1", slaves="b:2")
UNKNOWN = Ruling(verdict=Verdict.UNKNOWN)
LOST = Ruling(verdict=Verdict.LOST)
RENEWED = Ruling(verdict=Verdict.DONE)
TENURE = Tenure(revision=10, lease=77)


def view(
    revision: int,
    *in_sync: Member,
    leader: Leader | None = None,
    tenure: Tenure | None = None,
    epoch: int = 3,
    state_revision: int = 5,
    reports: tuple[MemberReport, ...] = (),
    decider_id: str = "d",
) -> SetView:
    """Return what a decider says."""
    state = SetState(epoch=epoch, master=None, in_sync=frozenset(in_sync), in_sync_min=1)
    return SetView(
        decider_id=decider_id,
        revision=revision,
        leader=leader,
        tenure=tenure,
        state=state if in_sync else None,
        state_revision=state_revision,
        reports={one.member.id: one for one in reports},
    )


def log(epoch: int, end: int, confirmed: int) -> LogState:
    """Return what a log is like."""
    return LogState(epoch=epoch, promised=epoch, end=end, confirmed=confirmed)


def phase_of(table: Mastership) -> Phase:
    """Return what it is now."""
    return table.phase


def leader_of(member: Member) -> Leader:
    """Return what says that a member leads."""
    return Leader(member=member, addresses=ADDRESSES, epoch=3, attempt="other-1")


def report(member: Member, epoch: int, end: int) -> MemberReport:
    """Return what a member says of its log."""
    return MemberReport(member=member, addresses=ADDRESSES, epoch=epoch, end=end)


def begun(now: float = 100.0, *, seen: SetView | None = None) -> Mastership:
    """Return a member whose log ends at 50, and that has read what holds."""
    table = Mastership(ME, ADDRESSES, "p")
    table.progressed(log(3, 50, 0))
    assert table.call(now) == ReadBack()
    table.read(seen or view(9, ME, SLAVE), now)
    return table


def taken(table: Mastership, now: float = 100.0) -> Take:
    """Have it become master."""
    call = table.call(now)
    assert isinstance(call, Take)
    done = Ruling(verdict=Verdict.DONE, tenure=TENURE, state_revision=10)
    table.answered(call, done, now + 0.1)
    return call


def master(now: float = 100.0) -> Mastership:
    """Return a member that is master, alone in sync, and was renewed now."""
    table = begun(now)
    taken(table, now)
    renew = table.renewal(now)
    assert renew is not None
    table.renewed(renew, RENEWED, now, now)
    table.opened(4, now)
    assert phase_of(table) is Phase.MASTER
    table.progressed(log(4, 50, 50))
    assert table.call(now) is None
    return table


def grown(now: float = 100.0) -> Mastership:
    """Return a master with a slave in sync."""
    table = master(now)
    table.heard(SLAVE, 4, 50, now)
    assert table.call(now) is None
    call = table.call(now)
    assert isinstance(call, Alter)
    table.answered(call, Ruling(verdict=Verdict.DONE, state_revision=11), now)
    return table


def test_a_member_in_sync_takes_what_nobody_has() -> None:
    """With an epoch that is greater, on the state that it saw, alone in sync at first."""
    table = begun()
    assert phase_of(table) is Phase.CANDIDATE
    call = taken(table)
    assert call.leader.epoch == call.state.epoch == 4
    assert call.state.in_sync == {ME}
    assert call.seen_revision == 5
    assert table.role == Role(RoleKind.MASTER, 4)
    assert phase_of(table) is Phase.OPENING
    assert table.deadline == 104.0, "counted from when it was asked"


@pytest.mark.parametrize(
    "seen",
    [
        view(9, SLAVE),
        view(9),
        view(9, ME, SLAVE, leader=leader_of(SLAVE), tenure=Tenure(revision=8, lease=1)),
        view(9, ME, leader=leader_of(ME), tenure=Tenure(revision=8, lease=1)),
        view(9, Member(ME.id, Incarnation("before")), SLAVE),
    ],
    ids=["not in sync", "no state", "another one leads", "its process before", "emptied"],
)
def test_who_may_not_be_master_does_not_stand(seen: SetView) -> None:
    """It follows, if there is somebody."""
    table = begun(seen=seen)
    assert phase_of(table) is Phase.FOLLOW
    assert table.call(101.0) is None
    assert table.role == Role(RoleKind.SLAVE)
    is_led = seen.leader is not None and seen.leader.member == SLAVE
    assert table.master == (seen.leader if is_led else None)


def test_the_epoch_is_greater_than_any_that_was_promised() -> None:
    """Also if the decider has forgotten how far the epochs were."""
    table = Mastership(ME, ADDRESSES, "p")
    table.progressed(LogState(epoch=8, promised=11, end=50, confirmed=0))
    table.call(0.0)
    table.read(view(1, ME, epoch=0), 0.0)
    assert taken(table, 0.0).leader.epoch == 12


def test_who_has_less_waits_for_others_a_moment() -> None:
    """Of those in sync."""
    for other, waits in ((report(SLAVE, 3, 51), True), (report(THIRD, 3, 51), False)):
        table = begun(seen=view(9, ME, SLAVE, reports=(other, report(ME, 3, 50))))
        assert isinstance(table.call(100.0), Take) is not waits
        assert isinstance(table.call(100.31), Take) is waits


def test_a_take_whose_end_is_unknown_is_read_back() -> None:
    """And found by its attempt; nothing is acknowledged before a renewal."""
    table = begun()
    call = table.call(100.0)
    assert isinstance(call, Take)
    table.answered(call, UNKNOWN, 100.4)
    assert table.call(100.5) is None
    assert table.call(100.7) == ReadBack()
    seen = view(12, ME, leader=call.leader, tenure=TENURE, epoch=4, state_revision=10)
    table.read(seen, 100.8)
    assert table.role == Role(RoleKind.MASTER, 4)
    table.opened(4, 100.9)
    assert phase_of(table) is Phase.FENCED
    renew = table.renewal(100.9)
    assert renew is not None
    table.renewed(renew, RENEWED, 100.9, 101.0)
    assert table.call(101.0) == ReadBack()
    table.read(view(13, ME, leader=call.leader, tenure=TENURE, state_revision=10), 101.0)
    assert table.may_acknowledge(101.0)


def test_a_take_that_is_lost_is_tried_again_on_what_holds_then() -> None:
    """If nobody is master."""
    table = begun()
    call = table.call(100.0)
    assert isinstance(call, Take)
    table.answered(call, LOST, 100.1)
    assert table.call(100.4) == ReadBack()
    table.read(view(20, ME, SLAVE, state_revision=20), 100.4)
    again = table.call(100.4)
    assert isinstance(again, Take)
    assert again.seen_revision == 20
    assert again.leader.attempt != call.leader.attempt


def test_the_deadline_counts_from_when_a_renewal_was_sent() -> None:
    """A late answer gives less; one of another time less never shortens it."""
    table = master(100.0)
    assert table.renewal(100.4) is None
    late = table.renewal(100.5)
    assert late is not None
    assert table.renewal(101.5) is None, "one at a time"
    table.renewed(late, RENEWED, 100.5, 102.0)
    assert table.deadline == 104.5
    assert table.may_acknowledge(104.4)
    assert not table.may_acknowledge(104.5)
    table.advance(104.5)
    assert table.role == Role(RoleKind.FENCED, 4)


def test_who_is_renewed_after_all_is_master_again() -> None:
    """If the decider says, too, that it still leads; the state is not touched meanwhile."""
    table = master(100.0)
    renew = table.renewal(100.5)
    assert renew is not None
    table.renewed(renew, UNKNOWN, 100.5, 100.9)
    table.advance(104.0)
    assert phase_of(table) is Phase.FENCED
    renew = table.renewal(104.0)
    assert renew is not None
    table.renewed(renew, RENEWED, 104.0, 104.1)
    assert phase_of(table) is Phase.FENCED
    assert table.call(104.1) == ReadBack()
    leader = Leader(member=ME, addresses=ADDRESSES, epoch=4, attempt="p-1")
    table.read(view(10, ME, leader=leader, tenure=TENURE, state_revision=10), 104.2)
    assert phase_of(table) is Phase.MASTER


def test_who_has_lost_the_lease_follows() -> None:
    """Whether the renewal says so or a view."""
    table = master(100.0)
    renew = table.renewal(100.5)
    assert renew is not None
    table.renewed(renew, LOST, 100.5, 100.6)
    assert phase_of(table) is Phase.FOLLOW
    table = master(100.0)
    other = leader_of(SLAVE)
    seen = view(20, SLAVE, leader=other, tenure=Tenure(revision=20, lease=5), state_revision=20)
    table.viewed(seen, 101.0)
    assert phase_of(table) is Phase.FOLLOW
    assert table.master == other
    assert not table.may_acknowledge(101.0)


def test_an_old_view_changes_nothing() -> None:
    """One from before it became master."""
    table = master(100.0)
    table.viewed(view(9, ME, SLAVE), 101.0)
    assert phase_of(table) is Phase.MASTER


def test_a_decider_that_was_emptied_has_forgotten_the_lease() -> None:
    """Whatever its revisions are; and then nobody stands, as no state is there."""
    table = master(100.0)
    table.viewed(view(2, decider_id="other"), 101.0)
    assert phase_of(table) is Phase.FOLLOW
    assert table.call(102.0) == ReadBack()
    table.read(view(3, decider_id="other"), 102.0)
    assert table.call(103.0) is None


def test_a_slave_joins_before_it_is_added() -> None:
    """From then on nothing is acknowledged without it; it is added once it has all."""
    table = master(100.0)
    table.progressed(log(4, 1000, 900))
    table.heard(SLAVE, 4, 600, 100.0)
    assert table.must == frozenset()
    assert table.call(100.1) is None
    assert table.must == {SLAVE}
    assert table.call(100.2) is None, "it lacks what was acknowledged"
    table.heard(SLAVE, 4, 900, 100.3)
    call = table.call(100.3)
    assert isinstance(call, Alter)
    assert call.state is not None
    assert call.state.in_sync == {ME, SLAVE}


def test_a_slave_of_another_epoch_does_not_count() -> None:
    """What it had then may be cut off."""
    table = master(100.0)
    table.heard(SLAVE, 3, 50, 100.0)
    table.call(100.1)
    assert table.must == frozenset()


def test_a_change_stays_open_until_the_state_has_another_revision() -> None:
    """A decider may carry it out after it was read: only another write ends that."""
    table = master(100.0)
    table.heard(SLAVE, 4, 50, 100.0)
    table.call(100.0)
    call = table.call(100.0)
    assert isinstance(call, Alter)
    table.answered(call, UNKNOWN, 100.4)
    assert table.call(100.5) is None
    assert table.call(100.7) == ReadBack()
    leader = Leader(member=ME, addresses=ADDRESSES, epoch=4, attempt="p-1")
    table.read(view(30, ME, leader=leader, tenure=TENURE, state_revision=10), 100.7)
    assert table.must == {SLAVE}
    assert table.renewal(103.0) is not None
    again = table.call(103.5)  # meanwhile it has said nothing
    assert isinstance(again, Alter)
    assert again.state is not None
    assert again.state.in_sync == {ME}
    assert table.must == {SLAVE}
    table.answered(again, Ruling(verdict=Verdict.DONE, state_revision=31), 103.6)
    assert table.must == frozenset()


def test_a_slave_is_waited_for_until_it_was_removed() -> None:
    """It says the same for 10 s although there is more; only the answer ends the wait."""
    table = grown(100.0)
    now = 100.0
    for _ in range(19):
        now += 0.5
        renew = table.renewal(now)
        assert renew is not None
        table.renewed(renew, RENEWED, now, now)
        table.progressed(log(4, 60, 50))
        table.heard(SLAVE, 4, 50, now)
        assert table.call(now) is None
    call = table.call(110.0)
    assert isinstance(call, Alter)
    assert call.state is not None
    assert call.state.in_sync == {ME}
    assert table.must == {SLAVE}
    table.answered(call, Ruling(verdict=Verdict.DONE, state_revision=12), 110.1)
    assert table.must == frozenset()


def test_a_quiet_slave_stays_in_sync() -> None:
    """One that says that it has everything."""
    table = grown(100.0)
    for now in range(101, 120):
        table.heard(SLAVE, 4, 50, float(now))
        table.progressed(log(4, 50, 50))
        renew = table.renewal(float(now))
        assert renew is not None
        table.renewed(renew, RENEWED, float(now), float(now))
        assert table.call(float(now)) is None


def test_with_too_few_in_sync_nothing_is_acknowledged() -> None:
    """As the state says."""
    table = begun(seen=view(9, ME, SLAVE))
    call = table.call(100.0)
    assert isinstance(call, Take)
    wanted = SetState(epoch=4, master=ME, in_sync=frozenset({ME}), in_sync_min=2)
    seen = SetView(
        decider_id="d",
        revision=10,
        leader=call.leader,
        tenure=TENURE,
        state=wanted,
        state_revision=10,
        reports={},
    )
    table.viewed(seen, 100.1)
    renew = table.renewal(100.1)
    assert renew is not None
    table.renewed(renew, RENEWED, 100.1, 100.1)
    table.opened(4, 100.1)
    assert phase_of(table) is Phase.MASTER
    assert not table.may_acknowledge(100.2)


def test_a_master_hands_over() -> None:
    """Once its slaves in sync have everything; then it lets others go first."""
    table = master(100.0)
    assert table.hand_over(100.0) == "no slave is in sync"
    table = grown(100.0)
    table.progressed(log(4, 60, 50))
    assert table.hand_over(100.0) == ""
    assert table.hands_over
    assert table.call(100.1) is None
    table.heard(SLAVE, 4, 60, 100.2)
    table.progressed(log(4, 60, 60))
    call = table.call(100.2)
    assert isinstance(call, Alter)
    assert call.state is None
    table.answered(call, Ruling(verdict=Verdict.DONE), 100.3)
    assert phase_of(table) is Phase.FOLLOW
    assert table.call(100.3) == ReadBack()
    table.read(view(40, ME, SLAVE, state_revision=11), 100.4)
    assert phase_of(table) is Phase.FOLLOW
    table.advance(110.4)
    assert phase_of(table) is Phase.CANDIDATE


def test_who_has_handed_over_stands_again_once_another_one_led() -> None:
    """However soon that one is gone."""
    table = grown(100.0)
    assert table.hand_over(100.0) == ""
    call = table.call(100.1)
    assert isinstance(call, Alter)
    table.answered(call, Ruling(verdict=Verdict.DONE), 100.2)
    table.call(100.2)
    other = leader_of(SLAVE)
    tenure = Tenure(revision=41, lease=5)
    led = view(41, ME, SLAVE, leader=other, tenure=tenure, state_revision=41)
    table.read(led, 100.4)
    assert table.master == other
    table.viewed(view(42, ME, SLAVE, state_revision=41), 100.5)
    assert phase_of(table) is Phase.CANDIDATE


def test_a_hand_over_that_nobody_can_take_ends() -> None:
    """Senders are served again."""
    table = grown(100.0)
    table.progressed(log(4, 60, 50))
    assert table.hand_over(100.0) == ""
    for now in (102.0, 104.0, 106.0, 108.0, 110.0):
        renew = table.renewal(now)
        assert renew is not None
        table.renewed(renew, RENEWED, now, now)
        table.advance(now)
    assert not table.hands_over
    assert phase_of(table) is Phase.MASTER


def test_a_closed_broker_does_not_stand() -> None:
    """Until it is open again."""
    table = Mastership(ME, ADDRESSES, "p")
    table.call(100.0)
    table.read(view(9, ME, SLAVE), 100.0)
    assert phase_of(table) is Phase.FOLLOW
    table.progressed(log(3, 50, 0))
    table.advance(100.1)
    assert phase_of(table) is Phase.CANDIDATE
    table.closed()
    table.advance(100.2)
    assert phase_of(table) is Phase.FOLLOW


# Where nobody decides between two masters.


def kept(number: int = 1, now: float = 100.0) -> tuple[Mastership, Take]:
    """Return a master of a set that nobody leaves by itself, in which a slave is in sync."""
    me = Member(MemberId(number), Incarnation("i1"))
    table = Mastership(me, ADDRESSES, "p", keeps_set=True)
    table.progressed(log(3, 50, 0))
    assert table.call(now) == ReadBack()
    table.read(view(9, me, SLAVE), now)
    call = taken(table, now)
    renew = table.renewal(now)
    assert renew is not None
    table.renewed(renew, RENEWED, now, now)
    table.opened(call.leader.epoch, now)
    table.progressed(log(call.leader.epoch, 50, 0))
    return table, call


@pytest.mark.parametrize("number", [1, 3, 4, 5, 63, 64, 65])
def test_an_epoch_is_the_members_own(number: int) -> None:
    """Greater than any that was promised, and no other member's of the first 64."""
    _, call = kept(number)
    epoch = call.leader.epoch
    assert 3 < epoch <= 3 + 64
    assert epoch % 64 == number % 64


def test_who_becomes_master_waits_for_all_that_were_in_sync() -> None:
    """However long they say nothing: nobody knows whether one of them is master, too."""
    table, call = kept()
    assert call.state.in_sync == {ME, SLAVE}
    for now in range(101, 140):
        renew = table.renewal(float(now))
        assert renew is not None
        table.renewed(renew, RENEWED, float(now), float(now))
        assert table.call(float(now)) is None
    assert table.must == {SLAVE}


def test_who_is_taken_out_is_heard_again_before_it_joins() -> None:
    """An operator has the master go on without a slave that was there a moment ago."""
    table, call = kept()
    epoch = call.leader.epoch
    table.heard(SLAVE, epoch, 50, 100.0)
    assert table.call(100.0) is None
    said = SetView(
        decider_id="d",
        revision=12,
        leader=call.leader,
        tenure=TENURE,
        state=SetState(epoch=epoch, master=ME, in_sync=frozenset({ME}), in_sync_min=1),
        state_revision=12,
        reports={},
    )
    table.viewed(said, 100.1)
    assert table.call(100.2) is None
    assert table.must == frozenset()
    table.heard(SLAVE, epoch, 50, 100.3)
    assert table.call(100.3) is None
    assert table.must == {SLAVE}


def test_an_emptied_disk_takes_the_place_of_what_it_was() -> None:
    """Nobody else has that number: what was on it is gone, and is not waited for any more."""
    table, call = kept()
    epoch = call.leader.epoch
    emptied = Member(SLAVE.id, Incarnation("new"))
    table.heard(emptied, epoch, 50, 100.0)
    assert table.call(100.0) is None
    assert table.must == {SLAVE, emptied}
    change = table.call(100.1)
    assert isinstance(change, Alter)
    assert change.state is not None
    assert change.state.in_sync == {ME, emptied}


def test_a_slave_that_was_never_heard_is_not_handed_over_to() -> None:
    """Although it is in sync for all that is known."""
    table, _ = kept()
    assert table.hand_over(100.0) == ""
    assert table.call(100.1) is None
    assert table.hands_over


def test_a_master_that_hands_over_waits_a_moment_for_tables() -> None:
    """For what there was when it began to; not for long."""
    for tables, at in ((7, 100.1), (6, 101.1)):
        table = grown(100.0)
        table.progressed(LogState(epoch=4, promised=4, end=50, confirmed=50, tables=7))
        assert table.hand_over(100.0) == ""
        table.progressed(LogState(epoch=4, promised=4, end=50, confirmed=50, tables=9))
        table.heard(SLAVE, 4, 50, 100.05, 6)
        assert table.call(100.05) is None
        table.heard(SLAVE, 4, 50, at, tables)
        call = table.call(at)
        assert isinstance(call, Alter)
        assert call.state is None
