"""Load that a broker is killed under, and the ledger of what it must know afterwards.

Producers send raw frames, single (old and short field names) and in batches, several outstanding on
each connection, while a consumer commits offsets. The kill comes out of the load's own loop; what
the kernel had already taken from the broker counts as answered.

What must hold after the restart, `check`:
1. Each queue holds offsets 0, 1, 2, … without a hole, in order, each once.
2. Each message in it is one that was sent, to this queue, with its bytes, and stands there once.
3. Each acknowledged message stands at the queue offset that was acknowledged.
4. Keys, unique key and message id find acknowledged messages.
5. A committed offset is the last one acknowledged, or the one asked for when the kill came.
6. A member of the group goes on there, queue by queue: `check_goes_on`.
"""

import asyncio
import hashlib
import random
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.interop import link, samples
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import ConsumerSettings, PushConsumer, ReceivedMessage
from sprocket.rocketmq.codec.record import batch, ids, record
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.runtime import driver

TOPIC = "Killed"
GROUP = "killed_group"
QUEUES = 4
SILENCE_SECONDS_MAX = LONG_SECONDS
ASKED_MAX = 5
"""How many acknowledged messages are asked for by key and id."""


@dataclass(slots=True)
class Ledger:
    """What one store was asked to keep, through all its kills."""

    sent: list[int] = field(default_factory=list)
    """The queue of each message, by its number."""
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    """The number of the message at (queue id, queue offset)."""
    offset_ids: dict[int, str] = field(default_factory=dict)
    """Message ids by number; only for messages that were sent alone."""
    committed: dict[int, int] = field(default_factory=dict)
    """The last acknowledged offset of each queue."""
    asked: dict[int, int] = field(default_factory=dict)
    """The last offset of each queue that was sent to be committed."""
    ends: dict[int, int] = field(default_factory=dict)
    """The place in each queue behind the last one that was acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One round, drawn before it begins.

    Seconds count from the first answer, so that a slow machine gives answers too; in some rounds
    from the first send.
    """

    lanes: int
    outstanding: int
    kill_after_seconds: float
    kill_after_answers: int | None
    from_first_answer: bool = True

    @classmethod
    def draw(cls, rng: random.Random) -> "Plan":
        """Draw; every third kill comes within the first answers, where files are made."""
        early = rng.randrange(3) == 0
        return cls(
            lanes=rng.randint(1, 6),
            outstanding=rng.choice([1, 2, 8, 32]),
            kill_after_seconds=rng.uniform(0.0, 0.6),
            kill_after_answers=rng.randint(1, 60) if early else None,
            from_first_answer=rng.randrange(6) > 0,
        )


@dataclass(slots=True)
class _Lane:
    """One connection; `waiting` tells for each opaque which messages or commit it asks for."""

    socket: socket.socket
    queue_id: int
    commits: bool
    waiting: dict[int, tuple[int, ...]] = field(default_factory=dict)
    rest: bytes = b""


class Load:
    """Producers and one consumer that write into `ledger` what they hear."""

    def __init__(self, address: str, ledger: Ledger, plan: Plan, rng: random.Random) -> None:
        """Connect; the last lane is the consumer that commits."""
        self._ledger = ledger
        self._plan = plan
        self._rng = rng
        self._opaque = 0
        self._answers = 0
        self._lanes = [
            _Lane(_connect(address), number % QUEUES, number == plan.lanes)
            for number in range(plan.lanes + 1)
        ]

    def run(self, kill: Callable[[], None]) -> int:
        """Send until the plan says to call `kill`; return how many sends were answered."""
        limit = self._plan.kill_after_answers
        waits = SILENCE_SECONDS_MAX if self._plan.from_first_answer else 0.0
        deadline = time.monotonic() + waits + self._plan.kill_after_seconds
        with selectors.DefaultSelector() as selector:
            for lane in self._lanes:
                selector.register(lane.socket, selectors.EVENT_READ, lane)
                self._send(lane, 1 if lane.commits else self._plan.outstanding)
            while limit is None or self._answers < limit:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                for key, _ in selector.select(left):
                    self._send(key.data, self._take(key.data, key.data.socket.recv(1 << 18)))
                if waits and self._answers:
                    waits = 0.0
                    deadline = time.monotonic() + self._plan.kill_after_seconds
        kill()
        for lane in self._lanes:
            self._drain(lane)
        return self._answers

    def _drain(self, lane: _Lane) -> None:
        """Hear what the broker had said when it was killed."""
        with lane.socket:
            try:
                while data := lane.socket.recv(1 << 18):
                    self._take(lane, data)
            except ConnectionResetError:
                pass  # requests that it never read; nothing was said about them

    def _send(self, lane: _Lane, count: int) -> None:
        frames = [self._commit(lane) if lane.commits else self._message(lane) for _ in range(count)]
        try:
            lane.socket.sendall(b"".join(frames))
        except OSError as error:
            raise AssertionError(f"the broker went away by itself: {error}") from error

    def _commit(self, lane: _Lane) -> bytes:
        lane.queue_id = (lane.queue_id + 1) % QUEUES
        offset = self._ledger.asked.get(lane.queue_id, 0) + 1
        end = self._ledger.ends.get(lane.queue_id, 0)
        if offset > end:  # nobody consumes what is not there; back to somewhere, as by a reset
            offset = self._rng.randint(0, end)
        self._ledger.asked[lane.queue_id] = offset
        ext = {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "queueId": lane.queue_id,
            "commitOffset": offset,
        }
        opaque = self._wait_for(lane, (lane.queue_id, offset))
        return link.encode(link.UPDATE_CONSUMER_OFFSET, opaque, ext)

    def _message(self, lane: _Lane) -> bytes:
        kind = self._rng.random()
        count = self._rng.randint(2, 5) if kind < 0.1 else 1
        first = len(self._ledger.sent)
        numbers = tuple(range(first, first + count))
        self._ledger.sent.extend([lane.queue_id] * count)
        opaque = self._wait_for(lane, numbers)
        if count > 1:
            parts = [(0, body(number), properties(number).encode()) for number in numbers]
            ext = link.send_ext(TOPIC, lane.queue_id, "WAIT\x01true\x02", m=True)
            return link.encode(link.SEND_BATCH_MESSAGE, opaque, ext, batch.join(parts))
        ext = link.send_ext(TOPIC, lane.queue_id, properties(first))
        if kind < 0.2:
            long = {LONG_NAMES[name]: value for name, value in ext.items()}
            return link.encode(link.SEND_MESSAGE, opaque, long, body(first))
        return link.encode(link.SEND_MESSAGE_V2, opaque, ext, body(first))

    def _wait_for(self, lane: _Lane, what: tuple[int, ...]) -> int:
        self._opaque += 1
        lane.waiting[self._opaque] = what
        return self._opaque

    def _take(self, lane: _Lane, data: bytes) -> int:
        """Note what came; return how many whole answers it held."""
        assert data or not lane.waiting, "the broker closed the connection by itself"
        data = lane.rest + data
        start = count = 0
        while len(data) - start >= 4:
            end = start + 4 + int.from_bytes(data[start : start + 4], "big")
            if end > len(data):
                break
            self._note(lane, link.decode(memoryview(data)[start + 4 : end]))
            start = end
            count += 1
        lane.rest = data[start:]
        if not lane.commits:
            self._answers += count
        return count

    def _note(self, lane: _Lane, answer: link.Answer) -> None:
        what = lane.waiting.pop(answer.opaque)
        assert answer.code == link.SUCCESS, answer
        if lane.commits:
            queue_id, offset = what
            self._ledger.committed[queue_id] = offset
            return
        offset = int(answer.ext["queueOffset"])
        for distance, number in enumerate(what):
            place = lane.queue_id, offset + distance
            assert place not in self._ledger.acknowledged, f"{place} acknowledged twice"
            self._ledger.acknowledged[place] = number
            ends = self._ledger.ends
            ends[lane.queue_id] = max(ends.get(lane.queue_id, 0), place[1] + 1)
        if len(what) == 1:
            self._ledger.offset_ids[what[0]] = answer.ext["msgId"]


LONG_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "m": "batch",
}


def body(number: int) -> bytes:
    """Return the body of a message, 1 to 1,500 bytes that only it has."""
    size = (number * 2_654_435_761 >> 7) % 1_500 + 1
    return hashlib.shake_128(number.to_bytes(8, "big")).digest(size)


def properties(number: int) -> str:
    """Return the properties of a message, by which `number_of` knows it again."""
    unique = samples.unique_key(number)
    return f"UNIQ_KEY\x01{unique}\x02KEYS\x01own-{number}\x02TAGS\x01T{number % 3}\x02"


def number_of(message: StoredMessage) -> int:
    """Return the number of a message that was stored."""
    return int(message.properties["KEYS"].removeprefix("own-"))


def prepare(address: str) -> None:
    """Make the topic, and let the broker know the consumer group."""
    with link.Link(address) as connection:
        link.create_topic(connection, TOPIC, QUEUES)
        link.pull(connection, TOPIC, 0, 0, group=GROUP)


def check(address: str, ledger: Ledger, rng: random.Random) -> dict[int, int]:
    """Assert 1 to 5 of what the module's head lists; return the end of each queue."""
    with link.Link(address) as connection:
        stored = {queue_id: read_queue(connection, queue_id, ledger) for queue_id in range(QUEUES)}
        for (queue_id, offset), number in ledger.acknowledged.items():
            assert offset < len(stored[queue_id]), (
                f"message {number}, acknowledged at {offset} of queue {queue_id}, is lost: "
                f"the queue ends at {len(stored[queue_id])}"
            )
            assert number == stored[queue_id][offset]
        alone = [
            place for place, number in ledger.acknowledged.items() if number in ledger.offset_ids
        ]
        for place in rng.sample(alone, min(ASKED_MAX, len(alone))):
            check_found(connection, ledger, *place)
        for queue_id in range(QUEUES):
            check_committed(connection, ledger, queue_id)
    return {queue_id: len(numbers) for queue_id, numbers in stored.items()}


def read_queue(connection: link.Link, queue_id: int, ledger: Ledger) -> list[int]:
    """Pull a whole queue; return the numbers of its messages, by queue offset."""
    end = link.queue_end(connection, TOPIC, queue_id)
    numbers: list[int] = []
    while len(numbers) < end:
        answer = link.pull(connection, TOPIC, queue_id, len(numbers))
        assert answer.code == link.SUCCESS, (queue_id, len(numbers), end, answer)
        for message in record.decode_all(answer.body):
            assert (queue_id, len(numbers)) == (message.queue_id, message.queue_offset)
            number = number_of(message)
            assert queue_id == ledger.sent[number]
            assert body(number) == message.body
            numbers.append(number)
    assert len(numbers) == len(set(numbers)), f"a message stands twice in queue {queue_id}"
    return numbers


def check_found(connection: link.Link, ledger: Ledger, queue_id: int, offset: int) -> None:
    """Assert that key, unique key and message id find the message acknowledged there."""
    number = ledger.acknowledged[queue_id, offset]
    for key in (f"own-{number}", samples.unique_key(number)):
        ext = {
            "topic": TOPIC,
            "key": key,
            "maxNum": 64,
            "beginTimestamp": 0,
            "endTimestamp": (1 << 63) - 1,
        }
        found = record.decode_all(connection.call(link.QUERY_MESSAGE, ext).body)
        assert [(queue_id, offset)] == [
            (one.queue_id, one.queue_offset) for one in found if number_of(one) == number
        ]
    _, physical_offset = ids.split_offset_message_id(ledger.offset_ids[number])
    answer = connection.call(link.VIEW_MESSAGE_BY_ID, {"offset": physical_offset, "topic": TOPIC})
    assert body(number) == record.decode(answer.body).body


def check_committed(connection: link.Link, ledger: Ledger, queue_id: int) -> None:
    """Assert that the offset committed last, or the one asked for then, is still known."""
    asked = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id}
    answer = connection.ask(link.QUERY_CONSUMER_OFFSET, asked)
    acknowledged = ledger.committed.get(queue_id)
    if answer.code == link.NOT_FOUND:
        assert acknowledged is None, f"queue {queue_id}: offset {acknowledged} is forgotten"
        return
    committed = int(answer.ext["offset"])
    # An offset that nobody committed is answered 0 while the queue still begins at 0.
    assert committed in {acknowledged or 0, ledger.asked.get(queue_id, 0)}, (
        f"queue {queue_id}: {committed} is committed, {acknowledged} was acknowledged"
    )
    ledger.asked[queue_id] = committed
    if committed or acknowledged is not None:
        ledger.committed[queue_id] = committed


def check_goes_on(nameserver: str, ledger: Ledger, ends: Mapping[int, int]) -> None:
    """Assert that a new member of the group gets first, of each queue, what was committed last.

    It finishes no message, so that it leaves the offsets as they are.

    Args:
        nameserver: Whom the member asks.
        ledger: After `check`, so that it holds what the broker said of its offsets.
        ends: The end of each queue.
    """
    wanted = {
        queue_id: ledger.committed.get(queue_id, 0)
        for queue_id, end in ends.items()
        if ledger.committed.get(queue_id, 0) < end
    }
    first: dict[int, int] = {}

    async def main() -> None:
        complete = asyncio.Event()

        async def listener(messages: list[ReceivedMessage]) -> None:
            message = messages[0]
            first.setdefault(message.queue.queue_id, message.queue_offset)
            if first.keys() == wanted.keys():
                complete.set()
            await asyncio.Event().wait()

        # Each call waits for good, and one answer may bring a queue's messages for many calls.
        settings = ConsumerSettings(close_wait_ms=0, call_count_max=1000)
        async with PushConsumer(
            nameserver, group=GROUP, listener=listener, start="first", settings=settings
        ) as consumer:
            await consumer.subscribe(TOPIC)
            async with asyncio.timeout(SILENCE_SECONDS_MAX):
                await complete.wait()

    if wanted:
        try:
            driver.run(main())
        except TimeoutError:
            raise AssertionError(f"a consumer got {first} within 20 s, wanted {wanted}") from None
    assert first == wanted


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), SILENCE_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
