"""A message of a transaction: hidden, worked on, ended; and what the broker asks about it."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from sprocket.base.errors import BrokerRefused, ClientError, InvalidMessage
from sprocket.rocketmq.client import (
    Client,
    Message,
    Producer,
    ProducerSettings,
    ReceivedMessage,
    Transaction,
    TransactionProducer,
    TransactionState,
)
from sprocket.rocketmq.client.producer import transaction_checks
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import (
    CheckTransaction,
    EndTransaction,
    SendMessageAnswer,
    SendMessageV2,
)
from sprocket.rocketmq.codec.record import ids, record
from sprocket.runtime.driver import Peer

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)


class Broker:
    """The broker's half: keeps how transactions are said to have ended, and asks.

    Attributes:
        ends: What producers said, in order.
        code: The answer to it.
    """

    def __init__(self, world: Any) -> None:
        self.world = world
        self.ends: list[EndTransaction] = []
        self.code = ResponseCode.SUCCESS
        world.cluster.topics["t"] = 1
        world.cluster.on[RequestCode.END_TRANSACTION] = self._end

    def _end(self, peer: Peer, command: Command) -> None:
        self.ends.append(command.header(EndTransaction))
        if not command.is_oneway:
            peer.send(response(command, self.code))

    @property
    def told(self) -> list[tuple[str | None, int, bool]]:
        """Which message, how it ended, and whether the broker had asked."""
        return [
            (one.msg_id, one.commit_or_rollback, one.from_transaction_check) for one in self.ends
        ]

    def ask(self, offset: int = 0, times: int = 1, *, place: int | None = None) -> str:
        """Ask any producer about a message; return the message's id."""
        encoded = self.world.cluster.log["t", 0][offset]
        stored = record.decode(encoded)
        header = CheckTransaction(
            topic="t",
            tran_state_table_offset=offset,
            commit_log_offset=stored.physical_offset if place is None else place,
            msg_id=stored.message_id,
            transaction_id=stored.message_id,
            offset_msg_id=stored.offset_message_id,
        )
        (client_id,) = self.world.cluster.peers
        code = RequestCode.CHECK_TRANSACTION_STATE
        for _ in range(times):
            self.world.cluster.ask(client_id, code, header, encoded, oneway=True)
        return stored.message_id

    async def asked(self, offset: int = 0) -> str:
        """Ask, and let time pass until that has been dealt with."""
        number = self.ask(offset)
        await asyncio.sleep(0.1)
        return number


@pytest.fixture
def broker(world: Any) -> Broker:
    """Return the broker's half."""
    return Broker(world)


def says(state: TransactionState) -> Callable[[object], TransactionState]:
    """Return a function that knows."""
    return lambda _: state


def unsure(_: object) -> TransactionState:
    """Know nothing."""
    return UNKNOWN


def producing(world: Any, check: Any = unsure, **settings: Any) -> TransactionProducer:
    """Return a producer of group `g`."""
    return TransactionProducer(
        world.names, group="g", check=check, settings=ProducerSettings(**settings), **world.reach
    )


@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("is_async", [False, True])
def test_the_work_says_how_it_ends(
    world: Any, broker: Broker, state: TransactionState, is_async: bool
) -> None:
    """The half message is marked; the work is done while it waits; the broker is told its place."""

    async def main() -> None:
        def work(transaction: Transaction) -> TransactionState:
            assert broker.ends == []
            (half,) = [record.decode(one) for one in world.cluster.log["t", 0]]
            assert half.properties["TRAN_MSG"] == "true"
            assert half.properties["PGROUP"] == "g"
            assert half.message_id == transaction.message_id
            return state

        async def working(transaction: Transaction) -> TransactionState:
            await asyncio.sleep(0)
            return work(transaction)

        async with producing(world) as producer:
            found = await producer.send(Message("t", b"x"), working if is_async else work)
        half = record.decode(world.cluster.log["t", 0][0])
        (told,) = broker.ends
        assert (found.state, found.is_confirmed) == (state, True)
        assert found.sent.message_id == half.message_id
        assert told == EndTransaction(
            producer_group="g",
            topic="t",
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.physical_offset,
            commit_or_rollback=int(state),
            msg_id=half.message_id,
            transaction_id=half.message_id,
        )

    world.run(main)


def test_what_is_not_known_is_not_said(world: Any, broker: Broker) -> None:
    """UNKNOWN leaves the message to the check, which the broker asks."""

    async def main() -> None:
        async with producing(world, says(COMMIT)) as producer:
            found = await producer.send(Message("t", b"x"), says(UNKNOWN))
            assert (found.state, found.is_confirmed, broker.ends) == (UNKNOWN, False, [])
            number = await broker.asked()
            assert broker.told == [(number, COMMIT, True)]

    world.run(main)


@pytest.mark.parametrize("error", [ValueError("no bolts"), SystemExit(), KeyError("x")], ids=repr)
def test_work_that_fails_decides_nothing(world: Any, broker: Broker, error: BaseException) -> None:
    """Whoever sends gets the error; what the work did by then only the check can say."""

    async def main() -> None:
        async def work(_: Transaction) -> TransactionState:
            raise error

        async with producing(world, says(COMMIT)) as producer:
            with pytest.raises(type(error)) as raised:
                await producer.send(Message("t", b"x"), work)
            assert raised.value is error
            assert broker.ends == []
            number = await broker.asked()
            assert broker.told == [(number, COMMIT, True)]

    world.run(main)


@pytest.mark.parametrize("told", [None, True, "COMMIT", 8])
def test_work_has_to_say_a_state(world: Any, broker: Broker, told: Any) -> None:
    """Anything else is an error, not a commit."""

    async def main() -> None:
        async with producing(world) as producer:
            with pytest.raises(InvalidMessage, match=r"return TransactionState\.COMMIT"):
                await producer.send(Message("t", b"x"), lambda _: told)
        assert broker.ends == []

    world.run(main)


@pytest.mark.parametrize("status", [10, 11, 12])
def test_a_half_that_is_not_safe_is_rolled_back(world: Any, broker: Broker, status: int) -> None:
    """No work is done for it, and the sender is told why."""

    def store(peer: Peer, command: Command) -> None:
        header = command.header(SendMessageV2)
        number = ids.offset_message_id(ids.host_bytes("10.0.0.2", 10911), 77)
        answer = SendMessageAnswer(msg_id=number, queue_id=header.queue_id, queue_offset=5)
        peer.send(response(command, status, answer))

    world.cluster.on[RequestCode.SEND_MESSAGE_V2] = store

    async def main() -> None:
        done: list[object] = []
        async with producing(world) as producer:
            with pytest.raises(BrokerRefused, match="was rolled back") as raised:
                await producer.send(Message("t", b"x"), done.append)  # type: ignore[arg-type]
        assert raised.value.code == status
        assert done == []
        (told,) = broker.ends
        place = told.tran_state_table_offset, told.commit_log_offset
        assert (place, told.commit_or_rollback) == ((5, 77), ROLLBACK)

    world.run(main)


def test_an_end_that_the_broker_refuses_is_not_confirmed(world: Any, broker: Broker) -> None:
    """The sender gets no error, since its work is done: the broker will ask."""
    broker.code = ResponseCode.SYSTEM_ERROR

    async def main() -> None:
        async with producing(world) as producer:
            with capture_logs() as logs:
                found = await producer.send(Message("t", b"x"), says(COMMIT))
        assert (found.state, found.is_confirmed) == (COMMIT, False)
        assert [one["event"] for one in logs if one.get("state") == "COMMIT"]

    world.run(main)


def test_a_transaction_in_two_steps(world: Any, broker: Broker) -> None:
    """It ends once."""

    async def main() -> None:
        async with producing(world) as producer:
            first = await producer.begin(Message("t", b"1"))
            second = await producer.begin(Message("t", b"2"), queue=world.queue(0))
            assert first.state is UNKNOWN
            assert await second.commit()
            assert await first.rollback()
            with pytest.raises(ClientError, match="has ended already, by COMMIT"):
                await second.rollback()
        assert broker.told == [
            (second.message_id, COMMIT, False),
            (first.message_id, ROLLBACK, False),
        ]

    world.run(main)


def test_nobody_is_asked_while_the_work_goes_on(world: Any, broker: Broker) -> None:
    """The check cannot know yet how it ends; when the transaction is dropped, it is asked."""
    asked: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.message_id)
        return ROLLBACK

    async def main() -> None:
        async with producing(world, check) as producer:
            left = await producer.begin(Message("t", b"1"))
            dropped = await producer.begin(Message("t", b"2"))
            await broker.asked(0)
            await broker.asked(1)
            assert asked == []
            left.leave()
            numbers = [left.message_id, dropped.message_id]
            del dropped
            gc.collect()
            await broker.asked(0)
            await broker.asked(1)
            assert asked == numbers

    world.run(main)


class Unanswered:
    """A producer's connection that keeps what it is to be sent."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def send(self, answer: Any) -> None:
        """Keep it."""
        self.kept.append(answer)


@pytest.mark.parametrize("is_refused", [False, True])
def test_nobody_is_asked_before_the_half_is_answered(
    world: Any, broker: Broker, is_refused: bool
) -> None:
    """The work has not begun, so that the check would say that it has failed."""
    send = RequestCode.SEND_MESSAGE_V2
    usual, asked = world.cluster.usual(send), list[str]()

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.message_id)
        return ROLLBACK

    def store_and_ask(peer: Peer, command: Command) -> None:
        later = Unanswered()
        usual(later, command)
        broker.ask()
        if is_refused:
            world.cluster.refuse(peer, command, ResponseCode.MESSAGE_ILLEGAL, "no")
        else:
            peer.send(*later.kept)

    async def main() -> None:
        world.cluster.on[send] = store_and_ask
        async with producing(world, check) as producer:
            if is_refused:
                with pytest.raises(ClientError):
                    await producer.send(Message("t", b"1"), says(COMMIT))
                await asyncio.sleep(0.1)
                assert (asked, broker.told) == ([], [])
                number = await broker.asked()
                assert asked == [number]
            else:
                done = await producer.send(Message("t", b"1"), says(COMMIT))
                await asyncio.sleep(0.1)
                assert asked == []
                assert broker.told == [(done.sent.message_id, COMMIT, False)]

    world.run(main)


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"x", delay_level=1),
        Message("t", b"x", delay_ms=1),
        Message("t", b"x", properties={"TIMER_DELAY_MS": "5"}),
    ],
)
def test_a_message_of_a_transaction_is_not_delayed(world: Any, message: Message) -> None:
    """It is refused instead of being delivered at another time than asked for."""

    async def main() -> None:
        async with producing(world) as producer:
            with pytest.raises(InvalidMessage, match="cannot be delayed as well"):
                await producer.begin(message)
            with pytest.raises(InvalidMessage, match="not a message"):
                await producer.begin("x")  # type: ignore[arg-type]
        assert world.cluster.sends == []

    world.run(main)


@pytest.mark.parametrize("number", [["list"], 5, b"bytes"])
def test_an_id_that_is_no_text_is_refused(world: Any, broker: Broker, number: Any) -> None:
    """As by any producer, and nothing is sent."""

    async def main() -> None:
        async with producing(world) as producer:
            with pytest.raises(InvalidMessage):
                await producer.begin(Message("t", b"x", properties={"UNIQ_KEY": number}))
            assert world.cluster.sends == []

    world.run(main)


def test_messages_of_transactions_are_not_sent_together(world: Any, broker: Broker) -> None:
    """A broker takes no batches of them, also where others with the same key would make one."""

    async def main() -> None:
        async with producing(world) as producer:
            sending = [producer.begin(Message("t", b"%d" % n), sharding_key="k") for n in range(3)]
            begun = await asyncio.gather(*sending)
            assert [len(bodies) for _, bodies in world.cluster.sends] == [1, 1, 1]
            for one in begun:
                await one.rollback()

    world.run(main)


def test_the_group_is_known_before_anything_is_sent(world: Any, broker: Broker) -> None:
    """A program that was started again is asked about what the one before it has left."""

    async def main() -> None:
        kept(world, 1)
        async with producing(world, says(COMMIT)):
            await world.until(lambda: world.cluster.peers)
            await broker.asked()
            assert broker.told == [("0", COMMIT, True)]
            beats = world.cluster.seen.count(RequestCode.HEART_BEAT)
            await asyncio.sleep(120)
            assert world.cluster.seen.count(RequestCode.HEART_BEAT) - beats == 4

    world.run(main)


def test_each_group_of_a_client_is_asked_about_its_own(world: Any, broker: Broker) -> None:
    """Of a shared client the producer is asked whose message it is; others' are nobody's."""

    async def main() -> None:
        for group in ("a", "b", "c"):
            pairs = world.encoded(UNIQ_KEY=group, PGROUP=group)
            world.cluster.store("t", 0, b"x", pairs)
        async with (
            Client(world.names, **world.reach) as client,
            TransactionProducer(client, group="a", check=says(COMMIT)),
            TransactionProducer(client, group="b", check=says(ROLLBACK)),
            Producer(client, group="c"),
        ):
            await world.until(lambda: world.cluster.peers)
            for offset in range(3):
                await broker.asked(offset)
            assert broker.told == [("a", COMMIT, True), ("b", ROLLBACK, True)]

    world.run(main)


def kept(world: Any, count: int) -> None:
    """Store half messages of group `g`, named by their numbers."""
    for number in range(count):
        pairs = world.encoded(UNIQ_KEY=str(number), PGROUP="g")
        world.cluster.store("t", 0, b"%d" % number, pairs)


def test_a_check_that_fails_is_asked_again(world: Any, broker: Broker) -> None:
    """Whatever it raises or gives, it holds up nobody, and is told in the log."""

    async def check(message: ReceivedMessage) -> Any:
        if message.body == b"0":
            raise SystemExit
        return None if message.body == b"1" else COMMIT

    async def main() -> None:
        kept(world, 3)
        async with producing(world, check):
            await world.until(lambda: world.cluster.peers)
            with capture_logs() as logs:
                for offset in range(3):
                    await broker.asked(offset)
            failed = [one["message"] for one in logs if "failed" in one["event"]]
            assert failed == ["0", "1"]
            assert broker.told == [("2", COMMIT, True)]

    world.run(main)


def test_a_check_that_does_not_return_is_cancelled(world: Any, broker: Broker) -> None:
    """Those that wait for it go on then; a message is asked about once at a time."""
    calls: list[bytes] = []

    async def check(message: ReceivedMessage) -> TransactionState:
        calls.append(message.body)
        if message.body == b"0":
            await asyncio.Event().wait()
        return COMMIT

    async def main() -> None:
        kept(world, 3)
        async with producing(world, check, check_count_max=1, check_timeout_ms=5_000):
            await world.until(lambda: world.cluster.peers)
            broker.ask(0, times=3)
            broker.ask(1)
            broker.ask(2)
            broker.ask(1, place=4_711)
            await asyncio.sleep(4.9)
            assert calls == [b"0"]
            with capture_logs() as logs:
                await asyncio.sleep(0.2)
            assert [one["message"] for one in logs if "too long" in one["event"]] == ["0"]
            assert calls == [b"0", b"2", b"1"]
            assert broker.told == [("2", COMMIT, True), ("1", COMMIT, True)]
            assert broker.ends[1].commit_log_offset == 4_711

    world.run(main)


def test_the_newest_question_is_answered(world: Any, broker: Broker) -> None:
    """A broker that asks again has moved the half message meanwhile."""
    go_on = asyncio.Event()

    async def check(_: ReceivedMessage) -> TransactionState:
        await go_on.wait()
        return COMMIT

    async def main() -> None:
        kept(world, 1)
        async with producing(world, check):
            await world.until(lambda: world.cluster.peers)
            await broker.asked()
            broker.ask(place=4_711)
            await asyncio.sleep(0.1)
            go_on.set()
            with capture_logs() as logs:
                await asyncio.sleep(60)
            assert [one.commit_log_offset for one in broker.ends] == [4_711]
            assert logs == []

    world.run(main)


def test_questions_that_wait_have_a_limit(
    world: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In number and in bytes; what is dropped is told, and the broker asks again."""
    monkeypatch.setattr(transaction_checks, "WAITING_MAX", 2)
    go_on = asyncio.Event()

    async def check(_: ReceivedMessage) -> TransactionState:
        await go_on.wait()
        return COMMIT

    async def main() -> None:
        kept(world, 5)
        async with producing(world, check, check_count_max=1):
            await world.until(lambda: world.cluster.peers)
            with capture_logs() as logs:
                for offset in range(4):
                    await broker.asked(offset)
                monkeypatch.setattr(transaction_checks, "WAITING_BYTES_MAX", 1)
                await broker.asked(2)
            dropped = [one["message"] for one in logs if "dropped" in one["event"]]
            assert dropped == ["3", "2"]
            size = len(world.cluster.log["t", 0][1])
            monkeypatch.setattr(transaction_checks, "WAITING_BYTES_MAX", size)
            with capture_logs() as logs:
                broker.ask(1, times=3)  # each takes the place of the one before it
                await asyncio.sleep(0.1)
            assert logs == []
            go_on.set()
            await asyncio.sleep(0.1)
            assert [number for number, *_ in broker.told] == ["0", "1"]

    world.run(main)


def test_checks_end_with_their_producer(world: Any, broker: Broker) -> None:
    """One that runs is cancelled, one that waits does not begin."""
    calls: list[bytes] = []

    async def check(message: ReceivedMessage) -> TransactionState:
        calls.append(message.body)
        await asyncio.Event().wait()
        return COMMIT

    failures: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told))
        kept(world, 2)
        async with producing(world, check, check_count_max=1):
            await world.until(lambda: world.cluster.peers)
            await broker.asked(0)
            await broker.asked(1)
        await asyncio.sleep(60)
        assert (calls, broker.ends, failures) == ([b"0"], [], [])

    world.run(main)


def test_a_question_that_cannot_be_read_is_told(world: Any, broker: Broker) -> None:
    """It is nobody's, and does no harm."""

    async def main() -> None:
        kept(world, 1)
        async with producing(world, says(COMMIT)):
            await world.until(lambda: world.cluster.peers)
            (client_id,) = world.cluster.peers
            header = CheckTransaction(
                topic="t",
                tran_state_table_offset=0,
                commit_log_offset=0,
                msg_id="",
                transaction_id="",
                offset_msg_id="",
            )
            code = RequestCode.CHECK_TRANSACTION_STATE
            with capture_logs() as logs:
                world.cluster.ask(client_id, code, header, b"torn", oneway=True)
                await asyncio.sleep(0.1)
            assert "a broker's question cannot be read" in [one["event"] for one in logs]
            await broker.asked()
            assert broker.told == [("0", COMMIT, True)]

    world.run(main)


def test_a_check_is_needed(world: Any) -> None:
    """A group that nobody could ask would lose what its members leave."""
    with pytest.raises(InvalidMessage, match="expected a function"):
        producing(world, None)


def test_a_cancelled_with_waits_for_no_answer(world: Any, broker: Broker) -> None:
    """Whoever ends a program does not want to wait until the half message is too late."""

    async def main() -> None:
        world.hold(RequestCode.SEND_MESSAGE_V2)

        async def sending() -> None:
            async with producing(world) as producer:
                await producer.begin(Message("t", b"x"))

        task = asyncio.create_task(sending())
        await world.until(lambda: RequestCode.SEND_MESSAGE_V2 in world.cluster.seen)
        task.cancel()
        ended, _ = await asyncio.wait((task,), timeout=1)
        assert ended

    world.run(main)


def test_a_producer_may_be_closed_again(world: Any) -> None:
    """And before it was started."""

    async def main() -> None:
        producer = producing(world)
        await producer.close()
        await producer.start()
        await producer.close()
        await producer.close()
        with pytest.raises(ClientError, match="not open"):
            await producer.begin(Message("t", b"x"))

    world.run(main)
