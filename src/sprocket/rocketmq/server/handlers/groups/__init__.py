"""Requests about consumer groups: who is connected, how far they are, where they go on."""

from sprocket.rocketmq.server.handlers.groups.assignment import AssignmentHandlers
from sprocket.rocketmq.server.handlers.groups.clients import ClientHandlers, notify_ids_changed
from sprocket.rocketmq.server.handlers.groups.groups import GroupHandlers
from sprocket.rocketmq.server.handlers.groups.offsets import OffsetHandlers
from sprocket.rocketmq.server.handlers.groups.progress import ProgressHandlers
from sprocket.rocketmq.server.handlers.groups.relays import RelayHandlers

__all__ = [
    "AssignmentHandlers",
    "ClientHandlers",
    "GroupHandlers",
    "OffsetHandlers",
    "ProgressHandlers",
    "RelayHandlers",
    "notify_ids_changed",
]
