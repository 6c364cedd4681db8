"""What was popped goes with the folder: from RocketMQ 5.3.3 to our broker, and back."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.interop.test_store_in_rocketmq import OURS, THEIRS
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.record import record

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC, GROUP = "Popped", "popping"
LONG_MS = 600_000
CHANGING_MS = 45_000
"""Longer than it takes to stop one broker and to start the other."""
SETTLE_SECONDS = 5.0
"""What comes too often comes within this time."""
FOUND, TIMED_OUT = 0, 210


class Popper:
    """A consumer that pops over a connection of its own."""

    def __init__(self, broker: peers.Broker) -> None:
        self._link = link.Link(broker.address)

    def send(self, count: int) -> None:
        """Make the topic and send messages."""
        link.create_topic(self._link, TOPIC, 1)
        for number in range(count):
            self._link.call(310, link.send_ext(TOPIC, 0, ""), b"m%d" % number)

    def pop(
        self, count: int = 32, *, attempt: str = "", ms: int = LONG_MS
    ) -> list[tuple[str, str]]:
        """Pop, in order if an attempt is named; return bodies and handles."""
        ext: dict[str, object] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0}
        ext |= {"maxMsgNums": count, "invisibleTime": ms, "pollTime": 0, "bornTime": 0}
        ext |= {"initMode": 0}
        if attempt:
            ext |= {"order": True, "attemptId": attempt}
        answer = self._link.ask(200050, ext)
        if answer.code == TIMED_OUT:
            return []
        assert answer.code == FOUND, answer.remark
        return [*self._found(answer)]

    def _found(self, answer: link.Answer) -> Iterator[tuple[str, str]]:
        said = [answer.ext[name] for name in ("popTime", "invisibleTime", "reviveQid")]
        starts = {
            tuple(one.split()[:2]): one.split()[2]
            for one in answer.ext["startOffsetInfo"].split(";")
        }
        messages = iter(record.decode_all(answer.body, check_crc=False))
        for one in answer.ext["msgOffsetInfo"].split(";"):
            kind, queue, offsets = one.split()
            for offset in offsets.split(","):
                handle = [starts[kind, queue], *said, kind, "broker-a", queue, offset]
                yield next(messages).body.decode(), " ".join(handle)

    def acknowledge(self, handle: str) -> None:
        """Acknowledge a message."""
        *_, kind, _, queue, offset = handle.split()
        topic = {"0": TOPIC, "1": f"%RETRY%{GROUP}_{TOPIC}"}[kind]
        place = {"consumerGroup": GROUP, "topic": topic, "queueId": queue, "offset": offset}
        self._link.call(200051, {**place, "extraInfo": handle})


def ours(store: Path) -> peers.Sprocket:
    """Return our broker on a folder."""
    options = [part for setting in OURS for part in ("--set", setting)]
    return peers.Sprocket(store.parent / "ours", store, options)


def theirs(store: Path, jars: Path) -> peers.RocketMQ:
    """Return the real broker on a folder."""
    return peers.RocketMQ(jars=jars, folder=store.parent / "theirs", store=store, settings=THEIRS)


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_order_goes_with_the_folder(first: str, jars: Path, tmp_path: Path) -> None:
    """Who has messages in order is known to the other broker; an old handle counts there."""
    store = tmp_path / "store"
    brokers: list[peers.Sprocket | peers.RocketMQ] = [ours(store), theirs(store, jars)]
    if first == "theirs":
        brokers.reverse()
    with ExitStack() as running:
        running.enter_context(brokers[0])
        popper = Popper(brokers[0])
        popper.send(4)
        got = popper.pop(2, attempt="one")
        assert [body for body, _ in got] == ["m0", "m1"]
        popper.acknowledge(got[0][1])
    with brokers[1]:
        popper = Popper(brokers[1])
        assert popper.pop(2, attempt="two") == []
        popper.acknowledge(got[1][1])
        assert [body for body, _ in popper.pop(2, attempt="two")] == ["m2", "m3"]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_what_is_in_flight_goes_with_the_folder(first: str, jars: Path, tmp_path: Path) -> None:
    """What was acknowledged at either broker does not come again, what was not comes in time."""
    store = tmp_path / "store"
    brokers: list[peers.Sprocket | peers.RocketMQ] = [ours(store), theirs(store, jars)]
    if first == "theirs":
        brokers.reverse()
    with ExitStack() as running:
        running.enter_context(brokers[0])
        popper = Popper(brokers[0])
        popper.send(5)
        got = popper.pop(4, ms=CHANGING_MS)
        due_at = time.monotonic() + CHANGING_MS / 1000
        assert [body for body, _ in got] == ["m0", "m1", "m2", "m3"]
        popper.acknowledge(got[0][1])
    with brokers[1]:
        popper = Popper(brokers[1])
        assert [body for body, _ in popper.pop()] == ["m4"]
        popper.acknowledge(got[1][1])
        assert time.monotonic() < due_at, "it takes too long to change brokers"
        again: list[str] = []

        def came() -> bool:
            again.extend(body for body, _ in popper.pop())
            return len(again) >= 2

        peers.wait_until(
            came,
            "messages that come again",
            seconds=CHANGING_MS / 1000 + LONG_SECONDS,
            every=0.5,
        )
        peers.pause(SETTLE_SECONDS)
        again += [body for body, _ in popper.pop()]
    assert sorted(again) == ["m2", "m3"]
