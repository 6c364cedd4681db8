"""What consumers ask that pop, in scenarios; the answers of RocketMQ 5.3.3 are recorded.

Each scenario has a topic and a group of its own, so that they do not depend on each other. In a
request `$ext(NAME,FIELD)` stands for a field that the answer NAME had.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.answers.exchange import Exchange, Frames, Talk, Told
from tests.answers.requests import UNIQUE

POP, ACK, BATCH_ACK, CHANGE, PEEK, NOTIFY, POLLING = (
    *(200050, 200051, 200151, 200053, 200052, 200054, 200055),
)
INVISIBLE_MS = 60_000
SOON_MS = 1_000
"""Invisible time of what is to come again."""
COMES_MS = 9_000
"""After which it has: RocketMQ needs some seconds more."""
PARKED_SECONDS = 0.3
"""After which a request waits that is to wait."""
RETRY = "%RETRY%{group}_{topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Exchange):
    """Let time pass."""

    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked(Exchange):
    """A request that waits; its answer is that of the `Reply` of the same name but for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Exchange):
    """Wait for the answer to a request that was parked."""

    of: str


Step = Exchange | Pause | Parked | Reply


@dataclass(slots=True, kw_only=True)
class PopTalk(Talk):
    """A talk in which requests may wait, and time may pass."""

    pass_ms: Callable[[int], Awaitable[None]]
    _parked: dict[str, "asyncio.Future[list[Told]]"] = field(default_factory=dict)

    async def tell(self, step: Exchange | Frames) -> list[Told]:
        """Send a request and return its answer, if it does not wait."""
        if isinstance(step, Pause):
            await self.pass_ms(step.ms)
            return []
        if isinstance(step, Reply):
            return await self._parked.pop(step.of)
        if isinstance(step, Parked):
            self._parked[step.name] = asyncio.ensure_future(Talk.tell(self, step))
            await asyncio.sleep(PARKED_SECONDS)
            return []
        return await Talk.tell(self, step)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: makes its requests."""

    name: str

    @property
    def topic(self) -> str:
        """Its topic."""
        return "T-" + self.name.replace(" ", "-")

    @property
    def group(self) -> str:
        """Its group."""
        return "G-" + self.name.replace(" ", "-")

    @property
    def retry(self) -> str:
        """The topic from which its group gets messages again."""
        return RETRY.format(group=self.group, topic=self.topic)

    def ask(self, what: str, code: int, ext: Any = None, body: str = "", **more: Any) -> Exchange:
        """Return any request."""
        kind = more.pop("kind", Exchange)
        name = f"pop/{self.name}/{what}"
        step: Exchange = kind(name=name, code=code, ext=ext or {}, body=body, **more)
        return step

    def make(self, queues: int = 1, messages: int = 0, **changes: Any) -> Iterator[Exchange]:
        """Make the topic, with messages in its first queue."""
        ext = {"topic": self.topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
        ext |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
        yield self.ask("topic", 17, {**ext, "defaultTopic": "TBW102", **changes})
        for number in range(messages):
            yield self.send(number)

    def send(self, number: int, *, queue: int = 0, tag: str = "A") -> Exchange:
        """Send one message."""
        ext = {"a": "p", "b": self.topic, "c": "TBW102", "d": 4, "e": queue, "f": 0}
        ext |= {"g": 1_700_000_000_000, "h": 0, "j": 0, "k": "false", "m": "false"}
        ext["i"] = f"UNIQ_KEY\x01{UNIQUE}{number:02}\x02KEYS\x01k\x02TAGS\x01{tag}\x02"
        return self.ask(f"send {number}", 310, ext, f"m{number}")

    def pop(self, what: str, **changes: Any) -> Exchange:
        """Pop from the first queue."""
        kind = changes.pop("kind", Exchange)
        by = changes.pop("by", "tool")
        ext = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0, "maxMsgNums": 32}
        ext |= {"invisibleTime": INVISIBLE_MS, "pollTime": 0, "bornTime": 0, "initMode": 0}
        ext = {name: value for name, value in {**ext, **changes}.items() if value is not None}
        return self.ask(what, POP, ext, kind=kind, by=by)

    def ordered(self, what: str, **changes: Any) -> Exchange:
        """Pop in order."""
        return self.pop(what, **{"order": "true", "attemptId": "one", "maxMsgNums": 2, **changes})

    def ext(self, what: str, name: str) -> str:
        """Return what stands for a field of an answer."""
        return f"$ext(pop/{self.name}/{what},{name})"

    def handle(self, of: str, offset: int, *, start: int = 0, kind: int = 0, queue: int = 0) -> str:
        """Return the handle of a message of a pop."""
        said = [self.ext(of, one) for one in ("popTime", "invisibleTime", "reviveQid")]
        return " ".join([str(start), *said, str(kind), "broker-a", str(queue), str(offset)])

    def place(self, handle: str, offset: int, **changes: Any) -> dict[str, Any]:
        """Return the fields that name a message of the first queue."""
        ext = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0}
        return {**ext, "extraInfo": handle, "offset": offset, **changes}

    def ack(self, what: str, of: str, offset: int, *, start: int = 0, **changes: Any) -> Exchange:
        """Acknowledge a message of a pop."""
        kind = 1 if changes.get("topic") == self.retry else 0
        handle = self.handle(of, offset, start=start, kind=kind)
        return self.ask(what, ACK, self.place(handle, offset, **changes))

    def acks(self, what: str, of: str, offsets: list[int], **changes: Any) -> Exchange:
        """Acknowledge several messages of a pop."""
        bits = sum(1 << offset for offset in offsets)
        text = base64.b64encode(bits.to_bytes(bits.bit_length() // 8 + 1, "little").rstrip(b"\0"))
        entry: dict[str, Any] = {
            "b": text.decode(),
            "c": self.group,
            "it": self.ext(of, "invisibleTime"),
        }
        entry |= {"pt": self.ext(of, "popTime"), "q": 0, "r": "0", "so": 0, "t": self.topic}
        entry |= {"rq": self.ext(of, "reviveQid"), **changes}
        body = json.dumps({"acks": [entry], "brokerName": "broker-a"}, separators=(",", ":"))
        for name in ("it", "pt", "rq"):
            body = body.replace(f'"{entry[name]}"', str(entry[name]))
        return self.ask(what, BATCH_ACK, {}, body)

    def change(self, what: str, of: str, offset: int, ms: int, **changes: Any) -> Exchange:
        """Have a message come again at another time."""
        place = self.place(self.handle(of, offset), offset, **changes)
        return self.ask(what, CHANGE, {**place, "invisibleTime": ms})

    def peek(self, what: str, **changes: Any) -> Exchange:
        """Look at messages of the first queue."""
        ext = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0, "maxMsgNums": 32}
        return self.ask(what, PEEK, {**ext, **changes})

    def notify(self, what: str, **changes: Any) -> Exchange:
        """Ask whether there is a message in the first queue."""
        kind = changes.pop("kind", Exchange)
        by = changes.pop("by", "tool")
        ext = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0}
        ext |= {"pollTime": 0, "bornTime": 0}
        return self.ask(what, NOTIFY, {**ext, **changes}, kind=kind, by=by)

    def polling(self, what: str, **changes: Any) -> Exchange:
        """Ask how many pops wait for the first queue."""
        ext = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0}
        return self.ask(what, POLLING, {**ext, **changes})

    def committed(self, what: str, *, queue: int = 0, topic: str = "") -> Exchange:
        """Ask where the group is."""
        ext = {"consumerGroup": self.group, "topic": topic or self.topic, "queueId": queue}
        return self.ask(what, 14, {**ext, "setZeroIfNotFound": "false"})

    def wait(self, what: str, ms: int = COMES_MS) -> Exchange:
        """Let time pass."""
        return Pause(name=f"pop/{self.name}/{what}", code=0, ext={}, ms=ms)

    def reply(self, of: str) -> Exchange:
        """Wait for the answer to what was parked."""
        whole = f"pop/{self.name}/{of}"
        return Reply(name=f"{whole} answered", code=POP, ext={}, of=whole)


def all_steps() -> Iterator[Exchange]:
    """Give every request in its order."""
    for name, steps in _SCENARIOS.items():
        yield from steps(Scenario(name))


def scenarios() -> list[str]:
    """Return the names of all scenarios."""
    return list(_SCENARIOS)


def _one_queue(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.pop("all")
    yield s.pop("nothing is left")
    yield s.committed("where the group is")


def _in_portions(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=5)
    yield s.pop("two", maxMsgNums=2)
    yield s.pop("two more", maxMsgNums=2)
    yield s.pop("the last", maxMsgNums=2)
    yield s.pop("none", maxMsgNums=2)


def _all_queues(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=2)
    yield s.pop("all", queueId=-1)
    yield s.pop("nothing is left", queueId=-1)
    yield s.pop("a queue below all", queueId=-2)


def _an_empty_topic(s: Scenario) -> Iterator[Exchange]:
    yield from s.make()
    yield s.pop("from the first", initMode=0)
    yield s.pop("from the last", initMode=1)
    yield s.pop("all queues", queueId=-1)
    yield s.peek("peek")
    yield s.notify("notify")
    yield s.polling("polling")


def _many_or_few(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=1)
    yield s.pop("33", maxMsgNums=33)
    yield s.pop("0", maxMsgNums=0)
    yield s.pop("-1", maxMsgNums=-1)
    yield s.pop("1", maxMsgNums=1)


def _what_is_refused(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=1)
    yield s.pop("no such topic", topic="nosuch")
    yield s.pop("no such queue", queueId=9)
    yield s.pop("an empty group", consumerGroup="")
    yield s.pop("an illegal group", consumerGroup="a b")
    yield s.pop("without a group", consumerGroup=None)
    yield s.pop("without a topic", topic=None)
    yield s.pop("without a queue", queueId=None)
    yield s.pop("without a poll time", pollTime=None)
    yield s.pop("without an init mode", initMode=None)
    yield s.pop("queue abc", queueId="abc")
    yield s.pop("late", bornTime=1_000)
    yield s.pop("init mode 7", initMode=7)


def _closed(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=1)
    yield s.ask("a group that may not", 200, body=_json(groupName=s.group, consumeEnable=False))
    for what, step in (("pop", s.pop), ("peek", s.peek), ("notify", s.notify)):
        yield step(f"{what} by it")
    other = Scenario(s.name + " to read")
    yield from other.make(perm=2)
    for what, step in (("pop", other.pop), ("peek", other.peek), ("notify", other.notify)):
        yield step(f"{what} of what may not be read")


def _acknowledged(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.pop("all")
    yield s.ack("the second", "all", 1)
    yield s.ack("the first", "all", 0)
    yield s.ack("the first again", "all", 0)
    yield s.ack("the last", "all", 2)
    yield s.pop("nothing is left")


def _wrong_acknowledgements(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=2)
    yield s.pop("all")
    yield s.ack("behind the end", "all", 3)
    yield s.ack("at the end", "all", 2)
    yield s.ack("before the beginning", "all", -1)
    yield s.ack("no such topic", "all", 0, topic="nosuch")
    yield s.ack("no such queue", "all", 0, queueId=9)
    yield s.ack("queue -1", "all", 0, queueId=-1)
    yield s.ack("another group", "all", 0, consumerGroup="other")
    for what, text in (
        ("words", "a handle of words"),
        ("empty", ""),
        ("seven fields", "0 1 2 3 0 broker-a 0"),
        ("five fields", "0 1 2 3 0"),
        ("no numbers", "a b c d e f g h"),
    ):
        yield s.ask(f"handle: {what}", ACK, s.place(text, 0))
        yield s.ask(f"handle: {what}, no topic", ACK, s.place(text, 0, topic="nosuch"))
        yield s.ask(f"handle: {what}, behind the end", ACK, s.place(text, 7))
    for name in ("consumerGroup", "topic", "queueId", "extraInfo", "offset"):
        ext = {k: v for k, v in s.place(s.handle("all", 0), 0).items() if k != name}
        yield s.ask(f"without {name}", ACK, ext)


def _acknowledged_at_once(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=12)
    yield s.pop("all", invisibleTime=8_000)
    yield s.acks("ten of them", "all", [0, 2, 3, 4, 5, 6, 7, 8, 10, 11])
    yield s.acks("none", "all", [])
    yield s.acks("behind the end", "all", [0, 40])
    yield s.acks("no such topic", "all", [0], t="nosuch")
    yield s.acks("no such queue", "all", [0], q=9)
    yield s.ask("no body", BATCH_ACK)
    yield s.ask("no entries", BATCH_ACK, {}, '{"acks":[],"brokerName":"broker-a"}')
    yield s.ask("no list", BATCH_ACK, {}, "{}")
    yield s.ask("no JSON", BATCH_ACK, {}, "x")
    yield s.wait("until they come", 8_000 + COMES_MS)
    yield s.pop("the other two", queueId=-1, maxMsgNums=1)
    yield s.pop("the last", queueId=-1)


def _with_gaps(s: Scenario) -> Iterator[Exchange]:
    yield from s.make()
    for number, tag in enumerate("BABAAB"):
        yield s.send(number, tag=tag)
    yield s.pop("with a tag", exp="A", expType="TAG", invisibleTime=8_000)
    yield s.acks("two of three", "with a tag", [1, 4])
    yield s.wait("until it comes", 8_000 + COMES_MS)
    yield s.pop("the one", exp="A", expType="TAG")


def _with_tags(s: Scenario) -> Iterator[Exchange]:
    yield from s.make()
    for number, tag in enumerate("AABAC"):
        yield s.send(number, tag=tag)
    yield s.pop("B", exp="B", expType="TAG")
    yield s.committed("where the group is")
    yield s.pop("nothing for C yet", exp="C", expType="TAG")
    yield s.pop("any", consumerGroup="any" + s.group, exp="*", expType="TAG")
    yield s.pop("A or C", consumerGroup="two" + s.group, exp="A || C", expType="TAG")
    yield s.pop("no type", consumerGroup="three" + s.group, exp="A")
    yield s.pop("nothing matches", consumerGroup="four" + s.group, exp="Z", expType="TAG")
    yield s.pop("blank", consumerGroup="five" + s.group, exp=" ", expType="TAG")
    yield s.pop("bars", consumerGroup="six" + s.group, exp="||", expType="TAG")
    yield s.pop("empty", consumerGroup="seven" + s.group, exp="", expType="TAG")
    yield s.pop("unknown type", consumerGroup="eight" + s.group, exp="A", expType="KLINGON")
    yield s.pop("SQL", consumerGroup="nine" + s.group, exp="a = 1", expType="SQL92")
    yield s.pop("bad SQL", consumerGroup="ten" + s.group, exp="a > >", expType="SQL92")


def _at_another_time(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=2)
    yield s.pop("all")
    yield s.change("the first, soon", "all", 0, SOON_MS)
    yield s.change("the first, by the old handle", "all", 0, SOON_MS)
    yield s.change("behind the end", "all", 2, SOON_MS)
    yield s.change("no such topic", "all", 0, SOON_MS, topic="nosuch")
    yield s.change("no such queue", "all", 0, SOON_MS, queueId=9)
    yield s.ask("no handle", CHANGE, {**s.place("x", 0), "invisibleTime": 1})
    yield s.wait("until it comes")
    yield s.pop("the first", queueId=-1)


def _later_and_acknowledged(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=1)
    yield s.pop("it", invisibleTime=8_000)
    yield s.change("later", "it", 0, INVISIBLE_MS)
    said = [s.ext("later", name) for name in ("popTime", "invisibleTime", "reviveQid")]
    handle = " ".join(["0", *said, "0", "broker-a", "0", "0"])
    yield s.ask("with the new handle", ACK, s.place(handle, 0))
    yield s.wait("longer than both", 8_000 + COMES_MS)
    yield s.pop("nothing", queueId=-1)


def _comes_again(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.pop("all", invisibleTime=8_000)
    yield s.ack("the second", "all", 1)
    yield s.wait("until they come", 8_000 + COMES_MS)
    yield s.peek("peek", queueId=-1)
    yield s.notify("notify")
    yield s.pop("one", maxMsgNums=1, invisibleTime=8_000)
    yield s.committed("where the group is in its retry topic", topic=s.retry)
    yield s.ack("of the retry topic", "one", 0, topic=s.retry)
    yield s.pop("the other", invisibleTime=8_000)
    yield s.ask("late", ACK, s.place(s.handle("all", 0), 0))
    yield s.wait("until it comes once more", 8_000 + COMES_MS)
    yield s.pop("the other, again")


def _the_retry_topic(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=1)
    yield s.pop("it", invisibleTime=SOON_MS)
    yield s.wait("until it comes")
    yield s.pop("from where it waits", topic=s.retry)
    yield s.ask("the retry topic", 351, {"topic": s.retry})


def _from_the_last(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.pop("in memory", initMode=1, maxMsgNums=1)
    yield s.pop("the next", initMode=1, maxMsgNums=1)


def _peeked(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.peek("all")
    yield s.peek("two", maxMsgNums=2)
    yield s.peek("any queue", queueId=-1)
    yield s.peek("none", maxMsgNums=0)
    yield s.peek("no such queue", queueId=9)
    yield s.peek("no such topic", topic="nosuch")
    yield s.pop("pop two", maxMsgNums=2)
    yield s.peek("the last")
    for name in ("consumerGroup", "topic", "queueId", "maxMsgNums"):
        ext = {"consumerGroup": s.group, "topic": s.topic, "queueId": 0, "maxMsgNums": 32}
        del ext[name]
        yield s.ask(f"without {name}", PEEK, ext)


def _asked_about(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=1)
    yield s.notify("there is one")
    yield s.notify("any queue", queueId=-1)
    yield s.notify("no such queue", queueId=9)
    yield s.notify("no such topic", topic="nosuch")
    yield s.pop("it")
    yield s.notify("there is none")
    yield s.polling("polling of no such topic", topic="nosuch")
    yield s.polling("polling of no such queue", queueId=9)
    asked: dict[str, Any] = {"consumerGroup": s.group, "topic": s.topic, "queueId": 0}
    for name in asked:
        ext = {field: value for field, value in asked.items() if field != name}
        yield s.ask(f"polling without {name}", POLLING, ext)
    asked |= {"pollTime": 0, "bornTime": 0}
    for name in asked:
        ext = {field: value for field, value in asked.items() if field != name}
        yield s.ask(f"notify without {name}", NOTIFY, ext)


def _waits_for_one(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(queues=2)
    yield s.pop("waiting", kind=Parked, by="waiter", pollTime=20_000)
    yield s.polling("one waits")
    yield s.polling("none for all queues", queueId=-1)
    yield s.send(0)
    yield s.reply("waiting")
    yield s.polling("none waits")
    yield s.pop("waiting for any", kind=Parked, by="waiter", queueId=-1, pollTime=20_000)
    yield s.polling("one waits for all", queueId=-1)
    yield s.send(1)
    yield s.reply("waiting for any")


def _waits_in_vain(s: Scenario) -> Iterator[Exchange]:
    yield from s.make()
    yield s.pop("half a second", pollTime=500)
    yield s.ordered("half a second in order", pollTime=500)
    yield s.notify("half a second for a sign", pollTime=500)


def _waits_for_a_tag(s: Scenario) -> Iterator[Exchange]:
    yield from s.make()
    yield s.pop("waiting", kind=Parked, by="waiter", exp="B", expType="TAG", pollTime=20_000)
    yield s.send(0, tag="A")
    yield s.send(1, tag="B")
    yield s.reply("waiting")


def _waits_for_a_sign(s: Scenario) -> Iterator[Exchange]:
    yield from s.make()
    yield s.notify("waiting", kind=Parked, by="waiter", pollTime=20_000)
    yield s.polling("no pop waits")
    yield s.send(0)
    yield s.reply("waiting")
    yield s.pop("it")


def _in_order(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=5)
    yield s.ordered("two")
    yield s.ordered("closed", attemptId="two")
    yield s.ordered("closed to nobody", attemptId=None)
    yield s.ordered("closed in all queues", attemptId="two", queueId=-1)
    yield s.ack("the second", "two", 1)
    yield s.committed("at the first")
    yield s.ack("the first", "two", 0)
    yield s.committed("behind both")
    yield s.ordered("two more", attemptId="two")
    yield s.ack("one of the first two, late", "two", 1)
    yield s.ack("another message", "two more", 4, start=2)
    yield s.ack("both, the first", "two more", 2, start=2)
    yield s.ack("both, the second", "two more", 3, start=2)
    yield s.ordered("the last", attemptId="three")
    yield s.ack("it", "the last", 4, start=4)
    yield s.ordered("none", attemptId="four")


def _the_same_attempt(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.ordered("two")
    yield s.ordered("the same two")
    yield s.ack("with the old handle", "two", 0)
    yield s.committed("nowhere")
    yield s.ack("with the new handle", "the same two", 0)
    yield s.committed("behind the first")
    yield s.ordered("from the second on")


def _in_order_again(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=4)
    yield s.ordered("two", invisibleTime=SOON_MS)
    yield s.wait("until they come", 2 * SOON_MS)
    yield s.ordered("both again", attemptId="two", invisibleTime=SOON_MS)
    yield s.ack("the first", "both again", 0)
    yield s.wait("until the other comes", 2 * SOON_MS)
    yield s.ordered("it and another", attemptId="three", invisibleTime=SOON_MS)
    yield s.wait("until both come", 2 * SOON_MS)
    yield s.ordered("these again", attemptId="four", maxMsgNums=3)


def _settled_behind_an_open_one(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.ordered("three", invisibleTime=SOON_MS, maxMsgNums=3)
    yield s.ack("the second", "three", 1)
    yield s.wait("until they come", 2 * SOON_MS)
    yield s.ordered("again", attemptId="two", maxMsgNums=3)


def _in_order_at_another_time(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.ordered("two", invisibleTime=8_000)
    yield s.change("the first, soon", "two", 0, SOON_MS)
    yield s.ordered("closed by the second", attemptId="two")
    yield s.change("the second, soon", "two", 1, SOON_MS)
    yield s.change("the third, which nobody has", "two", 2, SOON_MS)
    yield s.wait("until they come", 2 * SOON_MS)
    yield s.ordered("both again", attemptId="two", invisibleTime=8_000)
    yield s.ack("the first", "both again", 0)
    yield s.change("the first, which is done", "both again", 0, SOON_MS)


def _in_order_at_once(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=4)
    yield s.ordered("three", maxMsgNums=3)
    yield s.acks("two of three", "three", [0, 1], rq=999)
    yield s.committed("behind both")
    yield s.acks("another message", "three", [3], rq=999)
    yield s.acks("the third", "three", [2], rq=999)
    yield s.ordered("the last", attemptId="two")


def _in_order_and_waiting(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.ordered("two")
    wait = {"kind": Parked, "by": "waiter", "pollTime": 20_000}
    yield s.ordered("waiting", attemptId="two", **wait)
    yield s.notify("no sign", order="true", attemptId="three")
    yield s.notify("a sign for the same attempt", order="true", attemptId="one")
    yield s.ack("the first", "two", 0)
    yield s.ack("the second", "two", 1)
    yield s.reply("waiting")


def _in_order_and_not(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=4)
    yield s.pop("one", maxMsgNums=1)
    yield s.ordered("the next, in order", maxMsgNums=1)
    yield s.pop("not in order", maxMsgNums=1)
    yield s.committed("where the group is")


def _sent_elsewhere(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=4)
    yield s.pop("all", maxMsgNums=4)
    ext = {"topic": s.topic, "group": s.group, "timestamp": -1, "isForce": "true", "queueId": 0}
    yield s.ask("to the second", 222, {**ext, "offset": 1})
    yield s.pop("from there on", maxMsgNums=1)
    yield s.ack("of the first pop", "all", 3)
    yield s.committed("where the group is")


def _sent_elsewhere_in_order(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.ordered("two")
    ext = {"topic": s.topic, "group": s.group, "timestamp": -1, "isForce": "true", "queueId": 0}
    yield s.ask("to the second", 222, {**ext, "offset": 1})
    yield s.ordered("from there on", attemptId="two", maxMsgNums=1)
    yield s.ack("of the first pop", "two", 0)
    yield s.committed("where the group is")


def _pulled_too(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=3)
    yield s.pop("two", maxMsgNums=2)
    for what, name in (("the first", 0), ("the second", 1)):
        yield s.ack(what, "two", name)
    ext = {"a": s.group, "b": s.topic, "c": 0, "d": 2, "e": 32, "f": 2, "g": 0, "h": 0, "i": "*"}
    yield s.ask("pull the third", 361, {**ext, "j": 0, "k": "TAG"})


def _shared_out(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(queues=3)
    beat = {
        "clientID": "c-pop",
        "consumerDataSet": [
            {
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY",
                "groupName": s.group,
                "messageModel": "CLUSTERING",
                "subscriptionDataSet": [
                    {"subString": "*", "subVersion": 1, "topic": s.topic, "expressionType": "TAG"}
                ],
                "unitMode": False,
            }
        ],
        "producerDataSet": [],
    }
    yield s.ask("heartbeat", 34, {}, _json(**beat))
    asked = {
        "clientId": "c-pop",
        "consumerGroup": s.group,
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": s.topic,
    }
    mode = {"consumerGroup": s.group, "mode": "POP", "popShareQueueNum": 0, "topic": s.topic}
    yield s.ask("before", 400, body=_json(**asked))
    yield s.ask("POP", 401, body=_json(**mode))
    yield s.ask("all of the broker", 400, body=_json(**asked))
    yield s.ask("the retry topic", 400, body=_json(**{**asked, "topic": s.retry}))
    yield s.ask("share 1", 401, body=_json(**{**mode, "popShareQueueNum": 1}))
    yield s.ask("still all", 400, body=_json(**asked))
    yield s.ask("PULL", 401, body=_json(**{**mode, "mode": "PULL"}))
    yield s.ask("its queues", 400, body=_json(**asked))


def _topic_deleted(s: Scenario) -> Iterator[Exchange]:
    yield from s.make(messages=2)
    yield s.pop("both")
    yield s.ask("delete it", 215, {"topic": s.topic})
    yield s.ack("of it", "both", 0)
    yield s.pop("it is gone")


def _json(**members: Any) -> str:
    return json.dumps(members, separators=(",", ":"))


_SCENARIOS: dict[str, Callable[[Scenario], Iterator[Exchange]]] = {
    one.__name__.replace("_", " ").strip(): one
    for one in (
        *(_one_queue, _in_portions, _all_queues, _an_empty_topic, _many_or_few),
        *(_what_is_refused, _closed, _acknowledged, _wrong_acknowledgements),
        *(_acknowledged_at_once, _with_gaps, _with_tags, _at_another_time),
        *(_later_and_acknowledged, _comes_again, _the_retry_topic, _from_the_last, _peeked),
        *(_asked_about, _waits_for_one, _waits_in_vain, _waits_for_a_tag, _waits_for_a_sign),
        *(_in_order, _the_same_attempt, _in_order_again, _settled_behind_an_open_one),
        *(_in_order_at_another_time, _in_order_at_once, _in_order_and_waiting, _in_order_and_not),
        *(_sent_elsewhere, _sent_elsewhere_in_order, _pulled_too, _shared_out, _topic_deleted),
    )
}
