"""Users, what they may do, and whether a request may be done.

Values only: who a request is from, and what it needs, `server.rights` reads from the wire. Users
and policies are kept in tables as in RocketMQ 5, or said by the rules of 4.
"""

from sprocket.rocketmq.broker.rights.acls import Acls, Done
from sprocket.rocketmq.broker.rights.authorizer import Authorizer
from sprocket.rocketmq.broker.rights.known_rights import KnownRights
from sprocket.rocketmq.broker.rights.opening import Rights, check_settings, open_rules, open_tables
from sprocket.rocketmq.broker.rights.rules import LOOK_SECONDS, RuleReader, Rules
from sprocket.rocketmq.broker.rights.users import UserTable

__all__ = [
    "LOOK_SECONDS",
    "Acls",
    "Authorizer",
    "Done",
    "KnownRights",
    "Rights",
    "RuleReader",
    "Rules",
    "UserTable",
    "check_settings",
    "open_rules",
    "open_tables",
]
