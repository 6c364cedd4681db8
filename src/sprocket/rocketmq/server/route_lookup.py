"""The queues of a topic on all brokers of the cluster, as the NameServers know them.

A broker knows its own queues only; to divide a topic among consumers it needs all of them. Answers
are kept for `FRESH_SECONDS`. When no NameServer answers, the last answer is used, and without one
the caller's own queues.

Source: RocketMQ `TopicRouteInfoManager`.
"""

import ssl
from collections.abc import Callable, Sequence

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import NotConnected, WireError
from sprocket.rocketmq.codec.bodies import broker_bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import GetRoute
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import READ
from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.server.calls import ClientCalls, Ended
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.runtime.tasks import Tasks

FRESH_SECONDS = 30.0
"""How long an answer counts, RocketMQ's interval."""

ANSWER_SECONDS = 3.0

TOPICS_MAX = 10_000
"""Answers that are kept; beyond it all are asked for again."""

_log = log.get_logger(__name__)

Found = Callable[[list[MessageQueue] | None], None]
"""Takes the queues of a topic, None if no NameServer has said anything of it."""


class RouteLookup:
    """Asks NameServers, one connection at a time.

    Args:
        nameservers: Host and port of each; the next one is asked when one does not answer.
        calls: Carries the questions.
        clock: Says how old an answer is.
        tls: How to encrypt; None for plain connections.
    Threads: event loop only.
    """

    def __init__(
        self,
        nameservers: Sequence[tuple[str, int]],
        calls: ClientCalls,
        clock: Clock,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._nameservers = list(nameservers)
        self._calls = calls
        self._clock = clock
        self._tls = tls
        self._tasks = Tasks("routes")
        self._peer: Peer | None = None
        self._known: dict[str, tuple[float, list[MessageQueue]]] = {}
        self._waiting: dict[str, list[Found]] = {}

    def queues(self, topic: str, found: Found) -> None:
        """Give the readable queues of a topic to `found`, now or when a NameServer has answered."""
        known = self._known.get(topic)
        if known is not None and self._clock.monotonic() - known[0] < FRESH_SECONDS:
            found(known[1])
            return
        waiting = self._waiting.setdefault(topic, [])
        waiting.append(found)
        if len(waiting) == 1:
            self._tasks.spawn(self._ask(topic), f"route of {topic}")

    async def stop(self) -> None:
        """Ask no more; who waits gets what is known."""
        await self._tasks.close()
        for topic in list(self._waiting):
            self._tell(topic)
        if self._peer is not None:
            self._peer.close()

    async def _ask(self, topic: str) -> None:
        """Ask one NameServer, connecting to the first that can be reached."""
        if not self._is_connected:
            peer = await self._connected()
            if not self._is_connected:
                self._peer = peer
            elif peer is not None:
                peer.close()  # another question was quicker to connect
        if self._peer is None:
            self._tell(topic)
            return
        header = GetRoute(topic=topic, accept_standard_json_only=True)
        self._calls.call(
            self._peer,
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            header,
            b"",
            ANSWER_SECONDS,
            lambda ended: self._answered(topic, ended),
        )

    @property
    def _is_connected(self) -> bool:
        return self._peer is not None and self._peer.is_open

    async def _connected(self) -> Peer | None:
        for _ in range(len(self._nameservers)):
            host, port = self._nameservers[0]
            try:
                return await driver.connect(
                    Connection, self._calls.answered, host, port, tls=self._tls
                )
            except NotConnected as error:
                _log.info("a NameServer cannot be asked for routes", why=str(error))
                self._nameservers.append(self._nameservers.pop(0))
        return None

    def _answered(self, topic: str, ended: Ended) -> None:
        answer = ended.answer
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            try:
                route = broker_bodies.decode_route(answer.body)
            except WireError as error:
                _log.warning("a route cannot be read", topic=topic, why=str(error))
            else:
                if len(self._known) >= TOPICS_MAX:
                    self._known.clear()
                queues = [
                    MessageQueue(topic, data.broker_name, number)
                    for data in route.queues
                    if data.perm & READ
                    for number in range(data.read_queues)
                ]
                self._known[topic] = self._clock.monotonic(), queues
        elif answer is None and self._peer is not None:
            self._peer.close()
            self._nameservers.append(self._nameservers.pop(0))
        self._tell(topic)

    def _tell(self, topic: str) -> None:
        known = self._known.get(topic)
        for found in self._waiting.pop(topic, ()):
            found(None if known is None else known[1])
