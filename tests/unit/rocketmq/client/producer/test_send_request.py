"""What the answer to a send decides for the messages in it."""

import asyncio
from typing import Any

import pytest
from tests import virtual_time
from tests.virtual_time import LoopClock

from sprocket.base.errors import BrokerRefused, ClientError, NotConnected, RequestTimeout
from sprocket.rocketmq.client import ProducerSettings
from sprocket.rocketmq.client.producer import SendResult
from sprocket.rocketmq.client.producer.outgoing import Outgoing
from sprocket.rocketmq.client.producer.send_request import SendRequests
from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, request, response
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.remoting import Connection

QUEUE = MessageQueue("t", "b", 2)


def outgoing(body: bytes = b"x", deadline: float = 10.0, ids: tuple[str, ...] = ("U",)) -> Outgoing:
    """Return a message that somebody waits for."""
    one = Outgoing("t", body, b"", 0, 0, 0, ids, len(ids) > 1, False, deadline)
    one.reply = asyncio.get_running_loop().create_future()
    return one


def answer(code: int, **fields: Any) -> Command:
    """Return an answer as it comes off the wire."""
    asked = Connection().receive(b"".join(request(RequestCode.SEND_MESSAGE_V2, 1)))[0]
    header = headers.SendMessageAnswer(**fields) if fields else None
    return Connection().receive(b"".join(response(asked, code, header, "why")))[0]


def outcome(one: Outgoing) -> Any:
    """Return what the sender was told, or None if nothing yet."""
    assert one.reply is not None
    if not one.reply.done():
        return None
    return one.reply.exception() or one.reply.result()


def complete(
    sent: list[Outgoing], command: Command | None, error: ClientError | None = None
) -> Any:
    """Settle with the usual settings; return what goes out again and what has ended."""
    ended: list[Outgoing] = []
    post = SendRequests("g", ProducerSettings(), LoopClock(), ended.append)
    return post.complete(QUEUE, sent, command, error), ended


def test_one_answer_for_several_messages() -> None:
    """Ids and offsets are dealt out in order; a batch gets a list."""

    async def main() -> None:
        sent = [outgoing(ids=("A",)), outgoing(ids=("B", "C")), outgoing(ids=("D",))]
        again, ended = complete(sent, answer(0, msg_id="1,2,3,4", queue_id=2, queue_offset=7))
        assert again.messages == []
        assert ended == sent
        results = [outcome(sent[0]), *outcome(sent[1]), outcome(sent[2])]
        assert [(one.message_id, one.offset_message_id, one.queue_offset) for one in results] == [
            ("A", "1", 7),
            ("B", "2", 8),
            ("C", "3", 9),
            ("D", "4", 10),
        ]
        assert isinstance(results[0], SendResult)

    virtual_time.run(main())


def test_a_lost_connection_means_again_at_once_in_order() -> None:
    """Unless the deadline has passed meanwhile."""

    async def main() -> None:
        sent = [outgoing(), outgoing(deadline=0.0), outgoing()]
        sent[1].tries = 2
        again, ended = complete(sent, None, NotConnected("gone"))
        assert (again.messages, again.pause_s) == ([sent[0], sent[2]], 0)
        assert ended == [sent[1]]
        error = outcome(sent[1])
        assert isinstance(error, RequestTimeout)
        assert "after 2 tries" in str(error)
        assert "gone" in str(error)
        assert "may have been stored" in str(error)

    virtual_time.run(main())


@pytest.mark.parametrize("code", [2, 1500])
def test_busy_means_again_after_a_pause(code: int) -> None:
    """However often."""

    async def main() -> None:
        one = outgoing()
        one.refusals = 100
        again, _ = complete([one], answer(code))
        assert again.messages == [one]
        assert again.pause_s > 0

    virtual_time.run(main())


@pytest.mark.parametrize("code", [1, 14, 16, 17, 204, 205])
def test_refusals_that_may_pass_are_counted(code: int) -> None:
    """The third is final."""

    async def main() -> None:
        one = outgoing()
        for _ in range(2):
            again, ended = complete([one], answer(code))
            assert (again.messages, ended) == ([one], [])
        again, ended = complete([one], answer(code))
        assert (again.messages, ended) == ([], [one])
        error = outcome(one)
        assert isinstance(error, BrokerRefused)
        assert error.code == code

    virtual_time.run(main())


def test_a_broker_that_stores_nothing_is_told_to_all_who_share_a_request() -> None:
    """None of them is the reason: they stay together, each with its own count, and end with it."""

    async def main() -> None:
        late, early = outgoing(), outgoing()
        late.refusals = 1
        again, ended = complete([late, early], answer(ResponseCode.SERVICE_NOT_AVAILABLE))
        assert (again.messages, ended) == ([late, early], [])
        assert again.pause_s > 0
        again, ended = complete([late, early], answer(ResponseCode.SERVICE_NOT_AVAILABLE))
        assert (again.messages, ended) == ([early], [late])
        assert not early.is_alone
        assert "b refused a message for t: why (code 14)" in str(outcome(late))

    virtual_time.run(main())


def test_a_refusal_of_several_takes_them_apart() -> None:
    """Each goes out alone then, and none has been counted against."""

    async def main() -> None:
        sent = [outgoing(), outgoing()]
        again, ended = complete(sent, answer(ResponseCode.MESSAGE_ILLEGAL))
        assert (again.messages, again.pause_s, ended) == (sent, 0, [])
        assert [(one.is_alone, one.refusals) for one in sent] == [(True, 0)] * 2

    virtual_time.run(main())


def test_other_refusals_are_final() -> None:
    """The error is the broker's, with what it said."""

    async def main() -> None:
        one = outgoing()
        complete([one], answer(ResponseCode.MESSAGE_ILLEGAL))
        assert "b refused a message for t: why (code 13)" in str(outcome(one))

    virtual_time.run(main())


def test_an_answer_without_its_fields_is_an_error() -> None:
    """It is not taken for success, and the sender is told."""

    async def main() -> None:
        one = outgoing()
        complete([one], answer(0))
        assert "unreadable answer" in str(outcome(one))

    virtual_time.run(main())


def test_after_close_nothing_goes_out_again() -> None:
    """What would have been repeated ends with the closing error."""

    async def main() -> None:
        post = SendRequests("g", ProducerSettings(), LoopClock(), lambda _: None)
        post.close(NotConnected("closed"))
        one = outgoing()
        assert post.complete(QUEUE, [one], None, NotConnected("lost")).messages == []
        assert "closed" in str(outcome(one))

    virtual_time.run(main())


def test_a_cancelled_reply_is_left_alone() -> None:
    """Its message still counts as ended."""

    async def main() -> None:
        one, other = outgoing(), outgoing()
        for sent in (one, other):
            assert sent.reply is not None
            sent.reply.cancel()
        _, ended = complete([one], answer(0, msg_id="1", queue_id=2, queue_offset=7))
        _, failed = complete([other], answer(13))
        assert (ended, failed) == ([one], [other])

    virtual_time.run(main())
