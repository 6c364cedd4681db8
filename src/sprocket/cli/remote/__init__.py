"""Commands that talk to a running cluster; `wire` says where it is and how it is reached."""

from sprocket.cli.remote import cluster, consume, group, msg, produce, topic

__all__ = ["cluster", "consume", "group", "msg", "produce", "topic"]
