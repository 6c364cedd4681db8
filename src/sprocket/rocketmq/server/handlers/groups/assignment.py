"""Requests by which the broker divides queues among consumers: 400 to 402."""

from dataclasses import dataclass
from functools import partial

from sprocket.rocketmq.broker.groups import Assignments, RequestModes
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import AssignmentQuery, QueueAssignment
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.config import RequestMode, RequestModeTable
from sprocket.rocketmq.codec.headers import NoFields
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.group import POP, PULL
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.rocketmq.server.nameservers import RouteLookup


@dataclass(frozen=True, slots=True)
class AssignmentHandlers:
    """Who reads what, and how."""

    _assignments: Assignments
    _topics: Topics
    _modes: RequestModes
    _routes: RouteLookup

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.QUERY_ASSIGNMENT, NoFields, self.query),
            row(RequestCode.SET_MESSAGE_REQUEST_MODE, NoFields, self.set_mode),
            row(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, NoFields, self.modes),
        ]

    def query(self, request: Request, _header: NoFields) -> None:
        """Answer which queues of a topic a consumer is to read."""
        query = bodies.decode_request(AssignmentQuery, request.body)
        if not query.topic:
            raise Refused(Refusal.OTHER, "the query names no topic")
        self._routes.queues(query.topic, partial(self._answer, request, query))

    def set_mode(self, request: Request, _header: NoFields) -> Answer:
        """Note how a group gets the messages of a topic."""
        mode = bodies.decode_request(RequestMode, request.body)
        if mode.topic.startswith(RETRY_PREFIX):
            raise Refused(Refusal.NO_PERMISSION, "retry topic is not allowed to set mode")
        self._topics.existing(mode.topic)
        if mode.mode not in (PULL, POP):
            raise Refused(Refusal.OTHER, f"request mode {mode.mode}, expected {PULL} or {POP}")
        self._modes.put(mode)
        return Answer()

    def modes(self, _: Request, _header: NoFields) -> Answer:
        """Answer every mode that was set."""
        return Answer(body=(bodies.encode(RequestModeTable(self._modes.all())),))

    def _answer(
        self, request: Request, query: AssignmentQuery, queues: list[MessageQueue] | None
    ) -> None:
        mode = self._modes.of(query.topic, query.group)
        is_popped = mode is not None and mode.mode == POP
        shares = mode.pop_share_queues if mode is not None and is_popped else None
        share = self._assignments.share(query, queues, shares)
        answer = QueueAssignment.of(share, POP if is_popped else PULL)
        request.answer(Answer(body=(bodies.encode(answer),)))
