"""NameServers learn of every topic, also those that come late, refuse or go away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests import sockets
from tests.waits import LONG_SECONDS

from sprocket.base.errors import SettingsError
from sprocket.base.place import Place
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import bodies, command, registration_body
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import NoFields, QueryDataVersionAnswer
from sprocket.rocketmq.codec.signature import SigningKey
from sprocket.rocketmq.codec.signed_request import SignedRequests
from sprocket.rocketmq.model.rights import SessionCredentials
from sprocket.rocketmq.model.route import BrokerData, ClusterInfo
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.remoting import Connection, MakeRequest
from sprocket.rocketmq.server.nameservers import (
    BrokerNameServers,
    Identity,
    Registration,
    registration,
)
from sprocket.rocketmq.settings import BrokerSettings, TopicSettings
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer, Server
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk


class FakeNameServer:
    """Notes the names of the topics that each registration brings."""

    def __init__(self) -> None:
        self.server: Server
        self.seen: list[set[str]] = []
        self.perms: dict[str, int] = {}
        self.left: list[str] = []
        self.refuse = 0
        self.asked = 0
        self.is_current = False
        self.leaves_fields_out = False
        self.holders = {0: "127.0.0.1:1"}
        self.is_silent = False
        self.signed = 0
        """Requests that the user `inner` has signed."""

    async def start(self, port: int = 0) -> None:
        """Listen."""
        self.server = await sockets.serve(Connection, self.on_command, "127.0.0.1", port)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.server.port}"

    def on_command(self, peer: Peer, request: Command) -> None:
        """Take a registration, refuse it or say nothing."""
        if self.is_silent:
            return
        ext = request.ext_map()
        self.signed += ext.get("AccessKey") == "inner" and SigningKey("inner-secret").is_right(
            ext["Signature"], ext, request.body
        )
        if request.code == RequestCode.QUERY_DATA_VERSION:
            self.asked += 1
            changed = QueryDataVersionAnswer(changed=not self.is_current)
            peer.send(response(request, 0, None if self.leaves_fields_out else changed))
            return
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            broker = BrokerData(cluster="C", name="b", addresses=self.holders)
            brokers = {"b": broker} if self.holders else {}
            info = ClusterInfo(brokers=brokers, clusters={})
            peer.send(response(request, 0, body=[bodies.encode(info)]))
            return
        if request.code == RequestCode.UNREGISTER_BROKER:
            self.left.append(request.ext_map()["brokerName"])
        elif self.refuse:
            self.refuse -= 1
            peer.send(response(request, 1, remark="no"))
            return
        else:
            body = registration_body.decode(request.body)
            self.seen.append({topic.name for topic in body.topics})
            self.perms |= {topic.name: topic.perm for topic in body.topics}
        peer.send(response(request, 0))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(LONG_SECONDS):
            while not condition():
                await asyncio.sleep(0)


Scenario = Callable[[FakeNameServer, Topics, Registration], Awaitable[None]]


def run(scenario: Scenario, **more: Any) -> None:
    """Run a scenario with one NameServer that is there from the start."""
    driver.run(running(scenario, **more))


async def running(
    scenario: Scenario,
    *,
    others: tuple[str, ...] = (),
    make_request: MakeRequest = command.request,
) -> None:
    """Do what `run` does, in a loop that runs."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    nameserver = FakeNameServer()
    await nameserver.start()
    known = BrokerNameServers([nameserver.address, *others])
    topics = Topics(Place(disk, "/s", FakeClock()), BrokerSettings(), TopicSettings(), known.note)
    registered = Registration(
        Identity(name="b", cluster="C", address="127.0.0.1:1"),
        topics,
        known,
        30,
        FakeClock(),
        make_request=make_request,
    )
    await registered.start()
    try:
        await scenario(nameserver, topics, registered)
    finally:
        await registered.stop()
        await nameserver.server.close()


def test_what_nameservers_are_told_may_be_signed() -> None:
    """By the broker's inner user, as RocketMQ's brokers do; otherwise nobody signs."""
    counts = []

    async def scenario(nameserver: FakeNameServer, _: Topics, it: Registration) -> None:
        await it.stop()
        counts.append((len(nameserver.seen), len(nameserver.left), nameserver.signed))

    run(scenario)
    inner = SessionCredentials("inner", "inner-secret")
    run(scenario, make_request=SignedRequests(inner))
    assert counts[0] == (1, 1, 0)
    assert counts[1][:2] == (1, 1)
    assert counts[1][2] >= 2


def test_everything_at_the_start_and_changes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is told at once, and `when_registered` says when."""
    monkeypatch.setattr(registration, "ANSWER_MS", 3_600_000)

    async def scenario(nameserver: FakeNameServer, topics: Topics, it: Registration) -> None:
        assert nameserver.seen == [{topic.name for topic in topics.all()}]
        told = asyncio.Event()
        topics.put(TopicConfig(name="T"))
        it.when_registered(told.set)
        assert not told.is_set()
        await asyncio.wait_for(told.wait(), LONG_SECONDS)
        assert nameserver.seen[1:] == [{"T"}]
        it.when_registered(told.clear)
        assert not told.is_set()

    run(scenario)


def test_no_topic_is_open_to_more_than_the_broker() -> None:
    """For NameServers, and by what is registered after a change as well as by what was before."""

    async def scenario(nameserver: FakeNameServer, topics: Topics, it: Registration) -> None:
        def told() -> asyncio.Event:
            event = asyncio.Event()
            it.when_registered(event.set)
            return event

        assert {nameserver.perms["broker-a"], nameserver.perms["BenchmarkTest"]} == {7, 6}
        topics.use(TopicSettings(permission=4))
        await nameserver.until(lambda: set(nameserver.perms.values()) == {4, 0})
        topics.put(TopicConfig(name="T"))
        await asyncio.wait_for(told().wait(), LONG_SECONDS)
        assert nameserver.perms["T"] == 4
        topics.use(TopicSettings())
        await nameserver.until(lambda: nameserver.perms["T"] == 6)
        assert nameserver.perms["broker-a"] == 7

    run(scenario)


def test_a_change_is_told_when_every_nameserver_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that answers does not stand for another; one that is lost is not waited for."""
    monkeypatch.setattr(registration, "ANSWER_MS", 3_600_000)

    async def main() -> None:
        slow = FakeNameServer()
        await slow.start()
        told = asyncio.Event()

        async def scenario(quick: FakeNameServer, topics: Topics, it: Registration) -> None:
            slow.is_silent = True
            topics.put(TopicConfig(name="T"))
            it.when_registered(told.set)
            await quick.until(lambda: quick.seen[1:] == [{"T"}])
            first = it.nameservers.channels()[0]  # what it answers now it answers after that
            await first.ask(RequestCode.QUERY_DATA_VERSION, NoFields(), timeout_ms=10_000)
            assert not told.is_set()
            for peer in list(slow.server.peers):
                peer.close()
            await asyncio.wait_for(told.wait(), LONG_SECONDS)

        await running(scenario, others=(slow.address,))
        await slow.server.close()

    driver.run(main())


def test_a_refused_change_is_followed_by_everything() -> None:
    """A NameServer that was restarted does not know the broker."""

    async def scenario(nameserver: FakeNameServer, topics: Topics, it: Registration) -> None:
        nameserver.refuse = 1
        topics.put(TopicConfig(name="T"))
        told = asyncio.Event()
        it.when_registered(told.set)
        await asyncio.wait_for(told.wait(), LONG_SECONDS)
        assert nameserver.seen[1:] == [{topic.name for topic in topics.all()}]

    run(scenario)


def test_nobody_waits_long_for_a_silent_nameserver(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as lost, and gets everything later."""

    async def scenario(nameserver: FakeNameServer, topics: Topics, it: Registration) -> None:
        nameserver.is_silent = True
        monkeypatch.setattr(registration, "ANSWER_MS", 10)
        topics.put(TopicConfig(name="T"))
        told = asyncio.Event()
        it.when_registered(told.set)
        await asyncio.wait_for(told.wait(), LONG_SECONDS)
        nameserver.is_silent = False

    run(scenario)


def test_a_lost_connection_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, not when it is time to register, and everything is registered over the new one."""
    monkeypatch.setattr(registration, "RETRY_SECONDS", 0.001)

    async def scenario(nameserver: FakeNameServer, topics: Topics, _: Registration) -> None:
        for peer in list(nameserver.server.peers):
            peer.close()
        await nameserver.until(lambda: len(nameserver.seen) >= 2)
        assert nameserver.seen[-1] == {topic.name for topic in topics.all()}

    run(scenario)


def test_a_nameserver_that_is_not_there_holds_nobody_up() -> None:
    """The others are told, and starting and stopping go on."""

    async def scenario(nameserver: FakeNameServer, _: Topics, __: Registration) -> None:
        assert len(nameserver.seen) == 1

    run(scenario, others=("127.0.0.1:1",))


def test_a_silent_nameserver_does_not_delay_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts and says nothing; who is told of the others' routes need not wait for it."""
    monkeypatch.setattr(registration, "START_SECONDS", 0.01)
    monkeypatch.setattr(registration, "ANSWER_MS", 3_600_000)

    async def main() -> None:
        disk = SimulatedDisk()
        disk.make_folder("/s/config")
        topics = Topics(Place(disk, "/s", FakeClock()), BrokerSettings(), TopicSettings())
        silent, other = FakeNameServer(), FakeNameServer()
        silent.is_silent = True
        await silent.start()
        await other.start()
        registered = Registration(
            Identity(name="b", cluster="C", address="127.0.0.1:1"),
            topics,
            BrokerNameServers([silent.address, other.address]),
            30,
            FakeClock(),
        )
        async with asyncio.timeout(LONG_SECONDS):
            await registered.start()
            await other.until(lambda: registered.nameservers.all[1].is_up)
            assert len(other.seen) == 1
            await registered.stop()
        assert other.left == ["b"]
        await silent.server.close()
        await other.server.close()

    driver.run(main())


def test_the_broker_takes_its_leave() -> None:
    """Stopping unregisters."""
    nameservers: list[FakeNameServer] = []

    async def scenario(nameserver: FakeNameServer, _: Topics, __: Registration) -> None:
        nameservers.append(nameserver)

    run(scenario)
    assert nameservers[0].left == ["b"]


def test_an_address_is_host_and_port() -> None:
    """`host:port`, with brackets around an IPv6 address; anything else is a wrong setting."""
    assert [one.address for one in BrokerNameServers([" a.b:1 ", "[::1]:9876"]).all] == [
        "a.b:1",
        "[::1]:9876",
    ]
    for wrong in ("", "a", "a:", ":1", "a:b", "a:70000"):
        with pytest.raises(SettingsError, match="no NameServer: "):
            BrokerNameServers([wrong])


def test_a_nameserver_that_knows_everything_is_only_asked() -> None:
    """All topics again, when nothing has changed, held the loops of both up: 70 ms for 10,000."""

    async def scenario(nameserver: FakeNameServer, topics: Topics, it: Registration) -> None:
        nameserver.is_current = True
        it.nameservers.note([])
        await nameserver.until(lambda: nameserver.asked == 1)
        topics.put(TopicConfig(name="T"))
        await nameserver.until(lambda: len(nameserver.seen) == 2)
        assert nameserver.seen[1:] == [{"T"}]
        nameserver.is_current = False
        it.nameservers.note([])
        await nameserver.until(lambda: len(nameserver.seen) == 3)
        assert nameserver.seen[2] == {topic.name for topic in topics.all()}

    run(scenario)


def test_a_nameserver_whose_answer_lacks_a_field_counts_as_lost() -> None:
    """The broker connects to it again later, and does not give it up."""

    async def scenario(nameserver: FakeNameServer, _: Topics, it: Registration) -> None:
        nameserver.leaves_fields_out = True
        it.nameservers.note([])
        await nameserver.until(lambda: not it.nameservers.all[0].is_up)

    run(scenario)


@pytest.mark.parametrize("holders", [{}, {0: "127.0.0.1:2"}, {1: "127.0.0.1:1"}])
def test_who_has_lost_their_place_in_the_routes_registers_again(holders: dict[int, str]) -> None:
    """Another broker of the name came, and may be gone; no version has changed by that."""

    async def scenario(nameserver: FakeNameServer, topics: Topics, it: Registration) -> None:
        nameserver.is_current = True
        nameserver.holders = holders
        it.nameservers.note([])
        await nameserver.until(lambda: len(nameserver.seen) == 2)
        assert nameserver.seen[1] == {topic.name for topic in topics.all()}

    run(scenario)
