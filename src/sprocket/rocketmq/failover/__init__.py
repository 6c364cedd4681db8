"""Who of several machines with the same log is master: told by a decider, fenced by an epoch.

`Mastership` is the table of states, without I/O; `SetMember` runs it, and `RoleKeeper` has the
broker closed and opened. A `Decider` is what machines agree by; `etcd` has one. Nothing here knows
a log, a link or what a broker does.
"""

from sprocket.rocketmq.failover.decider import Alter, Decider, Renew, Ruling, Take, Verdict
from sprocket.rocketmq.failover.identity import INCARNATION_BYTES, incarnation_of
from sprocket.rocketmq.failover.mastership import (
    Call,
    Happening,
    Mastership,
    Needed,
    Phase,
    ReadBack,
    Role,
    RoleKind,
    Timing,
)
from sprocket.rocketmq.failover.role_keeper import OpenBroker, RoleKeeper
from sprocket.rocketmq.failover.set_member import SetMember, SetStatus, Switch
from sprocket.rocketmq.failover.values import (
    Deadline,
    Incarnation,
    Leader,
    LogState,
    Member,
    MemberAddresses,
    MemberId,
    MemberReport,
    SetState,
    SetView,
    Tenure,
    member_of,
)

__all__ = [
    "INCARNATION_BYTES",
    "Alter",
    "Call",
    "Deadline",
    "Decider",
    "Happening",
    "Incarnation",
    "Leader",
    "LogState",
    "Mastership",
    "Member",
    "MemberAddresses",
    "MemberId",
    "MemberReport",
    "Needed",
    "OpenBroker",
    "Phase",
    "ReadBack",
    "Renew",
    "Role",
    "RoleKeeper",
    "RoleKind",
    "Ruling",
    "SetMember",
    "SetState",
    "SetStatus",
    "SetView",
    "Switch",
    "Take",
    "Tenure",
    "Timing",
    "Verdict",
    "incarnation_of",
    "member_of",
]
