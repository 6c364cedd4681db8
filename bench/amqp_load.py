"""A load of raw AMQP frames over sockets, which costs little CPU of its own.

A message is what a client sends that sets a content type, three headers, a delivery mode and a
message id of 36 characters, which no other message has for a while. Publishers wait for confirms,
consumers acknowledge each message by itself.

Load and broker share the machine, so what the load spends the broker lacks. Hence all frames are
made before: a publisher sends slices of one long buffer, a consumer slices of another that has the
acknowledgements of all tags. Confirms are frames of one size, and so are deliveries, as all
messages of a row are equally long: they are counted by dividing. What came with one `recv` is
answered by one `send`.

Invariants:
1. A publisher never has more than its number of messages unconfirmed, a consumer never more than
   its prefetch unacknowledged.
2. Anything but a confirm or a delivery in the expected place raises `LoadError`, and so does a
   confirm of what was confirmed.
3. Latency is from the call that sent a message to the return of the call that read its confirm.
"""

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from sprocket.rabbitmq.codec.amqp import frames, methods, properties
from sprocket.rabbitmq.model.fields import (
    NO_FIELDS,
    Field,
    FieldKind,
    FieldTable,
    long_string,
)
from sprocket.rabbitmq.model.properties import BasicProperties

CORPUS_MESSAGES = 16_384
"""Messages that differ; more than any memory of what was seen could hold without cost."""
RECEIVE_BYTES = 1 << 20
SEND_MESSAGES_MAX = 256
"""Messages of one `send`: a buffer of the socket holds as many of 1 KiB."""
SILENCE_SECONDS_MAX = 30.0
PREFETCH = 250

_CONFIRM = struct.Struct(">BHIIQBB")
"""basic.ack, all of its frame."""
_ACK_METHOD = 60 << 16 | 80
_DELIVER_METHOD = 60 << 16 | 60
_METHOD_HEAD = struct.Struct(">BHII")


class LoadError(Exception):
    """The broker said something else than it should, closed the connection, or went silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is published, and how.

    `unconfirmed` is the limit of each connection.
    """

    connections: int
    unconfirmed: int
    queues: int
    is_persistent: bool
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a load saw: times in seconds; `cpu_seconds` are the load's own."""

    messages: int
    seconds: float
    cpu_seconds: float
    latencies: Sequence[float] = ()
    """Of messages, each once for all that one confirm, or those of one read, were about."""
    weights: Sequence[int] = ()
    """How many messages each latency is of."""

    def percentile(self, share: float) -> float:
        """Return the latency that `share` of the messages stayed within; 0 if none was seen."""
        pairs = sorted(zip(self.latencies, self.weights, strict=True))
        left = share * sum(self.weights)
        for latency, weight in pairs:
            left -= weight
            if left <= 0:
                return latency
        return pairs[-1][0] if pairs else 0.0


def queue_name(number: int) -> str:
    """Return the name of a queue; all are equally long."""
    return f"bench-{number:05d}"


class Corpus:
    """The frames of many messages, one after the other; message n goes to queue n % queues."""

    def __init__(self, shape: Shape, count: int = CORPUS_MESSAGES) -> None:
        body = bytes(range(256)) * (1 + shape.body_bytes // 256)
        made = [_content(shape, number, body[: shape.body_bytes]) for number in range(count)]
        self.size = len(made[0])
        self.count = count
        self.octets = memoryview(b"".join(made))
        assert len(self.octets) == self.size * count, "messages of several lengths"


def _content(shape: Shape, number: int, body: bytes) -> bytes:
    name = queue_name(number % shape.queues)
    method = methods.encode(methods.BasicPublish(0, "", name, False, False))
    held = properties.encode(
        BasicProperties(
            content_type="application/json",
            headers=FieldTable(
                (
                    ("task", long_string("flights.tasks.land")),
                    ("retries", Field(FieldKind.SIGNED_INT, 0)),
                    ("origin", long_string("gen4711@bench")),
                )
            ),
            delivery_mode=2 if shape.is_persistent else 1,
            message_id=f"{number:08x}-9c5e-4b1f-8f6a-{number:012d}",
        )
    )
    buffers = frames.encode_content(1, method, held, [body] if body else [], 131072)
    return b"".join(buffers)


@dataclass(slots=True)
class Link:
    """A connection with channel 1."""

    socket: socket.socket
    rest: bytes = b""

    def call(self, method: methods.AmqpMethod, channel: int = 1) -> methods.AmqpMethod:
        """Ask for something and return the answer."""
        self.socket.sendall(frames.encode_method(channel, method))
        return self.answer()

    def answer(self) -> methods.AmqpMethod:
        """Return the next method."""
        while True:
            if len(self.rest) >= frames.HEAD_BYTES:
                kind, _, size = frames.HEAD.unpack_from(self.rest)
                end = frames.OVERHEAD_BYTES + size
                if len(self.rest) >= end:
                    payload, self.rest = self.rest[frames.HEAD_BYTES : end - 1], self.rest[end:]
                    if kind == frames.FrameKind.METHOD:
                        return methods.decode(payload, 0, len(payload))
                    continue
            data = self.socket.recv(RECEIVE_BYTES)
            if not data:
                raise LoadError("the broker closed the connection")
            self.rest += data


def connect(port: int) -> Link:
    """Open a connection and its channel 1."""
    found = Link(socket.create_connection(("127.0.0.1", port), SILENCE_SECONDS_MAX))
    found.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.socket.sendall(frames.PROTOCOL_HEADER)
    found.answer()
    login = methods.ConnectionStartOk(NO_FIELDS, "PLAIN", b"\0guest\0guest", "en_US")
    found.call(login, 0)
    tune = methods.ConnectionTuneOk(2047, 131072, 0)
    found.socket.sendall(frames.encode_method(0, tune))
    found.call(methods.ConnectionOpen("/"), 0)
    found.call(methods.ChannelOpen())
    return found


@contextmanager
def linked(port: int) -> Iterator[Link]:
    """Open a connection for a while."""
    found = connect(port)
    try:
        yield found
    finally:
        found.socket.close()


def declare(port: int, queues: int) -> None:
    """Declare durable queues."""
    with linked(port) as link:
        for number in range(queues):
            link.call(
                methods.QueueDeclare(
                    0, queue_name(number), False, True, False, False, False, NO_FIELDS
                )
            )


def ready_count(port: int, queues: int) -> int:
    """Return how many messages are ready in the first queues."""
    total = 0
    with linked(port) as link:
        for number in range(queues):
            told = link.call(
                methods.QueueDeclare(
                    0, queue_name(number), True, True, False, False, False, NO_FIELDS
                )
            )
            assert isinstance(told, methods.QueueDeclareOk)
            total += told.message_count
    return total


def purge(port: int, queues: int) -> None:
    """Drop what is ready in the first queues."""
    with linked(port) as link:
        for number in range(queues):
            link.call(methods.QueuePurge(0, queue_name(number), False))


@dataclass(slots=True)
class _Publisher:
    """A connection that publishes; tags are numbers of its messages, from 1 on."""

    link: Link
    corpus: Corpus
    unconfirmed_max: int
    at: int
    """The message of the corpus that is next."""
    sent: int = 0
    confirmed: int = 0
    low: int = 0
    """Up to here all are confirmed."""
    above: set[int] = field(default_factory=set)
    """Confirmed ones above that."""
    sent_at: deque[tuple[int, float]] = field(default_factory=deque)
    """Last tags and times of what was sent together."""

    def send(self, count: int) -> None:
        corpus = self.corpus
        while count > 0:
            some = min(count, corpus.count - self.at, SEND_MESSAGES_MAX)
            now = time.perf_counter()
            self.link.socket.sendall(
                corpus.octets[self.at * corpus.size : (self.at + some) * corpus.size]
            )
            self.at = (self.at + some) % corpus.count
            self.sent += some
            self.sent_at.append((self.sent, now))
            count -= some

    def receive(self, latencies: list[float], weights: list[int]) -> int:
        """Take confirms; return how many messages they are about."""
        link = self.link
        data = link.socket.recv(RECEIVE_BYTES)
        if not data:
            raise LoadError("the broker closed the connection")
        now = time.perf_counter()
        if link.rest:
            data = link.rest + data
        end = len(data) - len(data) % _CONFIRM.size
        link.rest = data[end:]
        before, low, above = self.confirmed, self.low, self.above
        total = before
        for _, _, _, method, tag, is_multiple, _ in _CONFIRM.iter_unpack(data[:end]):
            if method != _ACK_METHOD or tag > self.sent or tag <= low or tag in above:
                _fail(data)
            if is_multiple:
                total += tag - low
                if above:
                    total -= len([one for one in above if one <= tag])
                    above = {one for one in above if one > tag}
                low = tag
            elif tag == low + 1:
                low = tag
                total += 1
            else:
                above.add(tag)
                total += 1
            while above and low + 1 in above:
                low += 1
                above.remove(low)
        self.confirmed, self.low, self.above = total, low, above
        sent_at, first = self.sent_at, before
        while sent_at and sent_at[0][0] <= low:
            last, at = sent_at.popleft()
            latencies.append(now - at)
            weights.append(max(last - first, 1))
            first = last
        return total - before


def _fail(data: bytes) -> NoReturn:
    raise LoadError(f"expected a confirm or a delivery, found {data[:200]!r}")


def publish(
    port: int, shape: Shape, corpus: Corpus, *, seconds: float = 3600.0, messages: int = 1 << 62
) -> Run:
    """Publish until `seconds` have passed or `messages` were sent, then await all confirms."""
    publishers: dict[int, _Publisher] = {}
    try:
        for number in range(shape.connections):
            link = connect(port)
            link.call(methods.ConfirmSelect(False))
            start = number * corpus.count // shape.connections
            publishers[link.socket.fileno()] = _Publisher(link, corpus, shape.unconfirmed, start)
        latencies: list[float] = []
        weights: list[int] = []
        spent, began = time.process_time(), time.perf_counter()
        deadline = began + seconds
        left = messages
        with select.epoll() as poll:
            for number, one in publishers.items():
                poll.register(number, select.EPOLLIN)
                count = min(one.unconfirmed_max, left)
                left -= count
                one.send(count)
            waiting = sum(one.sent > 0 for one in publishers.values())
            while waiting:
                events = poll.poll(SILENCE_SECONDS_MAX)
                if not events:
                    raise LoadError(f"no confirm for {SILENCE_SECONDS_MAX:.0f} s")
                for number, _ in events:
                    one = publishers[number]
                    count = one.receive(latencies, weights)
                    if left > 0 and time.perf_counter() < deadline:
                        count = min(count, left)
                        left -= count
                        one.send(count)
                    elif count and one.confirmed == one.sent:
                        waiting -= 1
        return Run(
            messages=sum(one.confirmed for one in publishers.values()),
            seconds=time.perf_counter() - began,
            cpu_seconds=time.process_time() - spent,
            latencies=latencies,
            weights=weights,
        )
    finally:
        for one in publishers.values():
            one.link.socket.close()


def acknowledgements(count: int) -> memoryview:
    """Return the frames that acknowledge the tags from 1 to `count`, each by itself."""
    size = _CONFIRM.size
    made = bytearray(count * size)
    method_bytes = size - frames.OVERHEAD_BYTES
    for tag in range(1, count + 1):
        _CONFIRM.pack_into(
            made, (tag - 1) * size, 1, 1, method_bytes, _ACK_METHOD, tag, 0, frames.END
        )
    return memoryview(made)


@dataclass(slots=True)
class _Consumer:
    """A connection that consumes; what is pending is not a whole delivery yet."""

    link: Link
    tag_place: int
    """Where the delivery tag stands in a delivery."""
    size: int = 0
    pending: int = 0
    """Bytes of a delivery that has begun."""
    taken: int = 0

    def receive(self, acks: memoryview) -> int:
        """Take deliveries and acknowledge them; return how many."""
        data = self.link.socket.recv(RECEIVE_BYTES)
        if not data:
            raise LoadError("the broker closed the connection")
        if not self.size:
            self.link.rest += data
            self.size = _delivery_bytes(self.link.rest)
            if not self.size:
                return 0
            data, self.link.rest = self.link.rest, b""
        skipped = (self.size - self.pending) % self.size
        if len(data) - skipped >= self.tag_place + 8:  # what was counted begins where it should
            _, _, _, method = _METHOD_HEAD.unpack_from(data, skipped)
            tag = int.from_bytes(data[skipped + self.tag_place :][:8], "big")
            expected = self.taken + (2 if self.pending else 1)
            if method != _DELIVER_METHOD or tag != expected:
                _fail(data[skipped:])
        whole, self.pending = divmod(self.pending + len(data), self.size)
        if whole:
            first = self.taken * _CONFIRM.size
            self.link.socket.sendall(acks[first : first + whole * _CONFIRM.size])
            self.taken += whole
        return whole


def _delivery_bytes(data: bytes) -> int:
    """Return how long the first delivery is: its method, its header and its body; 0 if unknown."""
    at = 0
    body = None
    for _ in range(3):
        if len(data) < at + frames.HEAD_BYTES:
            return 0
        _, _, size = frames.HEAD.unpack_from(data, at)
        if body is None and at:
            if len(data) < at + frames.HEAD_BYTES + frames.CONTENT_HEAD.size:
                return 0
            _, _, body = frames.CONTENT_HEAD.unpack_from(data, at + frames.HEAD_BYTES)
        at += frames.OVERHEAD_BYTES + size
        if body == 0:
            break
    return at


@contextmanager
def _consuming(port: int, connections: int, queues: int) -> Iterator[dict[int, _Consumer]]:
    """Open consumers, whose deliveries have not begun: `_begin` has them begin."""
    found: dict[int, _Consumer] = {}
    try:
        for _ in range(connections):
            link = connect(port)
            link.call(methods.BasicQos(0, PREFETCH, False))
            tag_place = frames.HEAD_BYTES + frames.METHOD_HEAD_BYTES + 1 + len(_consumer_tag(0))
            found[link.socket.fileno()] = _Consumer(link, tag_place)
        for number, one in enumerate(found.values()):
            its = range(queues) if connections < queues else (number % queues,)
            for queue in its:
                consume = methods.BasicConsume(
                    0,
                    queue_name(queue),
                    _consumer_tag(queue),
                    no_local=False,
                    no_ack=False,
                    exclusive=False,
                    nowait=True,  # so that nothing but deliveries comes
                    arguments=NO_FIELDS,
                )
                one.link.socket.sendall(frames.encode_method(1, consume))
        yield found
    finally:
        for one in found.values():
            one.link.socket.close()


def _consumer_tag(queue: int) -> str:
    return f"ctag1.{queue:02d}0b2c4f"


def consume(port: int, *, connections: int, queues: int, messages: int, acks: memoryview) -> Run:
    """Consume so many messages that are there; more may come, and are acknowledged, too."""
    with _consuming(port, connections, queues) as consumers, select.epoll() as poll:
        spent, began = time.process_time(), time.perf_counter()
        for number in consumers:
            poll.register(number, select.EPOLLIN)
        taken = 0
        while taken < messages:
            events = poll.poll(SILENCE_SECONDS_MAX)
            if not events:
                raise LoadError(f"no delivery for {SILENCE_SECONDS_MAX:.0f} s")
            for number, _ in events:
                taken += consumers[number].receive(acks)
        seconds, cpu = time.perf_counter() - began, time.process_time() - spent
        return Run(messages=taken, seconds=seconds, cpu_seconds=cpu)


def through(
    port: int,
    shape: Shape,
    corpus: Corpus,
    acks: memoryview,
    *,
    seconds: float,
    unsettled_max: int,
) -> Run:
    """Publish and consume at once, on as many connections each.

    Publishers wait while more than `unsettled_max` messages are not consumed yet.
    """
    publishers: dict[int, _Publisher] = {}
    latencies: list[float] = []
    weights: list[int] = []
    with _consuming(port, shape.connections, shape.queues) as consumers, select.epoll() as poll:
        try:
            for number in range(shape.connections):
                link = connect(port)
                link.call(methods.ConfirmSelect(False))
                start = number * corpus.count // shape.connections
                made = _Publisher(link, corpus, shape.unconfirmed, start)
                publishers[link.socket.fileno()] = made
            spent, began = time.process_time(), time.perf_counter()
            deadline = began + seconds
            for number in (*consumers, *publishers):
                poll.register(number, select.EPOLLIN)
            sent = taken = 0
            for one in publishers.values():
                one.send(shape.unconfirmed)
                sent += shape.unconfirmed
            allowed = dict.fromkeys(publishers, 0)
            is_over = False
            while not (is_over and taken >= sent):
                events = poll.poll(SILENCE_SECONDS_MAX)
                if not events:
                    raise LoadError(f"nothing for {SILENCE_SECONDS_MAX:.0f} s")
                for number, _ in events:
                    if number in consumers:
                        taken += consumers[number].receive(acks)
                    else:
                        allowed[number] += publishers[number].receive(latencies, weights)
                is_over = is_over or time.perf_counter() >= deadline
                if is_over or sent - taken > unsettled_max:
                    continue
                for number, count in allowed.items():
                    if count:
                        publishers[number].send(count)
                        sent += count
                        allowed[number] = 0
            return Run(
                messages=taken,
                seconds=time.perf_counter() - began,
                cpu_seconds=time.process_time() - spent,
                latencies=latencies,
                weights=weights,
            )
        finally:
            for one in publishers.values():
                one.link.socket.close()
