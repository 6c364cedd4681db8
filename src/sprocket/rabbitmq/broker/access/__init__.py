"""Who may log in, enter a virtual host, and use what is in it.

`Users` keeps users and their permissions; `UserAccess` is a user in a virtual host, and `Unlimited`
whoever needs no permission; `Admissions` counts connections and channels where there are limits.
"""

from sprocket.rabbitmq.broker.access import passwords
from sprocket.rabbitmq.broker.access.access import Access, Need, Unlimited, UserAccess
from sprocket.rabbitmq.broker.access.admissions import Admissions
from sprocket.rabbitmq.broker.access.users import Users

__all__ = [
    "Access",
    "Admissions",
    "Need",
    "Unlimited",
    "UserAccess",
    "Users",
    "passwords",
]
