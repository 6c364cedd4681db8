"""What a node has when it starts for the first time: RabbitMQ's default user and virtual host.

Source: `rabbit:insert_default_data`.
"""

from typing import Final

from sprocket.rabbitmq.broker.access import Users, passwords
from sprocket.rabbitmq.broker.topology import Vhosts
from sprocket.rabbitmq.model.user import User, VhostPermission
from sprocket.rabbitmq.model.vhost import DEFAULT_VHOST, Vhost

DEFAULT_USER: Final = "guest"
DEFAULT_PASSWORD: Final = "guest"  # noqa: S105
ADMINISTRATOR: Final = "administrator"


def prepare(users: Users, vhosts: Vhosts) -> bool:
    """Add the default user and virtual host where there are none; say whether that was so.

    Raises:
        DiskFull, DiskFailed: Some of it may be there.
    """
    if len(vhosts) or len(users):
        return False
    vhosts.put(Vhost(name=DEFAULT_VHOST, description="Default virtual host"))
    users.put(
        User(
            name=DEFAULT_USER,
            password_hash=passwords.hashed(DEFAULT_PASSWORD.encode()),
            tags=(ADMINISTRATOR,),
        )
    )
    users.allow(
        VhostPermission(
            user=DEFAULT_USER, vhost=DEFAULT_VHOST, configure=".*", write=".*", read=".*"
        )
    )
    return True
