"""The queues of a topic on all brokers of the cluster, as the NameServers know them.

A broker knows its own queues only; to divide a topic among consumers it needs all of them. Answers
are kept for `FRESH_SECONDS`. When no NameServer answers, the last answer is used, and without one
the caller's own queues.

Source: RocketMQ `TopicRouteInfoManager`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import ClientError, WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import GetRoute
from sprocket.rocketmq.model.route import MessageQueue, TopicRoute
from sprocket.rocketmq.model.topic import READ
from sprocket.rocketmq.remoting import Channel
from sprocket.runtime.tasks import Tasks

FRESH_SECONDS = 30.0
"""How long an answer counts, RocketMQ's interval."""

ANSWER_MS = 3_000

TOPICS_MAX = 10_000
"""Answers that are kept; beyond it all are asked for again."""

_log = log.get_limited_logger(__name__)

Found = Callable[[list[MessageQueue] | None], None]
"""Takes the queues of a topic, None if no NameServer has said anything of it."""


@dataclass(slots=True, eq=False)
class RouteLookup:
    """Asks the NameServers with which the broker is registered, one after the other.

    Threads: event loop only.
    """

    _nameservers: Callable[[], Sequence[Channel]]
    """Returns the connections to those that are there."""
    _clock: Clock
    _tasks: Tasks = field(default_factory=lambda: Tasks("routes"), init=False)
    _known: dict[str, tuple[float, list[MessageQueue]]] = field(default_factory=dict, init=False)
    _waiting: dict[str, list[Found]] = field(default_factory=dict, init=False)

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

    async def _ask(self, topic: str) -> None:
        """Ask until one answers, whatever it says."""
        header = GetRoute(topic=topic, accept_standard_json_only=True)
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        for channel in self._nameservers():
            try:
                answer = await channel.ask(code, header, timeout_ms=ANSWER_MS)
            except ClientError as error:
                _log.info("a NameServer does not tell a route", topic=topic, why=str(error))
                continue
            self._take(topic, answer)
            break
        self._tell(topic)

    def _take(self, topic: str, answer: Command) -> None:
        """Keep what an answer says of a topic, if it says anything."""
        if answer.code != ResponseCode.SUCCESS:
            return
        try:
            route = bodies.decode(TopicRoute, answer.body)
        except WireError as error:
            _log.warning("a route cannot be read", topic=topic, why=str(error))
            return
        if len(self._known) >= TOPICS_MAX:
            self._known.clear()
        queues = [
            MessageQueue(topic, data.broker_name, number)
            for data in route.queues
            if data.perm & READ
            for number in range(data.read_queues)
        ]
        self._known[topic] = self._clock.monotonic(), queues

    def _tell(self, topic: str) -> None:
        known = self._known.get(topic)
        for found in self._waiting.pop(topic, ()):
            found(None if known is None else known[1])
