"""A load of raw send frames over sockets, which costs little CPU of its own.

A frame is what the Java client 5.3.3 sends for a message with a tag and a key: it adds `UNIQ_KEY`
and `WAIT`, to each message of a batch and to the batch itself as well, in this order.

Load and broker share the machine, so what the load spends the broker lacks. Hence: frames are built
once, and only opaque, keys and unique keys are patched, all of them ten digits; answers are counted
by scanning frames, no JSON is parsed; all that came with one `recv` is answered by one `send`. A
message costs the load about 4 µs, 10 µs where each goes alone, 0.5 µs in a batch. A message of a
transaction is committed as soon as it is stored, one-way and together with the next send, as the
clients of Java and Go do.

Invariants:
1. A connection never has more than its number of requests outstanding, and exactly as many while
   the load runs.
2. Every answer has code 0 and an opaque that was outstanding; anything else raises `LoadError`.
3. Latency is from the call that sent the request to the return of the call that read the answer.
"""

import hmac
import select
import socket
import time
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from tests.interop import link

FIRST = 1_234_000_000
"""The first opaque: ten digits from the first to the last, so that patching keeps the length."""

DIGITS = 10
UNIQUE_START, BATCH_UNIQUE_START = f"7F0000010001{0:010d}", f"7F0000010002{0:010d}"
"""Before the ten digits that tell unique keys apart: they have 32, as those of an IPv4 host."""
BODY_BYTES = 1024
GROUP = "link_producer"
PREPARED = 4
"""The system flag of half messages."""
HOST_DIGITS = 16
"""Of an offset message id, which ends in as many digits of the place in the log."""
_MESSAGE_ID, _QUEUE_OFFSET = b'"msgId":"', b'"queueOffset":"'
RECEIVE_BYTES = 1 << 18
SILENCE_SECONDS_MAX = 20.0


class LoadError(Exception):
    """The broker answered with an error, closed the connection, or went silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One shape of load."""

    connections: int
    outstanding: int
    batch: int = 1
    """Messages of one request; more than one go as SEND_BATCH_MESSAGE."""
    commits: bool = False
    """Each message belongs to a transaction, committed as soon as the message is stored; how many
    are is what the queues of the topic say."""

    @property
    def name(self) -> str:
        """Return "connections × outstanding", and what is special about the messages."""
        name = f"{self.connections} × {self.outstanding}"
        if self.commits:
            return f"{name} committed"
        return name if self.batch == 1 else f"{name} × {self.batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a load saw: all times in seconds, a latency for each request."""

    messages: int
    seconds: float
    latencies: Sequence[float]

    def percentile(self, share: float) -> float:
        """Return the latency that `share` of the requests stayed within."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(slots=True)
class _Lane:
    """One connection and its frame.

    `own` is where the request's number stands, `places` where each message's two keys; `commits`
    are frames that are to be sent next.
    """

    socket: socket.socket
    frame: bytearray
    own: Sequence[int]
    places: Sequence[tuple[int, int]]
    sign: "_Signer | None" = None
    commits: list[bytes] = field(default_factory=list)
    sent_at: dict[bytes, float] = field(default_factory=dict)
    rest: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signer:
    """Signs the frame of one message, whatever its number.

    `place` is where the signature stands in the frame, `pieces` what is signed, cut where the
    number stands.
    """

    secret: bytes
    frame: bytearray
    place: int
    pieces: Sequence[bytes]

    def sign(self, digits: bytes) -> None:
        """Put the signature into the frame, which has this number."""
        made = b2a_base64(hmac.digest(self.secret, digits.join(self.pieces), "sha1"), newline=False)
        self.frame[self.place : self.place + len(made)] = made


class Load:
    """Connections to one broker, each sending to one queue of `topic`."""

    def __init__(
        self,
        address: str,
        topic: str,
        row: Row,
        *,
        queues: int,
        credentials: tuple[str, str] | None = None,
        sends_signature: bool = True,
    ) -> None:
        """Connect; the topic must exist with at least `queues` queues.

        With `credentials`, a name and a secret, each message is signed; batches are not. It may be
        sent without: then the load is as slow as one that signs.
        """
        self._row = row
        self._commit_form = _commit_form(topic)
        self._next = FIRST
        self._latencies: list[float] = []
        self._lanes = {
            lane.socket.fileno(): lane
            for lane in (
                _lane(address, topic, number % queues, row, credentials, sends_signature)
                for number in range(row.connections)
            )
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes.values():
            lane.socket.close()

    def run(self, *, seconds: float = 3600.0, messages: int = 1 << 62) -> Run:
        """Send until `seconds` have passed or `messages` were sent, then await all answers."""
        self._latencies = []
        first, last = self._next, self._next + messages
        start = time.perf_counter()
        deadline = start + seconds
        with select.epoll() as poll:
            for number, lane in self._lanes.items():
                poll.register(number, select.EPOLLIN)
                self._send(lane, self._row.outstanding)
            waiting = len(self._lanes)
            while waiting:
                events = poll.poll(SILENCE_SECONDS_MAX)
                if not events:
                    raise LoadError(f"no answer for {SILENCE_SECONDS_MAX:.0f} s")
                for number, _ in events:
                    lane = self._lanes[number]
                    count = self._receive(lane)
                    if self._next < last and time.perf_counter() < deadline:
                        self._send(lane, count)
                        continue
                    if lane.commits:
                        self._send(lane, 0)
                    if count and not lane.sent_at:
                        waiting -= 1
        end = time.perf_counter()
        return Run(messages=self._next - first, seconds=end - start, latencies=self._latencies)

    def _send(self, lane: _Lane, count: int) -> None:
        frames, lane.commits = lane.commits, []
        frame, sent_at = lane.frame, lane.sent_at
        own, places, sign = lane.own, lane.places, lane.sign
        number = self._next
        now = time.perf_counter()
        for _ in range(count):
            digits = b"%d" % number
            for place in own:
                frame[place : place + DIGITS] = digits
            sent_at[digits] = now
            for one, two in places:
                digits = b"%d" % number
                frame[one : one + DIGITS] = digits
                frame[two : two + DIGITS] = digits
                number += 1
            if sign is not None:
                sign.sign(digits)
            frames.append(bytes(frame))
        self._next = number
        if frames:
            lane.socket.sendall(b"".join(frames) if len(frames) > 1 else frames[0])

    def _receive(self, lane: _Lane) -> int:
        """Take what came; return of how many messages it had the last answer."""
        data = lane.socket.recv(RECEIVE_BYTES)
        if not data:
            raise LoadError("the broker closed the connection")
        now = time.perf_counter()
        if lane.rest:
            data = lane.rest + data
        sent_at, late, commits = lane.sent_at, self._latencies.append, self._row.commits
        start, size, count = 0, len(data), 0
        while size - start >= 4:
            end = start + 4 + int.from_bytes(data[start : start + 4], "big")
            if end > size:
                break
            place = data.find(b'"opaque":', start, end) + 9
            digits = data[place : place + DIGITS]
            sent = sent_at.pop(digits, None)
            if sent is None or data.find(b'"code":0,', start, end) < 0:
                raise LoadError(f"an answer that is none: {data[start:end]!r}")
            late(now - sent)
            count += 1
            if commits:
                lane.commits.append(self._commit(digits, data[start:end]))
            start = end
        lane.rest = data[start:]
        return count

    def _commit(self, digits: bytes, answer: bytes) -> bytes:
        """Return the frame of the commit that follows a half message's answer."""
        at, end = answer.find(_MESSAGE_ID) + len(_MESSAGE_ID), answer.find(_QUEUE_OFFSET)
        if at < len(_MESSAGE_ID) or end < 0:
            raise LoadError(f"an answer without a place: {answer!r}")
        place = int(answer[at + HOST_DIGITS : at + 2 * HOST_DIGITS], 16)
        start = end + len(_QUEUE_OFFSET)
        offset = answer[start : answer.find(b'"', start)]
        key = UNIQUE_START.encode() + digits
        header = self._commit_form % (place, key, offset, key, digits)
        size = len(header).to_bytes(4, "big")
        return (len(header) + 4).to_bytes(4, "big") + size + header


def _commit_form(topic: str) -> bytes:
    """Return the header of a commit: place, key, offset of the half, key and opaque fill it in."""
    ext = {
        "commitLogOffset": "@place@",
        "commitOrRollback": 8,
        "fromTransactionCheck": False,
        "msgId": "@text@",
        "producerGroup": GROUP,
        "topic": topic,
        "tranStateTableOffset": "@text@",
        "transactionId": "@text@",
    }
    form = link.encode(link.END_TRANSACTION, FIRST, ext, flag=link.ONE_WAY)[8:].replace(b"%", b"%%")
    for mark, place in ((b"@place@", b"%d"), (b"@text@", b"%b"), (b"%d" % FIRST, b"%b")):
        form = form.replace(mark, place)
    return form


def _lane(
    address: str,
    topic: str,
    queue_id: int,
    row: Row,
    credentials: tuple[str, str] | None,
    sends_signature: bool,
) -> _Lane:
    is_signed = credentials is not None
    assert not is_signed or (row.batch == 1 and not row.commits), "single sends alone are signed"
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), SILENCE_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    mark = str(FIRST)
    unique = f"UNIQ_KEY\x01{UNIQUE_START}{mark}"
    properties = f"KEYS\x01k{mark}\x02{unique}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    sys_flag = 0
    if row.commits:
        properties += f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
        sys_flag = PREPARED
    batch = row.batch
    body = bytes(range(256)) * (BODY_BYTES // 256)
    sign = None
    if batch == 1:
        ext = link.send_ext(topic, queue_id, properties, n="broker-a", a=GROUP, f=sys_flag)
        frame = bytearray(link.encode(link.SEND_MESSAGE_V2, FIRST, ext, body))
        if credentials is not None:
            sign = _signer(ext, body, credentials)
            frame = sign.frame if sends_signature else frame
    else:
        shared = f"UNIQ_KEY\x01{BATCH_UNIQUE_START}{mark}\x02WAIT\x01true\x02"
        ext = link.send_ext(topic, queue_id, shared, m=True, n="broker-a")
        part = link.batch_part(body, properties)
        frame = bytearray(link.encode(link.SEND_BATCH_MESSAGE, FIRST, ext, part * batch))
    places, place = [], frame.find(mark.encode())
    while place >= 0:
        places.append(place)
        place = frame.find(mark.encode(), place + DIGITS)
    own = [frame.find(mark.encode(), frame.find(b'"opaque":'))]
    if batch > 1:
        own.append(places[0])
    if len(places) != len(own) + 2 * batch:
        raise LoadError(f"{mark} must stand for opaque and keys only: {frame!r}")
    places = [place for place in places if place not in own]
    pairs = list(zip(places[::2], places[1::2], strict=True))
    return _Lane(connection, frame, own, pairs, sign)


def _signer(ext: Mapping[str, object], body: bytes, credentials: tuple[str, str]) -> _Signer:
    signed = link.signed(ext, body, *credentials)
    frame = bytearray(link.encode(link.SEND_MESSAGE_V2, FIRST, signed, body))
    text = link.signed_text({name: one for name, one in signed.items() if name != "Signature"})
    return _Signer(
        secret=credentials[1].encode(),
        frame=frame,
        place=frame.index(str(signed["Signature"]).encode()),
        pieces=(text.encode() + body).split(str(FIRST).encode()),
    )
