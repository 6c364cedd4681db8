"""Consumers that pop from a broker that is killed, and the ledger of what they may get.

Producers send, poppers pop, acknowledge most of what they get, one by one or several at once, have
some come again at another time, and leave the rest.

What must hold, through all kills:
1. Each message whose send was answered is popped in the end.
2. None comes again whose acknowledgement was answered before its time was over.
3. What comes again counts one delivery more than when it came before, at least: of a pop whose
   answer a kill has taken, nobody knows.
"""

import asyncio
import base64
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tests.crash import killing
from tests.interop import link

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.message import StoredMessage

TOPIC, GROUP, QUEUES = "PopKilled", "popping_group", 4
RETRY = {"0": TOPIC, "1": f"%RETRY%{GROUP}_{TOPIC}", "2": f"%RETRY%{GROUP}+{TOPIC}"}
POP, ACK, BATCH_ACK, CHANGE = 200050, 200051, 200151, 200053
FOUND, TIMED_OUT, FULL = 0, 210, 209
INVISIBLE_MS = (1_500, 4_000)
POLL_MS = 300
MARGIN_MS = 400
"""An acknowledgement whose answer is there so long before the end of the time counts."""
KEPT_BYTES = 1 << 22
Gone = (ConnectionError, asyncio.IncompleteReadError)


@dataclass(slots=True)
class Ledger:
    """What producers and poppers know, through all kills."""

    sent: int = 0
    answered: set[int] = field(default_factory=set)
    """Messages whose send was answered, by number."""
    counts: dict[int, int] = field(default_factory=dict)
    """How often a message was delivered before, as it said when it came last."""
    done: set[int] = field(default_factory=set)
    """Messages whose acknowledgement was answered in time."""
    asked: set[int] = field(default_factory=set)
    """Messages whose acknowledgement was sent; a kill may have taken the answer."""
    pops: int = 0
    wrong: list[str] = field(default_factory=list)

    def came(self, message: StoredMessage) -> int:
        """Note that a message came; return its number."""
        number = killing.number_of(message)
        self.note(number, message.reconsume_times, message.body)
        return number

    def note(self, number: int, said: int, body: bytes) -> None:
        """Note that a message came, what it says of earlier deliveries, and its body."""
        before = self.counts.get(number, -1)
        if number in self.done:
            self.wrong.append(f"message {number} came after its acknowledgement was answered")
        elif said <= before:
            self.wrong.append(f"message {number} came as delivery {said} after {before}")
        if killing.body(number) != body:
            self.wrong.append(f"message {number} has another body")
        self.counts[number] = said

    @property
    def missing(self) -> set[int]:
        """Messages that were stored and that nobody has acknowledged."""
        return self.answered - self.done - self.asked


@dataclass(slots=True)
class Line:
    """One connection; requests go one at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    opaque: int = 0

    @classmethod
    async def open(cls, address: str) -> "Line":
        """Connect. Raises ConnectionError."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=KEPT_BYTES))

    async def ask(self, code: int, ext: Mapping[str, object], body: bytes = b"") -> link.Answer:
        """Send a request and return its answer. Raises what is in `Gone`."""
        self.opaque += 1
        self.writer.write(link.encode(code, self.opaque, ext, body))
        while True:
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            answer = link.decode(await self.reader.readexactly(size))
            if answer.opaque == self.opaque:
                return answer

    def close(self) -> None:
        """Close it."""
        self.writer.close()


@dataclass(frozen=True, slots=True)
class Got:
    """A message that was popped: its number, its handle, and until when it is invisible."""

    number: int
    handle: str
    until_ms: int

    @property
    def place(self) -> dict[str, object]:
        """The fields that name it."""
        *_, kind, _, queue, offset = self.handle.split()
        ext: dict[str, object] = {"consumerGroup": GROUP, "topic": RETRY[kind], "queueId": queue}
        return {**ext, "offset": offset, "extraInfo": self.handle}


@dataclass(frozen=True, slots=True)
class Popper:
    """One that pops and acknowledges."""

    ledger: Ledger
    rng: random.Random
    leaves: float
    """The share of messages that are not acknowledged."""

    async def work(self, line: Line) -> None:
        """Pop for ever. Raises what is in `Gone`."""
        while True:
            await self.step(line)

    async def step(self, line: Line) -> None:
        """Pop once, and do something with what comes."""
        got = await self._pop(line)
        if not got:
            return
        if self.rng.random() < 0.1:
            await self._change(line, got.pop())
        kept = [one for one in got if self.rng.random() >= self.leaves]
        if self.rng.random() < 0.3:
            await self._acknowledge_all(line, kept)
        else:
            for one in kept:
                self.ledger.asked.add(one.number)
                answer = await line.ask(ACK, one.place)
                self._settled([one], answer)

    async def _pop(self, line: Line) -> list[Got]:
        queue = self.rng.choice([-1, -1, self.rng.randrange(QUEUES)])
        ext: dict[str, object] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue}
        ext |= {"maxMsgNums": self.rng.randint(1, 32), "bornTime": 0, "initMode": 0}
        ext |= {"invisibleTime": self.rng.randint(*INVISIBLE_MS), "pollTime": POLL_MS}
        answer = await line.ask(POP, ext)
        self.ledger.pops += 1
        if answer.code in (TIMED_OUT, FULL):
            return []
        assert answer.code == FOUND, answer
        return [*self._found(answer)]

    def _found(self, answer: link.Answer) -> Sequence[Got]:
        ext = answer.ext
        said = [ext[name] for name in ("popTime", "invisibleTime", "reviveQid")]
        until_ms = int(ext["popTime"]) + int(ext["invisibleTime"])
        starts = {
            tuple(one.split()[:2]): one.split()[2] for one in ext["startOffsetInfo"].split(";")
        }
        numbers = [self.ledger.came(one) for one in record.decode_all(answer.body)]
        handles = []
        for one in ext["msgOffsetInfo"].split(";"):
            kind, queue, offsets = one.split()
            for offset in offsets.split(","):
                fields = [starts[kind, queue], *said, kind, "broker-a", queue, offset]
                handles.append(" ".join(fields))
        assert len(handles) == len(numbers), "handles and messages"
        return [Got(*one, until_ms) for one in zip(numbers, handles, strict=True)]

    async def _change(self, line: Line, one: Got) -> None:
        ext = {**one.place, "invisibleTime": self.rng.randint(*INVISIBLE_MS)}
        answer = await line.ask(CHANGE, ext)
        assert answer.code == FOUND, answer

    async def _acknowledge_all(self, line: Line, got: Sequence[Got]) -> None:
        entries: dict[tuple[str, str, str], dict[str, object]] = {}
        bits: dict[tuple[str, str, str], int] = {}
        for one in got:
            start, popped, invisible, revive, kind, _, queue, offset = one.handle.split()
            key = kind, queue, start
            entry: dict[str, object] = {"c": GROUP, "t": TOPIC, "q": int(queue), "r": kind}
            entry |= {"so": int(start), "pt": int(popped), "it": int(invisible), "rq": int(revive)}
            entries[key] = entry
            bits[key] = bits.get(key, 0) | 1 << int(offset) - int(start)
        for key, entry in entries.items():
            octets = bits[key].to_bytes(bits[key].bit_length() // 8 + 1, "little")
            entry["b"] = base64.b64encode(octets).decode()
        if entries:
            self.ledger.asked.update(one.number for one in got)
            body = json.dumps({"acks": [*entries.values()], "brokerName": "broker-a"})
            self._settled(got, await line.ask(BATCH_ACK, {}, body.encode()))

    def _settled(self, got: Sequence[Got], answer: link.Answer) -> None:
        assert answer.code == FOUND, answer
        now_ms = time.time_ns() // 1_000_000
        self.ledger.done.update(one.number for one in got if now_ms < one.until_ms - MARGIN_MS)


async def produce(line: Line, ledger: Ledger, rng: random.Random) -> None:
    """Send for ever. Raises what is in `Gone`."""
    while True:
        number, ledger.sent = ledger.sent, ledger.sent + 1
        ext = link.send_ext(TOPIC, rng.randrange(QUEUES), killing.properties(number))
        answer = await line.ask(link.SEND_MESSAGE_V2, ext, killing.body(number))
        assert answer.code == FOUND, answer
        ledger.answered.add(number)


async def until_gone(address: str, work: "Callable[[Line], Awaitable[None]]") -> None:
    """Do work over a connection until the broker is gone."""
    with suppress(*Gone):
        line = await Line.open(address)
        try:
            await work(line)
        finally:
            line.close()
