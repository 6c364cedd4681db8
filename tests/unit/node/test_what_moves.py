"""What a new master of a set goes on with: each thing has one owner at a time, and comes once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.broker_pair import until
from tests.unit.node.test_broker_set import Set, run, running
from tests.unit.rocketmq.conftest import RawClient, message_ext
from tests.unit.rocketmq.server.handlers.messages.test_pop_requests import handles, messages
from tests.unit.rocketmq.server.handlers.messages.test_transactions import ending, half
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.failover import mastership
from sprocket.rocketmq.settings import TransactionSettings

QUEUES = 4


PROMPT = TransactionSettings(check_interval_ms=50, timeout_ms=0)


async def begun(members: Set) -> RawClient:
    """Start both members; return a client of the first, which is master."""
    await members.start(1)
    await members.start(2)
    await until(lambda: len(members.etcd.keys) == 2)
    await members.admin.failover.begin("broker-a", [1])
    client = await members.master()
    await members.in_sync(2)
    return client


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have masters that hand over wait for tables on a busy machine, too."""
    monkeypatch.setattr(mastership, "TABLES_SECONDS", LONG_SECONDS)


async def switched(members: Set, epoch: int = 1) -> RawClient:
    """Have the other one be master."""
    await members.in_sync(2)
    await members.admin.failover.hand_over("broker-a", 2 if epoch % 2 else 1)
    return await members.master(epoch)


async def bodies(client: RawClient, topic: str = "T") -> list[bytes]:
    """Return the bodies of all messages that consumers see, queue after queue."""
    found: list[bytes] = []
    for queue_id in range(QUEUES):
        asked = {"consumerGroup": "readers", "topic": topic, "queueId": queue_id, "sysFlag": 4}
        asked |= {"queueOffset": 0, "maxMsgNums": 32, "commitOffset": 0, "subVersion": 0}
        answer = await client.call(11, {**asked, "suspendTimeoutMillis": 0, "subscription": "*"})
        assert answer.code in {0, 19, 21}, answer
        if answer.code == 0:
            found += [message.body for message in record.decode_all(answer.body)]
    return found


async def comes(client: RawClient, *wanted: bytes) -> None:
    """Wait until consumers see just these messages, in any order."""
    async with asyncio.timeout(LONG_SECONDS):
        while sorted(await bodies(client)) != sorted(wanted):
            await asyncio.sleep(0.05)


def moving(scenario: Callable[[Set, RawClient], Awaitable[None]], **more: Any) -> None:
    """Run a scenario that begins with the first member as master."""

    async def main() -> None:
        async with running() as members:
            members.more = more
            await scenario(members, await begun(members))

    run(main)


def test_a_half_message_is_ended_at_the_new_master_or_asked_for_there() -> None:
    """By the offsets that the old one gave; what nobody ends is asked for by the new one alone."""

    async def scenario(members: Set, first: RawClient) -> None:
        committed = (await first.call(310, half("U1"), b"committed")).ext_map()
        rolled_back = (await first.call(310, half("U2"), b"rolled back")).ext_map()
        assert (await first.call(310, half("U3"), b"asked for")).code == 0
        ended = (await first.call(310, half("U4"), b"ended before")).ext_map()
        assert (await first.call(37, ending(ended))).code == 0
        second = await switched(members)
        assert (await second.call(37, ending(committed))).code == 0
        assert (await second.call(37, ending(rolled_back, commitOrRollback=12))).code == 0
        assert (await second.call(37, ending(ended))).code == 1, "it has ended already"
        beat = {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
        assert (await second.call(34, {}, json.dumps(beat).encode())).code == 0
        async with asyncio.timeout(LONG_SECONDS):
            while (asked := await second.pushed.get()).code != 39:
                pass
        assert record.decode(asked.body).body == b"asked for"
        fields = asked.ext_map()
        answer = {
            "producerGroup": "p",
            "tranStateTableOffset": fields["tranStateTableOffset"],
            "commitLogOffset": fields["commitLogOffset"],
            "commitOrRollback": 8,
            "fromTransactionCheck": "true",
        }
        assert (await second.call(37, answer)).code == 0
        await comes(second, b"committed", b"ended before", b"asked for")

    moving(scenario, transactions=PROMPT)


def test_what_is_to_come_later_comes_once_from_whoever_is_master_then() -> None:
    """By time and by level: before the switch from the first, after it from the second."""

    async def scenario(members: Set, first: RawClient) -> None:
        async def send(body: bytes, wait: str) -> None:
            text = f"UNIQ_KEY\x01{body.decode()}\x02{wait}"
            assert (await first.call(310, message_ext(i=text), body)).code == 0

        await send(b"timed soon", "TIMER_DELAY_MS\x01100\x02")
        await send(b"level soon", "DELAY\x011\x02")
        await comes(first, b"timed soon", b"level soon")
        await send(b"timed later", "TIMER_DELAY_MS\x011500\x02")
        await send(b"level later", "DELAY\x011\x02")
        second = await switched(members)
        everything = b"timed soon", b"level soon", b"timed later", b"level later"
        await comes(second, *everything)
        third = await switched(members, epoch=2)
        await comes(third, *everything)

    moving(scenario)


def test_locks_are_taken_anew_and_pulls_that_wait_end() -> None:
    """The old master lets nobody wait that it cannot answer; the new one has no locks yet."""

    async def scenario(members: Set, first: RawClient) -> None:
        assert (await first.call(310, message_ext(e=0), b"one")).code == 0

        async def locked(client: RawClient, client_id: str) -> int:
            queue = {"topic": "T", "brokerName": "broker-a", "queueId": 0}
            body = {"consumerGroup": "g", "clientId": client_id, "mqSet": [queue]}
            answer = await client.call(41, {}, json.dumps(body).encode())
            return len(json.loads(answer.body)["lockOKMQSet"])

        assert await locked(first, "a") == 1
        assert await locked(first, "b") == 0
        pull = {"consumerGroup": "g", "topic": "T", "queueId": 0, "queueOffset": 1}
        pull |= {"maxMsgNums": 32, "sysFlag": 6, "commitOffset": 0, "subVersion": 0}
        closed = asyncio.Event()
        first.peer.when_closed(lambda _: closed.set())
        waiting = first.send(11, {**pull, "suspendTimeoutMillis": 60_000, "subscription": "*"})
        second = await switched(members)
        async with asyncio.timeout(LONG_SECONDS):
            await closed.wait()
        assert (await waiting).code == 19, "there was nothing"
        assert await locked(second, "b") == 1
        assert await locked(second, "a") == 0

    moving(scenario)


def test_what_was_popped_moves_with_its_acknowledgements() -> None:
    """Neither comes again at the new master, which takes handles; what is open comes in time."""

    async def pop(client: RawClient) -> Any:
        asked = {"consumerGroup": "g", "topic": "T", "queueId": -1, "maxMsgNums": 32}
        asked |= {"invisibleTime": 600_000, "pollTime": 0, "initMode": 0, "bornTime": 0}
        return await client.call(200050, asked)

    async def scenario(members: Set, first: RawClient) -> None:
        for number in range(5):
            assert (await first.call(310, message_ext(e=0), b"m%d" % number)).code == 0
        found: list[tuple[Any, str]] = []
        async with asyncio.timeout(LONG_SECONDS):
            while len(found) < 5:
                answer = await pop(first)
                found += handles(answer) if answer.code == 0 else []
        for number in (1, 2, 4):
            place, text = found[number]
            assert (await first.call(200051, {**place, "extraInfo": text})).code == 0
        second = await switched(members)
        assert (await pop(second)).code != 0
        place, text = found[3]
        assert (await second.call(200051, {**place, "extraInfo": text})).code == 0
        place, text = found[0]
        soon = {**place, "extraInfo": text, "invisibleTime": 1}
        assert (await second.call(200053, soon)).code == 0
        async with asyncio.timeout(LONG_SECONDS):
            while (answer := await pop(second)).code != 0:
                await asyncio.sleep(0.05)
        assert [one.body for one in messages(answer)] == [b"m0"]

    moving(scenario)
