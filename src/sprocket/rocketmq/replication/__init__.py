"""The same log on several machines: a master sends its own to slaves, RocketMQ's classic way.

A master has `Slaves`, which group commit may wait for. A slave has a `MasterLink`, which brings the
master's log into a `ReplicaLog`. Neither knows what a message is for, or who is a client.
"""

from sprocket.rocketmq.replication.master_link import Find, MasterLink, MasterPlace
from sprocket.rocketmq.replication.replica_log import AppendStored, Done, ReplicaLog
from sprocket.rocketmq.replication.slaves import Slave, Slaves

__all__ = [
    "AppendStored",
    "Done",
    "Find",
    "MasterLink",
    "MasterPlace",
    "ReplicaLog",
    "Slave",
    "Slaves",
]
