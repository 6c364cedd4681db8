"""Channels under random use: no message is lost, none is settled twice, none is told twice."""

import re

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from tests.rabbit_channels import Pier, Told, ack_all, leave, put, reject_all
from tests.rabbit_queues import TINY, SlowStorage, message

from sprocket.rabbitmq.broker.channels import BrokerChannel, Got, Publication

MODES = st.sampled_from(["plain", "confirm", "tx"])
TOLD = re.compile(r"^(\w+) (\d+) (\d+)( again)?$")
ANSWERED = re.compile(r"^n?ack( up to)? (\d+)$")


class User:
    """A channel, and what its client knows."""

    def __init__(self, pier: Pier, mode: str, prefetch: int) -> None:
        self.channel: BrokerChannel
        self.client: Told
        self.channel, self.client = pier.channel()
        self.mode = mode
        self.published_count = 0
        self.unanswered: set[int] = set()
        self.held: dict[int, str] = {}
        """What it has, by tag, and has said nothing about."""
        self.said: dict[str, bool] = {}
        """What it has answered in its transaction, and whether that was for good."""
        self.pending: list[str] = []
        """What it has published in its transaction."""
        self.channel.qos(prefetch, is_global=False)
        if mode == "confirm":
            self.channel.confirm_select()
        elif mode == "tx":
            self.channel.tx_select()


class ChannelMachine(RuleBasedStateMachine):
    """One durable queue, and whoever comes."""

    users = Bundle("users")

    @initialize()
    def open(self) -> None:
        """Declare the queue."""
        self.pier = Pier(TINY)
        self.storage = SlowStorage()
        self.queue = self.pier.queue(storages=[self.storage])
        self.number = 0
        self.alive: list[User] = []
        self.there: set[str] = set()
        """What was published and not settled."""
        self.order: list[str] = []
        """Everything, in the order in which the queue got it."""

    @rule(target=users, mode=MODES, prefetch=st.integers(0, 3), consumes=st.integers(0, 2))
    def enter(self, mode: str, prefetch: int, consumes: int) -> User:
        """Open a channel with some consumers."""
        user = User(self.pier, mode, prefetch)
        for number in range(consumes):
            user.channel.consume(self.queue, f"c{number}")
        self.alive.append(user)
        self.settle()
        return user

    @rule(user=users, count=st.integers(1, 8))
    def publish(self, user: User, count: int) -> None:
        """Publish some messages."""
        if user not in self.alive:
            return
        bodies = [str(self.number + one) for one in range(count)]
        self.number += count
        cut = count // 3
        put(
            user.channel,
            [
                Publication([message(body) for body in some], positions, [self.queue])
                for some, positions in (
                    (bodies[:cut], range(cut)),
                    (bodies[cut:], range(cut, count)),
                )
                if some
            ],
        )
        for body in bodies:
            if user.mode == "confirm":
                user.published_count += 1
                user.unanswered.add(user.published_count)
            if user.mode == "tx":
                user.pending.append(body)
            else:
                self.there.add(body)
                self.order.append(body)
        self.settle()

    @rule(user=users)
    def get(self, user: User) -> None:
        """Get one."""
        if user not in self.alive:
            return
        got: list[Got | None] = []
        user.channel.get(self.queue, got.append, no_ack=False)
        self.settle()
        assert len(got) == 1
        user.held.update({one.tag: one.entry.message.body.decode() for one in got if one})

    @rule(
        user=users,
        data=st.data(),
        is_multiple=st.booleans(),
        how=st.sampled_from(["ack", "reject", "requeue"]),
    )
    def answer(self, user: User, data: st.DataObject, is_multiple: bool, how: str) -> None:
        """Say something about what it has."""
        if user not in self.alive or not user.held:
            return
        tag = data.draw(st.sampled_from(sorted(user.held)))
        about = [one for one in user.held if one == tag or (is_multiple and one < tag)]
        if is_multiple and how == "ack":
            ack_all(user.channel, tag)
        elif is_multiple:
            reject_all(user.channel, tag, is_requeue=how == "requeue")
        elif how == "ack":
            user.channel.ack([tag])
        else:
            user.channel.reject(tag, is_requeue=how == "requeue")
        for one in about:
            body = user.held.pop(one)
            if user.mode == "tx":
                user.said[body] = how != "requeue"
            elif how != "requeue":
                self.there.remove(body)
        self.settle()

    @rule(user=users, is_commit=st.booleans())
    def end_transaction(self, user: User, is_commit: bool) -> None:
        """Commit, or roll back; what was answered in it is not looked at again then."""
        if user not in self.alive or user.mode != "tx":
            return
        if is_commit:
            done: list[int] = []
            user.channel.tx_commit(lambda: done.append(1))
            self.there -= {body for body, is_final in user.said.items() if is_final}
            self.there |= set(user.pending)
            self.order += user.pending
            self.settle()
            assert done == [1]
        else:
            user.channel.tx_rollback()
        user.said, user.pending = {}, []
        self.settle()

    @rule(user=users)
    def recover(self, user: User) -> None:
        """Give everything back."""
        if user in self.alive:
            for _ in user.channel.recover_in_turns():
                pass
            user.held.clear()
            self.settle()

    @rule(user=users)
    def leave(self, user: User) -> None:
        """Close the channel."""
        if user in self.alive:
            self.alive.remove(user)
            leave(user.channel)
            self.settle()
            assert user.client.said() == []

    def settle(self) -> None:
        """Let turns pass, and take down what clients are told."""
        self.pier.settle()
        for user in self.alive:
            for line in user.client.said():
                if found := TOLD.match(line):
                    tag, body = int(found[2]), found[3]
                    assert tag not in user.held
                    user.held[tag] = body
                else:
                    answered = ANSWERED.match(line)
                    assert answered is not None, line
                    last = int(answered[2])
                    about = {one for one in user.unanswered if one == last or answered[1]}
                    about = {one for one in about if one <= last}
                    assert last in about
                    user.unanswered -= about

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        """What is there is ready or with one client; every confirm has come."""
        assert self.storage.unacked_count() == len(self.there)
        assert self.queue.ready_count + self.queue.unacked_count == len(self.there)
        had = [body for user in self.alive for body in user.held.values()]
        assert len(had) == len(set(had))
        assert set(had) <= self.there
        assert [user.unanswered for user in self.alive if user.unanswered] == []

    def teardown(self) -> None:
        """When all are gone, all is ready, in order."""
        if not hasattr(self, "alive"):
            return
        for user in list(self.alive):
            self.leave(user)
        left = [body for body in self.order if body in self.there]
        assert self.pier.drain(self.queue) == left
        assert self.storage.unacked_count() == 0


ChannelMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestChannelsKeepEverything = ChannelMachine.TestCase
