"""A NameServer and a broker inside the test process, on a clock that the test moves.

They run in a thread of their own, so that any test can use them: a plain function with the blocking
clients, a coroutine with the async ones, or a client in another process.

What is like `sprocket up`, and what is not

* Same code from the socket down to the files, sync flush included. Only the disk's syncs are
  noted instead of made (`twin_disk`), and files are small.
* The broker's clock stands still until `advance`: delays, retries, retention and every time stamp
  follow it. Its pauses of seconds and less (long polls, the index that follows the log) pass by
  themselves too, and faster with `advance`.
* Clients do not expire by `advance` alone, since theirs is the machine's clock; for a test of that
  lower `members.expiry_ms`.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace

from sprocket.base.units import MIB
from sprocket.node.rocketmq import Node, has_grpc
from sprocket.rocketmq.codec.record import batch, record
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.geometry import IndexGeometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.settings import (
    GrpcSettings,
    MemberSettings,
    NameServerSettings,
    ServerSettings,
    Settings,
    StoreSettings,
)
from sprocket.rocketmq.store.recovery import RecoveryReport
from sprocket.runtime.blocking import Portal
from sprocket.testing import quiet
from sprocket.testing.clock import FakeClock
from sprocket.testing.local_process import free_port
from sprocket.testing.local_server import LocalServer, refuse_in_a_loop
from sprocket.testing.quiet import NotQuiet
from sprocket.testing.twin_disk import TwinDisk

LIMIT_SECONDS = 30 * 24 * 3600.0
"""Longer than all tries of a message together."""
YEAR_MS = 366 * 24 * 3600 * 1000
POLL_MS_MAX = 1_000
"""How long SDKs of RocketMQ 5 let a request for messages wait, and then some until they stop."""


def small_settings() -> Settings:
    """Return settings for a broker that serves one test: small files, patient with clients."""
    return Settings(
        store=StoreSettings(fill_ahead_bytes=0),
        grpc=GrpcSettings(poll_ms_min=0, poll_ms_max=POLL_MS_MAX, invisible_ms_min=0),
        members=MemberSettings(expiry_ms=YEAR_MS),
        nameserver=NameServerSettings(broker_expiry_ms=YEAR_MS),
        log=LogGeometry(segment_bytes=8 * MIB),
        queue=QueueGeometry(units_per_file=1_000, batch_units_per_file=1_000),
        index=IndexGeometry(slots=1_000, units=4_000),
    )


class LocalBroker(LocalServer[Node, RecoveryReport]):
    """A broker for tests; a start returns what recovery did.

    After `settle` every message is where it belongs: consumed, waiting for its delay, or in the
    dead letters; `testing.quiet` says more.

    Args:
        folder: Where the store lies; by default a temporary folder, gone when it stops.
        settings: As for `sprocket up`, but that its usual ports stand for any free ones; by
            default `small_settings()`.
        now_ms: What its clock shows first; by default the machine's time.

    Threads: any but the broker's own, one at a time.
    """

    def __init__(
        self,
        folder: str | None = None,
        *,
        settings: Settings | None = None,
        now_ms: int | None = None,
    ) -> None:
        self.nameserver = ""
        """The NameServer's address, for clients."""
        self.address = ""
        """The broker's address."""
        self.grpc = ""
        """Where SDKs of RocketMQ 5 find it; empty without the extra `grpc`."""
        self._settings = settings or small_settings()
        super().__init__("sprocket-test-broker", self._begin, quiet.settle, folder, now_ms)

    def start(self) -> RecoveryReport:
        """See `LocalServer.start`."""
        if not self.address:
            self._settings = _with_ports(self._settings)
        node = self._process.start()
        self.nameserver = node.addresses.nameserver
        self.address = node.addresses.broker
        self.grpc = node.addresses.grpc
        return node.report

    def advance_until(
        self, condition: Callable[[], bool], *, limit_seconds: float = LIMIT_SECONDS
    ) -> int:
        """Move the clock from one delayed message to the next until something is so.

        Before each look, and at the end, all is quiet as after `settle`.

            broker.advance_until(lambda: broker.dead_letters("kitchen"))

        Args:
            condition: Looked at in the calling thread.
            limit_seconds: How far to move the clock at most.

        Returns:
            By how many milliseconds the clock was moved.

        Raises:
            NotQuiet: It is not so, and nothing waits for a later time that comes within the limit;
                or something did not become quiet.
        """
        refuse_in_a_loop("advance_until", "aadvance_until")
        moved_ms = 0
        while True:
            self.settle()
            if condition():
                return moved_ms
            moved_ms += self._advance_to_next(limit_seconds * 1000 - moved_ms)

    async def aadvance_until(
        self, condition: Callable[[], bool], *, limit_seconds: float = LIMIT_SECONDS
    ) -> int:
        """Do what `advance_until` does, while the calling event loop continues."""
        moved_ms = 0
        while True:
            await self.asettle()
            if condition():
                return moved_ms
            moved_ms += self._advance_to_next(limit_seconds * 1000 - moved_ms)

    def messages(self, topic: str) -> list[StoredMessage]:
        """Return every message of a topic, in the order in which they were stored.

        Raises:
            NoRoute: The broker has no such topic; the text names the nearest.
        """
        portal, node = self._running()
        return portal.call(_messages, node, topic)

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Return the messages that a consumer group has given up, in the order in which it did.

        Raises:
            NoRoute: No such group was ever here; the text names the nearest.
        """
        portal, node = self._running()
        return portal.call(_dead_letters, node, group)

    async def _begin(self, disk: TwinDisk, folder: str, clock: FakeClock) -> Node:
        settings = self._settings
        return await Node.start(
            settings, folder, disk=disk, clock=clock, geometry=settings.geometry
        )

    def _advance_to_next(self, ms_max: float) -> int:
        """Move the clock to the next message that waits for its time; return by how much."""
        portal, node = self._running()
        wait_ms = portal.call(_next_due_ms, node)
        if wait_ms is None:
            raise NotQuiet("the condition does not hold, and no message waits for a later time")
        if wait_ms > ms_max:
            raise NotQuiet(
                f"the condition does not hold, and the next message is due in {wait_ms} ms"
            )
        self.advance(max(wait_ms, 1))
        return max(wait_ms, 1)

    def _running(self) -> tuple[Portal, Node]:
        return self._process.portal, self._process.node


async def _next_due_ms(node: Node) -> int | None:
    return node.broker.next_due_ms()


async def _messages(node: Node, topic: str) -> list[StoredMessage]:
    if node.broker.topics.get(topic) is None:
        raise NoRoute(_not_there("topic", topic, [one.name for one in node.broker.topics.all()]))
    return _of_topic(node, topic)


async def _dead_letters(node: Node, group: str) -> list[StoredMessage]:
    groups = {
        *(one.name for one in node.broker.groups.all()),
        *node.broker.members.consumer_groups(),
    }
    if group not in groups:
        raise NoRoute(_not_there("group", group, groups))
    return _of_topic(node, DEAD_LETTER_PREFIX + group)


def _of_topic(node: Node, topic: str) -> list[StoredMessage]:
    found = [record.decode(one) for _, one in node.broker.store.records()]
    return [one for whole in found if whole.topic == topic for one in batch.unwrapped(whole)]


def _not_there(kind: str, name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), 1, 0.0)
    return f"the broker has no {kind} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _with_ports(settings: Settings) -> Settings:
    """Give each port that is 0, or the one of `sprocket up`, a number that is free and may stay."""
    server, usual = settings.server, ServerSettings()
    found: dict[str, int] = {}
    for name in ("nameserver_port", "broker_port"):
        if getattr(server, name) in (0, getattr(usual, name)):
            found[name] = free_port(server.host, found.values())
    grpc = settings.grpc
    if grpc.port in (0, "auto"):
        grpc = replace(grpc, port="off")
        if has_grpc():
            grpc = replace(grpc, port=free_port(server.host, found.values()))
    if "broker_port" in found:  # nobody would find its twin, two below, which may be taken
        server = replace(server, vip_port=False)
    server = replace(server, **found)  # type: ignore[arg-type]
    return replace(settings, server=server, grpc=grpc)
