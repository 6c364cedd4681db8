"""A virtual host's folder checked, and what is whole of it copied into a new one."""

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
    "check_vhost",
    "salvage_vhost",
]
