"""Requests about consumer groups: who is connected, how far they are, where they go on.

Each class has a table of request codes, the header of each, and the function that answers.
"""

from sprocket.rocketmq.server.handlers.groups.assignment import AssignmentHandlers
from sprocket.rocketmq.server.handlers.groups.clients import ClientHandlers, notify_ids_changed
from sprocket.rocketmq.server.handlers.groups.groups import GroupHandlers
from sprocket.rocketmq.server.handlers.groups.offsets import OffsetHandlers
from sprocket.rocketmq.server.handlers.groups.permissions import PermissionHandlers
from sprocket.rocketmq.server.handlers.groups.progress import ProgressHandlers
from sprocket.rocketmq.server.handlers.groups.relays import RelayHandlers
from sprocket.rocketmq.server.handlers.groups.resets import ResetHandlers

__all__ = [
    "AssignmentHandlers",
    "ClientHandlers",
    "GroupHandlers",
    "OffsetHandlers",
    "PermissionHandlers",
    "ProgressHandlers",
    "RelayHandlers",
    "ResetHandlers",
    "notify_ids_changed",
]
