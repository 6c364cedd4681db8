"""Transactions of programs without an event loop."""

import threading
from queue import SimpleQueue
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import ProducerSettings
from sprocket.rocketmq.client.blocking import (
    Message,
    ReceivedMessage,
    Transaction,
    TransactionProducer,
    TransactionState,
)
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import CheckTransaction, EndTransaction
from sprocket.rocketmq.codec.record import record
from sprocket.runtime.driver import Peer

COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK


class Broker:
    """The broker's half, over real sockets."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.ends: SimpleQueue[EndTransaction] = SimpleQueue()
        self.known = threading.Event()
        world.cluster.topics["t"] = 1
        world.cluster.on[RequestCode.END_TRANSACTION] = self._end
        usual = world.cluster.usual(RequestCode.HEART_BEAT)

        def beat(peer: Peer, command: Command) -> None:
            usual(peer, command)
            self.known.set()

        world.cluster.on[RequestCode.HEART_BEAT] = beat

    def _end(self, peer: Peer, command: Command) -> None:
        self.ends.put(command.header(EndTransaction))
        if not command.is_oneway:
            peer.send(response(command, 0))

    def ask(self, offset: int) -> None:
        """Ask the one client about a message."""
        assert self.known.wait(LONG_SECONDS)

        async def asking() -> None:
            encoded = self.world.cluster.log["t", 0][offset]
            stored = record.decode(encoded)
            header = CheckTransaction(
                topic="t",
                tran_state_table_offset=offset,
                commit_log_offset=stored.physical_offset,
                msg_id=stored.message_id,
                transaction_id=stored.message_id,
                offset_msg_id=stored.offset_message_id,
            )
            code = RequestCode.CHECK_TRANSACTION_STATE
            (client_id,) = self.world.cluster.peers
            self.world.cluster.ask(client_id, code, header, encoded, oneway=True)

        self.world.portal.call(asking)

    def told(self) -> tuple[str | None, int]:
        """Return the next end of a transaction."""
        end = self.ends.get(timeout=LONG_SECONDS)
        return end.msg_id, end.commit_or_rollback


@pytest.fixture
def broker(world: Any) -> Broker:
    """Return the broker's half."""
    return Broker(world)


def test_the_work_runs_in_the_thread_that_sends(broker: Broker, names: str) -> None:
    """As connections to databases demand; a check runs in another one, and may block."""
    here: list[threading.Thread] = []

    def work(transaction: Transaction) -> TransactionState:
        here.append(threading.current_thread())
        assert transaction.message.body == b"x"
        assert transaction.state is TransactionState.UNKNOWN
        return COMMIT

    def check(message: ReceivedMessage) -> TransactionState:
        here.append(threading.current_thread())
        return ROLLBACK

    with TransactionProducer(names, group="g", check=check) as producer:
        found = producer.send(Message("t", b"x"), work)
        assert (found.state, found.is_confirmed) == (COMMIT, True)
        assert broker.told() == (found.sent.message_id, COMMIT)
        broker.ask(0)
        assert broker.told() == (found.sent.message_id, ROLLBACK)
    assert here[0] is threading.current_thread()
    assert here[1].name.startswith("sprocket-listener")


def test_a_transaction_in_two_steps(broker: Broker, names: str) -> None:
    """It is committed by its handle; what the work raises leaves it to the check."""

    def work(_: Transaction) -> TransactionState:
        raise ValueError("no bolts")

    with TransactionProducer(names, group="g", check=lambda _: COMMIT) as producer:
        begun = producer.begin(Message("t", b"x"))
        assert begun.commit()
        assert (begun.state, begun.sent.message_id) == (COMMIT, begun.message_id)
        assert broker.told() == (begun.message_id, COMMIT)
        with pytest.raises(ValueError, match="no bolts"):
            producer.send(Message("t", b"y"), work)
        broker.ask(1)
        assert broker.told()[1] == COMMIT
        left = producer.begin(Message("t", b"z"))
        left.leave()
        broker.ask(2)
        assert broker.told() == (left.message_id, COMMIT)


def test_checks_that_never_return_take_no_more_threads(
    world: Any, broker: Broker, names: str
) -> None:
    """Each keeps its thread; when all are taken, a question fails at once and is told."""
    entered: SimpleQueue[bytes] = SimpleQueue()
    go_on = threading.Event()

    def check(message: ReceivedMessage) -> TransactionState:
        entered.put(message.body)
        if message.body == b"0":
            go_on.wait()
        return COMMIT

    settings = ProducerSettings(check_count_max=1, check_timeout_ms=1)
    with TransactionProducer(names, group="g", check=check, settings=settings) as producer:
        for number in range(2):
            producer.begin(Message("t", b"%d" % number)).leave()
        with capture_logs() as logs:
            while entered.empty():  # a call may be over before its thread begins
                broker.ask(0)
            assert entered.get() == b"0"
            while not [one for one in logs if "failed" in one["event"]]:
                broker.ask(1)
        (failed,) = {str(one["exc_info"]) for one in logs if "failed" in one["event"]}
        assert "all 1 threads wait" in failed
        go_on.set()
        while broker.ends.empty():
            broker.ask(1)
        assert broker.told()[1] == COMMIT
