"""Records of traces go out together, wait for nobody, and are bounded."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests import virtual_time

from sprocket.base.errors import ClientError, RequestTimeout
from sprocket.rocketmq.client.tracing import TraceWriter, trace_writer
from sprocket.rocketmq.codec import trace
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.trace import ConsumeEnded


class Sender:
    """Keeps what it is to send, and answers when the test says so."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.outcomes: list[asyncio.Future[Any]] = []
        self.is_full = False
        self.refuses = False
        self.told: list[str] = []

    async def start(self) -> None:
        """Begin."""
        self.told.append("start")

    async def close(self, *, flush: bool = True) -> None:
        """End."""
        self.told.append(f"close {flush}")

    def send_soon(self, message: Message) -> "asyncio.Future[Any]":
        """Keep a message."""
        if self.refuses:
            raise ClientError("no")
        self.sent.append(message)
        self.outcomes.append(asyncio.get_running_loop().create_future())
        return self.outcomes[-1]

    @property
    def records(self) -> list[list[str]]:
        """The ids of messages in the records of each message that was sent."""
        return [[one.message_id for one in trace.decode(sent.body)] for sent in self.sent]


def noted(number: int) -> ConsumeEnded:
    """Return a record."""
    return ConsumeEnded(request_id="r", message_id=f"m{number}", cost_ms=1, is_success=True)


async def writing() -> tuple[TraceWriter[Any], Sender]:
    """Return a writer that is open, and its sender."""
    sender = Sender()
    writer = TraceWriter(sender, "traces")
    await writer.start()
    return writer, sender


def test_records_of_a_topic_go_out_together_after_a_second() -> None:
    """Their keys are those of all of them, each once."""

    async def main() -> None:
        writer, sender = await writing()
        writer.add("a", noted(1), ["m1", "order-7"])
        writer.add("b", noted(2), ["m2"])
        writer.add("a", noted(3), ["m3", "order-7", ""])
        await asyncio.sleep(0.9)
        assert sender.sent == []
        await asyncio.sleep(0.2)
        assert sender.records == [["m1", "m3"], ["m2"]]
        assert [list(one.keys) for one in sender.sent] == [["m1", "order-7", "m3"], ["m2"]]
        assert {one.topic for one in sender.sent} == {"traces"}
        writer.add("a", noted(4), ["m4"])
        await asyncio.sleep(1.1)
        assert sender.records[2:] == [["m4"]]

    virtual_time.run(main())


def test_many_do_not_wait_and_large_ones_are_cut() -> None:
    """By their number, by the bytes of a body, by the characters of the keys."""

    async def main() -> None:
        writer, sender = await writing()
        for number in range(trace_writer.RECORDS):
            writer.add("a", noted(number), [f"m{number}"])
        assert [len(one) for one in sender.records] == [trace_writer.RECORDS]
        for number in range(trace_writer.RECORDS):
            writer.add("a", noted(number), [f"m{number}", f"{number:0200}"])
        assert len(sender.sent) == 4
        for one in sender.sent:
            assert len(" ".join(one.keys)) <= trace_writer.KEYS_CHARACTERS_MAX
            assert len(one.body) <= trace_writer.BODY_BYTES_MAX

    virtual_time.run(main())


def test_keys_that_have_no_room_are_left_out() -> None:
    """The message's id comes first, so it stays."""

    async def main() -> None:
        writer, sender = await writing()
        writer.add("a", noted(1), ["m1", "k" * trace_writer.KEYS_CHARACTERS_MAX, "l"])
        await writer.close()
        assert list(sender.sent[0].keys) == ["m1"]

    virtual_time.run(main())


def test_of_the_trace_topic_there_are_none() -> None:
    """Or each would make another one."""

    async def main() -> None:
        writer, sender = await writing()
        writer.add("traces", noted(1), ["m1"])
        await writer.close()
        assert sender.told == ["start", "close True"]
        assert sender.sent == []

    virtual_time.run(main())


def test_what_finds_no_room_waits_and_then_is_dropped() -> None:
    """A bounded number waits for the sender; the rest is counted, and logged."""

    async def main() -> None:
        writer, sender = await writing()
        sender.is_full = True
        with capture_logs() as logs:
            for number in range(trace_writer.WAITING_MAX + 3):
                writer.add("a", noted(number), [])
        assert sender.sent == []
        assert writer.dropped == 3
        assert {one["event"] for one in logs} == {"traces are dropped"}
        sender.is_full = False
        await asyncio.sleep(1.1)
        found = [one for part in sender.records for one in part]
        assert found == [f"m{number}" for number in range(trace_writer.WAITING_MAX)]

    virtual_time.run(main())


@pytest.mark.parametrize("how", ["refused", "failed", "cancelled"])
def test_nobody_hears_of_traces_that_could_not_be_sent(how: str) -> None:
    """They are counted."""

    async def main() -> None:
        writer, sender = await writing()
        sender.refuses = how == "refused"
        writer.add("a", noted(1), [])
        writer.add("a", noted(2), [])
        await asyncio.sleep(1.1)
        if how == "failed":
            sender.outcomes[0].set_exception(RequestTimeout("late"))
        elif how == "cancelled":
            sender.outcomes[0].cancel()
        await asyncio.sleep(0)
        assert writer.dropped == 2

    virtual_time.run(main())


def test_closing_sends_what_waits_or_drops_it() -> None:
    """As the producer's own messages; nothing comes later."""

    async def main() -> None:
        for flush in (True, False):
            writer, sender = await writing()
            writer.add("a", noted(1), [])
            await writer.close(flush=flush)
            await asyncio.sleep(2)
            assert sender.records == ([["m1"]] if flush else [])
            assert sender.told[-1] == f"close {flush}"

    virtual_time.run(main())
