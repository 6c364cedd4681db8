"""The same log on several machines: a master sends its own to slaves.

A master has `Slaves`, which group commit may wait for; `Acks` say how many of them, or which. A
slave has a `MasterLink`, which brings the master's log into its own. Both speak RocketMQ's classic
way (`ClassicSpeech`, `ReplicaLog`), or by epochs, as members of a set with failover do
(`EpochSpeech`, `MemberLog`). Neither knows what a message is for, or who is a client. `common_end`
says up to where two logs are one.
"""

from sprocket.rocketmq.replication.acks import Acks, AcksByName, AcksByNumber, Counted, Required
from sprocket.rocketmq.replication.log_intake import AppendStored, Done
from sprocket.rocketmq.replication.master_link import (
    RETRY_SECONDS,
    Find,
    FollowingLog,
    MasterLink,
    MasterPlace,
)
from sprocket.rocketmq.replication.master_speech import (
    ClassicSpeech,
    EpochSpeech,
    MasterSpeech,
    Parts,
    Said,
    SlaveFrame,
)
from sprocket.rocketmq.replication.member_log import MemberLog, MustCut
from sprocket.rocketmq.replication.parting import common_end
from sprocket.rocketmq.replication.replica_log import ReplicaLog
from sprocket.rocketmq.replication.slaves import Slave, Slaves
from sprocket.rocketmq.replication.table_versions import TableVersions

__all__ = [
    "RETRY_SECONDS",
    "Acks",
    "AcksByName",
    "AcksByNumber",
    "AppendStored",
    "ClassicSpeech",
    "Counted",
    "Done",
    "EpochSpeech",
    "Find",
    "FollowingLog",
    "MasterLink",
    "MasterPlace",
    "MasterSpeech",
    "MemberLog",
    "MustCut",
    "Parts",
    "ReplicaLog",
    "Required",
    "Said",
    "Slave",
    "SlaveFrame",
    "Slaves",
    "TableVersions",
    "common_end",
]
