"""Senders that never give a message up, and what was acknowledged to them.

A sender has one queue, and sends one message after the other to whichever broker of a set takes it.
One whose outcome is not known is sent again, as RocketMQ's producers do: it may be there twice.
"""

import contextlib
import itertools
import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.interop import link

TOPIC, QUEUES = "flights", 4
ANSWER_SECONDS = 1.0
PAUSE_SECONDS = 0.005
"""Between two messages of a sender: what is sent is read again, and compared, after each fault."""
_CODE = link.SEND_MESSAGE_V2


@dataclass(frozen=True, slots=True)
class Ack:
    """One message that a broker has acknowledged."""

    key: str
    queue: int
    offset: int
    at: float
    """Seconds of `time.monotonic`."""
    address: str
    """Of the broker."""


@dataclass
class Acks:
    """All that was acknowledged.

    Attributes:
        all: In the order in which answers came.
        wrong: Places that two different messages were acknowledged at.

    Threads: any.
    """

    all: list[Ack] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _by_place: dict[tuple[int, int], str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, key: str, answer: link.Answer, address: str) -> None:
        """Note an answer to a message that was sent."""
        queue, offset = int(answer.ext["queueId"]), int(answer.ext["queueOffset"])
        with self._lock:
            known = self._by_place.setdefault((queue, offset), key)
            if known != key:
                self.wrong.append(f"queue {queue}, offset {offset}: {known} and {key}")
            self.all.append(Ack(key, queue, offset, time.monotonic(), address))


class Sender:
    """See the head of the module.

    Args:
        number: Its own, and that of its queue.
        addresses: Of the brokers.
        acks: Where answers are noted.
        seed: Of the sizes of its messages.
    """

    def __init__(self, number: int, addresses: Sequence[str], acks: Acks, seed: int) -> None:
        self._number = number
        self._places = itertools.cycle(addresses)
        self._address = next(self._places)
        self._acks = acks
        self._sizes = random.Random(seed)
        self._link: link.Link | None = None
        self._may_send = threading.Event()
        self._is_sending = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._may_send.set()
        self._thread.start()

    def pause(self) -> None:
        """Send nothing more; nothing is on its way when this returns."""
        self._may_send.clear()
        with self._is_sending:
            pass

    def go_on(self) -> None:
        """Send again."""
        self._may_send.set()

    def stop(self) -> None:
        """Send nothing more, ever."""
        self._is_over = True
        self._may_send.set()
        self._thread.join(30)

    def _run(self) -> None:
        for count in itertools.count():
            key = f"s{self._number}-{count}"
            body = body_of(key, self._sizes.choice((0, 0, 100, 1000, 5000)))
            while True:
                self._may_send.wait()
                if self._is_over:
                    return
                with self._is_sending:
                    if self._may_send.is_set() and self._is_sent(key, body):
                        break
                time.sleep(0.02)
            time.sleep(PAUSE_SECONDS)

    def _is_sent(self, key: str, body: bytes) -> bool:
        """Send a message; return whether it was acknowledged."""
        try:
            if self._link is None:
                self._link = link.Link(self._address, timeout=ANSWER_SECONDS)
            ext = link.send_ext(TOPIC, self._number, f"KEYS\x01{key}\x02")
            answer = self._link.ask(_CODE, ext, body)
        except OSError:
            self._next()
            return False
        if answer.code != link.SUCCESS:
            self._next()
            return False
        self._acks.note(key, answer, self._address)
        return True

    def _next(self) -> None:
        """Go to the other broker."""
        if self._link is not None:
            self._link.close()
        self._link = None
        self._address = next(self._places)


class Load:
    """A sender for each queue.

    Args:
        addresses: Of the brokers.
        seed: Of what they send.

    Attributes:
        acks: All that was acknowledged, to them and to bursts.
    """

    def __init__(self, addresses: Sequence[str], seed: int) -> None:
        self.acks = Acks()
        self._bursts = 0
        self._senders = [
            Sender(number, addresses, self.acks, seed + number) for number in range(QUEUES)
        ]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Have nobody send for as long as this lasts."""
        for one in self._senders:
            one.pause()
        try:
            yield
        finally:
            for one in self._senders:
                one.go_on()

    def stop(self) -> None:
        """End them."""
        for one in self._senders:
            one.stop()

    def burst(self, address: str, count: int, size: int = 0) -> "Burst":
        """Write many messages into the socket of a broker, and wait for none of the answers."""
        self._bursts += 1
        keys = [f"b{self._bursts}-{number}" for number in range(count)]
        return Burst(address, keys, size, self.acks)


class Burst:
    """Messages that lie in the socket of a broker.

    Args:
        address: Of the broker.
        keys: Of the messages; each is sent once.
        size: Of each, about, in bytes.
        acks: Where answers are noted.
    """

    def __init__(self, address: str, keys: Sequence[str], size: int, acks: Acks) -> None:
        self._keys = dict(enumerate(keys, 1))
        self._address = address
        self._acks = acks
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 10)
        self._data = b"".join(
            link.encode(
                _CODE,
                number,
                link.send_ext(TOPIC, number % QUEUES, f"KEYS\x01{key}\x02"),
                body_of(key, size),
            )
            for number, key in self._keys.items()
        )
        # A broker that stands still takes no more than its socket holds.
        self._sending = threading.Thread(target=self._send, daemon=True)
        self._sending.start()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(self._data)

    def collect(self, seconds: float) -> int:
        """Note what is answered until nothing has come for some time; return how much was."""
        waiting, count = bytearray(), 0
        self._socket.settimeout(seconds)
        with contextlib.suppress(OSError):
            while data := self._socket.recv(1 << 16):
                waiting += data
                while len(waiting) >= 4:
                    end = 4 + int.from_bytes(waiting[:4], "big")
                    if len(waiting) < end:
                        break
                    answer = link.decode(bytes(waiting[4:end]))
                    del waiting[:end]
                    if answer.code == link.SUCCESS and answer.opaque in self._keys:
                        self._acks.note(self._keys[answer.opaque], answer, self._address)
                        count += 1
        self._socket.close()
        return count


def body_of(key: str, size: int) -> bytes:
    """Return the body of a message: its key, and some bytes that are its own."""
    text = f"{key} ".encode()
    return text + (text * (size // len(text) + 1))[:size]
