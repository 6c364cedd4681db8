"""Requests about what a group may read: 353."""

from collections.abc import Callable

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.groups import Groups
from sprocket.rocketmq.codec.bodies import relay_bodies
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import GroupForbidden
from sprocket.rocketmq.remoting import Answer, Handler, answering
from sprocket.runtime.driver import Peer


class PermissionHandlers:
    """Topics that are closed to single groups."""

    def __init__(
        self, groups: Groups, when_durable: Callable[[Callable[[StoreError | None], None]], None]
    ) -> None:
        self._groups = groups
        self._when_durable = when_durable

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbid}

    def forbid(self, peer: Peer, request: Command) -> None:
        """Open or close a topic to a group, if asked to, and answer how it is, durably."""
        header = request.header(GroupForbidden)
        if header.readable is not None:
            self._groups.forbid(header.group, header.topic, is_readable=header.readable)
        is_readable = not self._groups.is_forbidden(header.group, header.topic)
        body = relay_bodies.encode_permission(header.group, header.topic, is_readable=is_readable)
        said = Answer(remark="", body=(body,))  # as RocketMQ has it
        self._when_durable(answering(peer, request, said))
