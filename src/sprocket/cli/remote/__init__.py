"""Commands that talk to a running cluster; `wire` says where it is and how it is reached."""

from sprocket.cli.remote import cluster, consume, group, ha, msg, produce, topic
from sprocket.cli.remote.wire import Remote

__all__ = ["Remote", "cluster", "consume", "group", "ha", "msg", "produce", "topic"]
