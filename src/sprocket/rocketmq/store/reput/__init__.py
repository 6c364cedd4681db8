"""From the log to queues and index: what was appended is put where readers look.

`Reput` follows the log, some milliseconds of it at a time, and says how far it has come. The
name is RocketMQ's.
"""

from sprocket.rocketmq.store.reput.reput import Arrival, Fresh, Put, Reput

__all__ = ["Arrival", "Fresh", "Put", "Reput"]
