"""Consumers and producers of gRPC at a broker that is killed; the ledger is that of `popping`.

What must hold is said there. Here a handle says until when its message is invisible, and the
client's library connects again, so that a call fails with UNAVAILABLE once the broker is gone.
"""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import grpc
from tests.crash import killing
from tests.crash.popping import INVISIBLE_MS, MARGIN_MS, Ledger
from tests.grpc_client import GrpcClient, message
from tests.interop import samples

from sprocket.rocketmq.codec.grpc import messages
from sprocket.rocketmq.codec.grpc.messages import Message, Resource
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.grpc.times import duration, ms_of

TOPIC, GROUP, QUEUES = "GrpcKilled", "grpc_group", 4
POLL_MS = 300
CALL_SECONDS: Final = 60.0


class BrokerGone(Exception):
    """The broker does not answer any more."""


@dataclass(frozen=True, slots=True)
class Got:
    """A message that was received: its number, and until when it is invisible."""

    number: int
    message: Message
    until_ms: int


@dataclass(slots=True)
class Worker:
    """One that sends, or receives and acknowledges.

    Attributes:
        ledger: What all know.
        rng: What they draw from.
        leaves: The share of messages that are not acknowledged.
    """

    ledger: Ledger
    rng: random.Random
    leaves: float

    async def produce(self, client: GrpcClient) -> None:
        """Send for ever, one message a call or several. Raises BrokerGone."""
        ledger = self.ledger
        while True:
            count = self.rng.choice([1, 1, 1, 4])
            numbers = range(ledger.sent, ledger.sent + count)
            ledger.sent += count
            sent = [
                message(
                    TOPIC,
                    killing.body(number),
                    samples.unique_key(number),
                    keys=[f"own-{number}"],
                    tag=f"T{number % 3}",
                )
                for number in numbers
            ]
            answer = await self._call(
                client, "SendMessage", messages.SendMessageRequest(messages=sent)
            )
            codes = [entry.status.code for entry in answer.entries]
            assert codes == [Code.OK] * count, answer
            ledger.answered.update(numbers)

    async def consume(self, client: GrpcClient) -> None:
        """Receive for ever. Raises BrokerGone."""
        while True:
            await self.step(client)

    async def step(self, client: GrpcClient) -> None:
        """Receive once, and do something with what comes."""
        got = await self._receive(client)
        if not got:
            return
        if self.rng.random() < 0.1:
            await self._change(client, got.pop())
        kept = [one for one in got if self.rng.random() >= self.leaves]
        if self.rng.random() < 0.5:
            await self._acknowledge(client, kept)
        else:
            for one in kept:
                await self._acknowledge(client, [one])

    async def _call(self, client: GrpcClient, name: str, request: Any) -> Any:
        try:
            return await client.call(name, request, CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise gone(error) from error

    async def _receive(self, client: GrpcClient) -> list[Got]:
        invisible_ms = self.rng.randint(*INVISIBLE_MS)
        asked_at_ms = time.time_ns() // 1_000_000
        try:
            found = await client.receive(
                TOPIC,
                GROUP,
                CALL_SECONDS,
                batch_size=self.rng.randint(1, 32),
                invisible_duration=duration(invisible_ms),
                long_polling_timeout=duration(POLL_MS),
            )
        except grpc.aio.AioRpcError as error:
            raise gone(error) from error
        self.ledger.pops += 1
        if found.code == Code.MESSAGE_NOT_FOUND:
            return []
        assert found.code == Code.OK, (found.code, found.text)
        return [self._got(one, asked_at_ms + invisible_ms) for one in found.messages]

    def _got(self, one: Message, until_ms: int) -> Got:
        said = one.system_properties
        (key,) = said.keys
        number = int(key.removeprefix("own-"))
        assert ms_of(said.invisible_duration) >= INVISIBLE_MS[0]
        self.ledger.note(number, said.delivery_attempt - 1, one.body)
        return Got(number, one, until_ms)

    async def _change(self, client: GrpcClient, one: Got) -> None:
        said = one.message.system_properties
        request = messages.ChangeInvisibleDurationRequest(
            group=Resource(name=GROUP),
            topic=Resource(name=TOPIC),
            receipt_handle=said.receipt_handle,
            message_id=said.message_id,
            invisible_duration=duration(self.rng.randint(*INVISIBLE_MS)),
        )
        answer = await self._call(client, "ChangeInvisibleDuration", request)
        assert answer.status.code == Code.OK, answer

    async def _acknowledge(self, client: GrpcClient, got: Sequence[Got]) -> None:
        if not got:
            return
        self.ledger.asked.update(one.number for one in got)
        try:
            answer = await client.ack(TOPIC, GROUP, *[one.message for one in got])
        except grpc.aio.AioRpcError as error:
            raise gone(error) from error
        assert answer.status.code == Code.OK, answer
        now_ms = time.time_ns() // 1_000_000
        self.ledger.done.update(one.number for one in got if now_ms < one.until_ms - MARGIN_MS)


def gone(error: grpc.aio.AioRpcError) -> Exception:
    """Return what an error of a call means: `BrokerGone` if the connection is."""
    return BrokerGone() if error.code() is grpc.StatusCode.UNAVAILABLE else error


async def until_gone(address: str, client_id: str, work: Any) -> None:
    """Do work over a connection until the broker is gone."""
    client = GrpcClient(address, client_id)
    with suppress(BrokerGone):
        try:
            await work(client)
        finally:
            await client.close()
