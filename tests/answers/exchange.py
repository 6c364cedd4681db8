"""One request and what was answered, and how a list of them is sent to anybody."""

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.waits import LONG_SECONDS

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import binary_header
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.codec.record import record

SECONDS_MAX = LONG_SECONDS
PROBE_OPAQUE = 99
AWAIT_ANSWER = b""
"""Among the chunks of `Frames`: go on when one answer has come."""
PULL_CODES = frozenset({11, 12, 33, 361, 200050, 200052})
"""Codes whose answers carry stored records."""
POP_CODES = frozenset({200050, 200053})
"""Codes whose answers have what handles are made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request with a JSON header.

    Attributes:
        name: A path; see `requests`.
        code: The request's code.
        ext: Its ext fields; None for a header without.
        body: As Latin-1 text, so that any bytes have one.
        to: "broker" or "nameserver".
        by: The connection it goes over; each is opened at its first request.
        version: The sender's.
        depth: If what the body holds depends on more than the requests, down to which depth the
            names of its members are compared, and nothing else; 0 to compare all of it.
    """

    name: str
    code: int
    ext: Mapping[str, object] | None
    body: str = ""
    to: str = "broker"
    by: str = "tool"
    version: int = 479
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Bytes on a connection of their own, then a request for a topic's route to see if it lives."""

    name: str
    chunks: tuple[bytes, ...]
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One answer, made comparable.

    Attributes:
        header: The JSON header as text; of a binary header its parts, as JSON.
        body: JSON, records as JSON, or text.
    """

    header: str
    body: Any = ""


@dataclass(slots=True, kw_only=True)
class Talk:
    """Connections to a broker and its NameServer, over which requests go one at a time."""

    broker: str
    nameserver: str
    patience: float = 0.0
    """Seconds in which answers may still come after those to later requests."""
    _links: dict[tuple[str, str], "_Link"] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    _ext: dict[str, Mapping[str, str]] = field(default_factory=dict)

    async def tell(self, step: Exchange | Frames) -> list[Told]:
        """Send a request and return its answer; for frames, all answers and "closed" or "open"."""
        if isinstance(step, Frames):
            return await self._frames(step)
        link = self._links.get((step.to, step.by))
        if link is None:
            link = self._links[step.to, step.by] = await _Link.open(self._address(step.to))
        header, body = await link.ask(self._encode(step, link.next_opaque()))
        found = re.search(r'"msgId":"([0-9A-F]{32})', header)
        if found:
            self._ids[step.name] = found[1]
        if step.code in POP_CODES:
            self._ext[step.name] = json.loads(header).get("extFields") or {}
        return [Told(header=self._masked(header), body=self._body(step, body))]

    async def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            await link.close()

    def _address(self, to: str) -> str:
        return self.broker if to == "broker" else self.nameserver

    def _filled(self, text: str) -> str:
        text = text.replace("$broker", self.broker)
        text = re.sub(r"\$ext\((.*?),(\w+)\)", lambda m: self._ext[m[1]][m[2]], text)
        text = re.sub(r"\$offset\((.*?)\)", lambda m: str(int(self._ids[m[1]][16:], 16)), text)
        return re.sub(r"\$id\((.*?)\)", lambda m: self._ids[m[1]], text)

    def _encode(self, step: Exchange, opaque: int) -> bytes:
        ext = None
        if step.ext is not None:
            ext = {name: self._filled(str(value)) for name, value in step.ext.items()}
        body = self._filled(step.body).encode("latin-1")
        return encode(step.code, ext, opaque, body, version=step.version)

    def _masked(self, text: str) -> str:
        host, _, port = self.broker.partition(":")
        own = "".join(f"{int(part):02X}" for part in host.split(".")) + f"{int(port):08X}"
        text = text.replace(self.broker, "$broker").replace(self.nameserver, "$nameserver")
        text = re.sub(rf"{own}[0-9A-F]{{16}}", "$id", text)
        text = re.sub(
            r"(?<![0-9A-F])(?!7F00000100002A9F18B4)([0-9A-F]{56}|[0-9A-F]{32})(?![0-9A-F])",
            "$key",
            text,
        )
        text = re.sub(r"(?<![\d.])(?!10\.0\.0\.)\d+(\.\d+){3}:\d+", "$client", text)
        text = re.sub(r"(?<![\w.])1[5-9]\d{11}(?!\d)", "$time", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:]\d+)?", "$date", text)
        text = re.sub(
            r"(indexLastUpdatePhyoffset|physicOffset|physicSize)\":\"?[1-9]\d*\"?",
            r'\1":"$n"',
            text,
        )
        text = re.sub(
            r'"invisibleTime":"\d+"(?=,"popTime":"\$time","reviveQid":"999"\})',
            '"invisibleTime":"$n"',
            text,
        )
        text = re.sub(r'"reviveQid":"[0-7]"', '"reviveQid":"$n"', text)
        text = re.sub(r"(\d+ \$time \d+) [0-7] (?=[012] )", r"\1 $n ", text)
        text = re.sub(r'(counter|stateVersion)(\\?"):\d+', r"\1\2:0", text)
        text = re.sub(r'"delayTime":\d+', '"delayTime":0', text)
        return re.sub(r'"opaque":-?\d+', '"opaque":0', text) if '"code":' in text[:20] else text

    def _body(self, step: Exchange, body: bytes) -> Any:
        if not body:
            return ""
        if step.code in PULL_CODES:
            return [self._record(one) for one in record.decode_all(body, check_crc=False)]
        try:
            text = self._masked(body.decode())
        except UnicodeDecodeError:
            return f"{len(body)} bytes"
        try:
            found = _plain(fastjson.read(text.replace("$time", "0")))
        except WireError:
            found = sorted(text.splitlines())
            return [line.partition("=")[0] for line in found] if step.depth else found
        return _shape(found, step.depth) if step.depth else found

    def _record(self, one: Any) -> dict[str, object]:
        own = {name: value for name, value in one.properties.items() if name != "__CRC32#"}
        return {
            "topic": one.topic,
            "queue": one.queue_id,
            "offset": one.queue_offset,
            "flag": one.flag,
            "sys_flag": one.sys_flag,
            "reconsumed": one.reconsume_times,
            "body": one.body.decode("latin-1"),
            "properties": json.loads(self._masked(json.dumps(own))),
        }

    async def _frames(self, step: Frames) -> list[Told]:
        link = await _Link.open(self._address(step.to))
        told: list[tuple[int, Told]] = []
        try:
            for chunk in (*step.chunks, _PROBE):
                if chunk == AWAIT_ANSWER:
                    header, body = await link.read()
                    told.append((0, Told(header=self._masked(header), body=body.decode())))
                link.writer.write(chunk)
                await link.writer.drain()
            wait = SECONDS_MAX
            with contextlib.suppress(TimeoutError):
                while True:
                    header, body = await link.read(wait)
                    number = re.search(r'"opaque": ?(-?\d+)', header)
                    opaque = int(number[1]) if number else 0
                    if opaque == PROBE_OPAQUE:
                        told.append((1 << 32, Told(header="open")))
                        if not self.patience:
                            break
                        wait = self.patience
                        continue
                    masked = self._masked(header)
                    if opaque not in (0, 5, 6, -7):
                        opaque, masked = 4, masked.replace('"opaque":0', '"opaque":"its own"')
                    told.append((opaque, Told(header=masked, body=body.decode())))
        except ConnectionError:
            told.append((1 << 32, Told(header="closed")))
        finally:
            await link.close()
        return [one for _, one in sorted(told, key=lambda pair: pair[0])]


class _Link:
    """One connection; whatever the server asks is answered with `{}`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._opaque = 0
        self._answers: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._read_all())

    @classmethod
    async def open(cls, address: str) -> "_Link":
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 25))

    def next_opaque(self) -> int:
        self._opaque += 1
        return self._opaque

    async def ask(self, frame: bytes) -> tuple[str, bytes]:
        """Send a request and return the answer."""
        self.writer.write(frame)
        while True:
            header, body = await self.read()
            if json.loads(header)["opaque"] == self._opaque:
                return header, body

    async def read(self, seconds: float = SECONDS_MAX) -> tuple[str, bytes]:
        """Return the next answer's header and body. Raises ConnectionError at the end."""
        async with asyncio.timeout(seconds):
            found = await self._answers.get()
        if found is None:
            raise ConnectionError("the server closed the connection")
        return found

    async def _read_all(self) -> None:
        try:
            while True:
                header, body = await self._frame()
                found = json.loads(header)
                if found["flag"] & 1:
                    self._answers.put_nowait((header, body))
                elif not found["flag"] & 2:
                    self.writer.write(encode(0, {}, found["opaque"], b"{}", flag=1))
        except (ConnectionError, asyncio.IncompleteReadError):
            self._answers.put_nowait(None)

    async def _frame(self) -> tuple[str, bytes]:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        data = await self._reader.readexactly(size)
        kind, header_bytes = data[0], int.from_bytes(data[1:4], "big")
        header, body = data[4 : 4 + header_bytes], data[4 + header_bytes :]
        if kind == 1:
            parts = binary_header.decode(header)
            return json.dumps({"kind": "binary", **parts._asdict()}), body
        return header.decode(), body

    async def close(self) -> None:
        """Close it and read no more."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self.writer.close()


def encode(
    code: int,
    ext: Mapping[str, str] | None,
    opaque: int,
    body: bytes = b"",
    *,
    flag: int = 0,
    version: int = 479,
) -> bytes:
    """Return a frame as the Java client writes it."""
    members: dict[str, object] = {"code": code}
    if ext is not None:
        members["extFields"] = ext
    members |= {"flag": flag, "language": "JAVA", "opaque": opaque}
    members |= {"serializeTypeCurrentRPC": "JSON", "version": version}
    header = json.dumps(members, separators=(",", ":")).encode()
    head = (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big")
    return head + header + body


_PROBE = encode(9999, None, PROBE_OPAQUE)


def _plain(value: Any) -> Any:
    """Return JSON with keys that are texts, sets in order."""
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else json.dumps(key, sort_keys=True): _plain(one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return sorted(map(_plain, value), key=lambda one: json.dumps(one, sort_keys=True))
    return value


def _shape(value: Any, depth: int) -> Any:
    """Return which members something has, without what they are."""
    if isinstance(value, Mapping) and depth:
        return {name: _shape(one, depth - 1) for name, one in value.items()}
    return type(value).__name__


async def tell_all(
    talk: Talk, steps: Iterable[Exchange | Frames]
) -> list[tuple[Exchange | Frames, list[Told]]]:
    """Send all requests and return what was told to each."""
    try:
        return [(step, await talk.tell(step)) for step in steps]
    finally:
        await talk.close()
