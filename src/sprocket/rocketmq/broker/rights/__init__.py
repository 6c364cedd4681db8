"""Users, what they may do, and whether a request may be done.

Values only: who a request is from, and what it needs, `server.rights` reads from the wire.
"""

from sprocket.rocketmq.broker.rights.acls import Acls, Done
from sprocket.rocketmq.broker.rights.authorizer import Authorizer
from sprocket.rocketmq.broker.rights.opening import Rights, check_settings, open_tables
from sprocket.rocketmq.broker.rights.users import UserTable

__all__ = ["Acls", "Authorizer", "Done", "Rights", "UserTable", "check_settings", "open_tables"]
