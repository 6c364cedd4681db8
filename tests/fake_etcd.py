"""A server that speaks as much of etcd's gateway as a decider asks for; keys are in memory.

What the real one does is seen in `tests/interop/test_etcd.py`, whose tests run with both.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
JSON_HEAD = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"


@dataclass
class Key:
    """A key as etcd keeps it."""

    value: str
    created: int
    changed: int
    lease: int


@dataclass
class FakeEtcd:
    """See the head of the module.

    Attributes:
        cluster_id: Which etcd it says that it is.
    is_silent: Whether it answers nothing.
    forgets_leases: Whether those that it grants end at once.
    """

    cluster_id: str = "77"
    revision: int = 1
    compacted: int = 0
    is_silent: bool = False
    forgets_leases: bool = False
    keys: dict[bytes, Key] = field(default_factory=dict)
    leases: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Seconds, and when it ends."""
    history: list[tuple[int, list[Json]]] = field(default_factory=list)
    port: int = 0
    _server: asyncio.Server | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        """Listen, where it has listened before."""
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut off everybody, and listen no more."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0.01)

    def empty(self) -> None:
        """Be another one, that knows nothing."""
        self.cluster_id += "0"
        self.revision, self.compacted = 1, 0
        self.keys, self.leases, self.history = {}, {}, []
        self._tell()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ")[1]
                size = next(
                    int(line.split(":")[1])
                    for line in head.lower().split("\r\n")
                    if line.startswith("content-length")
                )
                body = json.loads(await reader.readexactly(size))
                if self.is_silent:
                    await asyncio.sleep(3600)
                if path == "/v3/watch":
                    await self._watch(writer, body["create_request"])
                    return
                answer = self._answer(path, body)
                text = json.dumps(answer).encode()
                status = 404 if "code" in answer else 200
                writer.write(JSON_HEAD % status + b"Content-Length: %d\r\n\r\n" % len(text) + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    def _answer(self, path: str, body: Json) -> Json:
        self._expire()
        match path:
            case "/v3/lease/grant":
                lease = 7000 + len(self.leases) + self.revision
                seconds = int(body["TTL"])
                if not self.forgets_leases:
                    self.leases[lease] = seconds, asyncio.get_running_loop().time() + seconds
                return {"header": self._header(), "ID": str(lease), "TTL": str(seconds)}
            case "/v3/lease/keepalive":
                lease = int(body["ID"])
                result: dict[str, Any] = {"header": self._header(), "ID": str(lease)}
                if lease in self.leases:
                    seconds, _ = self.leases[lease]
                    self.leases[lease] = seconds, asyncio.get_running_loop().time() + seconds
                    result["TTL"] = str(seconds)
                return {"result": result}
            case "/v3/kv/range":
                first, last = b64decode(body["key"]), b64decode(body["range_end"])
                found = [self._kv(key) for key in sorted(self.keys) if first <= key < last]
                return {"header": self._header(), **({"kvs": found} if found else {})}
            case "/v3/kv/txn":
                return self._transaction(body)
        raise AssertionError(path)

    def _transaction(self, body: Json) -> Json:
        if not all(self._holds(one) for one in body.get("compare", ())):
            return {"header": self._header()}
        puts = [one["request_put"] for one in body["success"] if "request_put" in one]
        if any(int(put["lease"]) not in {0, *self.leases} for put in puts):
            return {"error": "x", "message": "etcdserver: requested lease not found", "code": 5}
        self.revision += 1
        events: list[Json] = []
        for one in body["success"]:
            if "request_put" in one:
                put = one["request_put"]
                key = b64decode(put["key"])
                known = self.keys.get(key)
                created = self.revision if known is None else known.created
                self.keys[key] = Key(put["value"], created, self.revision, int(put["lease"]))
                events.append({"kv": self._kv(key)})
            else:
                events += self._delete(b64decode(one["request_delete_range"]["key"]))
        self._note(events)
        return {"header": self._header(), "succeeded": True}

    def _holds(self, condition: Json) -> bool:
        one = self.keys.get(b64decode(condition["key"]))
        match condition["target"]:
            case "CREATE":
                return (0 if one is None else one.created) == int(condition["create_revision"])
            case "MOD":
                return (0 if one is None else one.changed) == int(condition["mod_revision"])
            case "VALUE":
                return one is not None and one.value == condition["value"]
        raise AssertionError(condition)

    def _delete(self, key: bytes) -> list[Json]:
        if self.keys.pop(key, None) is None:
            return []
        kv = {"key": b64encode(key).decode(), "mod_revision": str(self.revision)}
        return [{"type": "DELETE", "kv": kv}]

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        for lease in [one for one, (_, ends) in self.leases.items() if now >= ends]:
            del self.leases[lease]
            gone = [key for key, one in self.keys.items() if one.lease == lease]
            if gone:
                self.revision += 1
                self._note([event for key in gone for event in self._delete(key)])

    def _kv(self, key: bytes) -> Json:
        one = self.keys[key]
        found = {
            "key": b64encode(key).decode(),
            "value": one.value,
            "create_revision": str(one.created),
            "mod_revision": str(one.changed),
        }
        return {**found, **({"lease": str(one.lease)} if one.lease else {})}

    def _header(self) -> Json:
        return {"cluster_id": self.cluster_id, "revision": str(self.revision)}

    def _note(self, events: list[Json]) -> None:
        self.history.append((self.revision, events))
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _watch(self, writer: asyncio.StreamWriter, create: Json) -> None:
        """Say what happens from a revision on, until it is cut off."""
        cluster, at = self.cluster_id, int(create["start_revision"])

        def say(**result: Any) -> None:
            text = json.dumps({"result": {"header": self._header(), **result}}).encode() + b"\n"
            writer.write(b"%x\r\n%s\r\n" % (len(text), text))

        writer.write(JSON_HEAD % 200 + b"Transfer-Encoding: chunked\r\n\r\n")
        say(created=True)
        if at <= self.compacted:
            say(canceled=True, compact_revision=str(self.compacted))
            writer.write(b"0\r\n\r\n")
            return
        while cluster == self.cluster_id:
            for revision, events in self.history:
                if revision >= at and events:
                    say(events=events)
                    at = revision + 1
            await writer.drain()
            news = self._news
            try:
                async with asyncio.timeout(0.1):
                    await news.wait()
            except TimeoutError:
                self._expire()
            if writer.transport.is_closing():
                return
