"""A virtual host's folder checked, copied while it is open, and what is whole of it salvaged."""

from sprocket.rabbitmq.store.repair.backup import back_up_node
from sprocket.rabbitmq.store.repair.check import VhostFinding, VhostRule, check_vhost
from sprocket.rabbitmq.store.repair.salvager import (
    LostMessage,
    VhostSalvageReport,
    salvage_vhost,
)

__all__ = [
    "LostMessage",
    "VhostFinding",
    "VhostRule",
    "VhostSalvageReport",
    "back_up_node",
    "check_vhost",
    "salvage_vhost",
]
