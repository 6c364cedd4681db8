"""A node that serves AMQP and is killed, or loses its power, while clients publish and consume.

Each message has a number. What must hold, whatever the moment:

1. What was confirmed is there, or a consumer has it or had it.
2. What was acknowledged in a transaction, and answered, does not come back.
3. What is left is in the order in which it was published.
4. What was confirmed and is delayed comes when it is due, once.

`make torture` has more rounds; SPROCKET_KILL_ROUNDS and SPROCKET_KILL_SEED choose.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import aio_pika
import pika
import pytest
from tests import repetition
from tests.waits import LONG_SECONDS

from sprocket.testing.local_amqp import LocalAmqp
from sprocket.testing.local_process import free_port

SEED = int(os.environ.get("SPROCKET_KILL_SEED", "100"))
MESSAGES = 400
LARGE_BYTES = 5000
"""More than is kept in a queue's index: the message lies in the message store."""
QUEUE = "q"
LATER = "later"
"""A delayed exchange, and the queue that gets what is due."""
DELAY_MS_MAX = 60
WAIT_SECONDS = LONG_SECONDS
"""So long nothing comes, and what is missing is lost."""


class Torn(Exception):
    """A message is not whole."""


class Round:
    """One round under load, until the end of the broker."""

    def __init__(self, first: int, seed: int) -> None:
        self.confirmed: set[int] = set()
        self.touched: set[int] = set()
        """What a consumer has been given."""
        self.committed: set[int] = set()
        """What it has acknowledged in a transaction that was answered."""
        self.delayed: set[int] = set()
        """What was confirmed and is delayed."""
        self._first = first
        self._chance = random.Random(seed)

    async def play(self, url: str, kill: Callable[[], None]) -> None:
        """Publish and consume, and kill the broker when some number is confirmed."""
        enough = self._chance.randrange(1, MESSAGES)
        opened = await aio_pika.connect(url)
        reached = asyncio.Event()
        channel = await opened.channel()
        queue = await channel.declare_queue(QUEUE, durable=True)
        later = await channel.declare_exchange(
            LATER, "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
        )
        await (await channel.declare_queue(LATER, durable=True)).bind(later)
        consuming = asyncio.ensure_future(self._consume(opened))

        async def publish(number: int) -> None:
            body = b"%d %s" % (number, b"x" * (LARGE_BYTES if number % 5 == 0 else 10))
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            if number % 4 == 0:
                message.headers["x-delay"] = self._chance.randrange(DELAY_MS_MAX)
                await later.publish(message, "", mandatory=False)
                self.delayed.add(number)
            else:
                await channel.default_exchange.publish(message, queue.name)
                self.confirmed.add(number)
            if len(self.confirmed) + len(self.delayed) >= enough:
                reached.set()

        publishing = [asyncio.ensure_future(publish(self._first + at)) for at in range(MESSAGES)]
        await reached.wait()
        await asyncio.to_thread(kill)
        for task in (consuming, *publishing):
            task.cancel()
        for result in await asyncio.gather(consuming, *publishing, return_exceptions=True):
            if isinstance(result, Torn):  # the client's own errors are many
                raise result

    async def _consume(self, opened: aio_pika.abc.AbstractConnection) -> None:
        channel = await opened.channel(publisher_confirms=False)
        queue = await channel.get_queue(QUEUE, ensure=False)
        while True:
            taken: list[aio_pika.abc.AbstractIncomingMessage] = []
            while len(taken) < 20:
                message = await queue.get(fail=False)
                if message is None:
                    await asyncio.sleep(0)
                    continue
                taken.append(message)
                self.touched.add(number_of(message.body))
            async with channel.transaction():
                for message in taken:
                    await message.ack()
            self.committed.update(number_of(message.body) for message in taken)


def number_of(body: bytes) -> int:
    """Return the number of a message, of which nothing may be missing."""
    number, _, rest = body.partition(b" ")
    if len(rest) != (LARGE_BYTES if int(number) % 5 == 0 else 10):
        raise Torn(f"message {number!r} has {len(rest)} bytes")
    return int(number)


def drained(url: str) -> list[int]:
    """Take all that is left in the queue."""
    with pika.BlockingConnection(pika.URLParameters(url)) as opened:
        channel = opened.channel()
        channel.queue_declare(QUEUE, durable=True)
        channel.tx_select()
        found = []
        while True:
            method, _, body = channel.basic_get(QUEUE)
            if method is None:
                break
            found.append(number_of(body))
        if found:
            channel.basic_ack(0, multiple=True)
        channel.tx_commit()
        return found


class LateOnes:
    """What has come of the delayed messages of all rounds."""

    def __init__(self) -> None:
        self._found: list[int] = []

    def await_all(self, url: str, played: Round) -> None:
        """Take them until those of a round are there that must be, and see that none is twice."""
        with pika.BlockingConnection(pika.URLParameters(url)) as opened:
            channel = opened.channel()
            channel.queue_declare(LATER, durable=True)
            channel.tx_select()
            while missing := played.delayed - set(self._found):
                for method, _, body in channel.consume(LATER, inactivity_timeout=WAIT_SECONDS):
                    assert method is not None, f"confirmed, delayed and lost: {missing}"
                    self._found.append(number_of(body))
                    channel.basic_ack(method.delivery_tag)
                    missing.discard(self._found[-1])
                    if not missing:
                        break
            channel.cancel()  # what it has and has not seen goes back
            channel.tx_commit()
        assert len(set(self._found)) == len(self._found), "delayed, and twice"


def judge(played: Round, left: list[int]) -> None:
    """See the head of the module."""
    assert not played.confirmed - played.touched - set(left), "confirmed and lost"
    assert not played.committed & set(left), "acknowledged and back"
    assert sorted(set(left)) == left, "out of order, or twice"


@pytest.mark.slow
@pytest.mark.parametrize("rounds", repetition.times("SPROCKET_KILL_ROUNDS", by_day=4, by_night=20))
def test_nothing_confirmed_is_lost_in_the_process(rounds: int, tmp_path: Path) -> None:
    """By a kill or a loss of power in turn, with the same folder."""
    late = LateOnes()
    with LocalAmqp(str(tmp_path / "node")) as broker:
        for number in range(rounds):
            played = Round(number * MESSAGES, seed=SEED + number)

            def end(seed: int = number) -> None:
                if seed % 2:
                    broker.crash()
                else:
                    broker.power_cut(seed)

            asyncio.run(played.play(broker.url, end))
            judge(played, drained(broker.url))
            broker.advance(DELAY_MS_MAX)
            late.await_all(broker.url, played)


class Victim:
    """`sprocket up --no-rocketmq` in a process of its own, on a port that it keeps."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port("127.0.0.1")
        self._command = [sys.executable, "-m", "sprocket.cli.main", "up", "--no-rocketmq"]
        self._command += ["--data", str(folder), "--amqp-port", str(self._port)]
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}/%2F"
        self.start()

    def start(self) -> None:
        """Start it and return when it is ready."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        assert told.startswith(f"ready amqp=127.0.0.1:{self._port} "), told

    def kill(self) -> None:
        """Kill it with -9."""
        self._process.kill()
        self._process.communicate()

    def restart(self) -> None:
        """Kill it with -9 and start it again."""
        self.kill()
        self.start()


@pytest.mark.slow
@pytest.mark.parametrize("rounds", repetition.times("SPROCKET_KILL_ROUNDS", by_day=2, by_night=20))
def test_nothing_confirmed_is_lost_by_kill_9(rounds: int, tmp_path: Path) -> None:
    """With the same folder each time."""
    late = LateOnes()
    victim = Victim(tmp_path / "node")
    try:
        for number in range(rounds):
            played = Round(number * MESSAGES, seed=SEED + number)
            asyncio.run(played.play(victim.url, victim.restart))
            judge(played, drained(victim.url))
            late.await_all(victim.url, played)
    finally:
        victim.kill()
