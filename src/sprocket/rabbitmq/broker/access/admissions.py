"""How many connections and channels there are, for the limits of users and virtual hosts.

Source: `rabbit_reader`, `rabbit_vhost_limit:is_over_connection_limit`,
`rabbit_auth_backend_internal:is_over_channel_limit`.
"""

from collections import Counter

from sprocket.rabbitmq.broker.refusals import not_allowed
from sprocket.rabbitmq.model.user import User
from sprocket.rabbitmq.model.vhost import CHANNELS_MAX, CONNECTIONS_MAX, Vhost, limit_of


class Admissions:
    """Counts connections and channels that are open."""

    def __init__(self) -> None:
        self._of_vhost: Counter[str] = Counter()
        self._of_user: Counter[str] = Counter()
        self._channels: Counter[str] = Counter()

    def enter(self, user: User, vhost: Vhost) -> None:
        """Count a connection.

        Raises:
            RequestRefused: NOT_ALLOWED; there are too many already, and it is not counted.
        """
        limit = limit_of(vhost.limits, CONNECTIONS_MAX)
        if limit is not None and self._of_vhost[vhost.name] >= limit:
            raise not_allowed(
                f"access to vhost '{vhost.name}' refused for user '{user.name}': "
                f"connection limit ({limit}) is reached"
            )
        limit = limit_of(user.limits, CONNECTIONS_MAX)
        if limit is not None and self._of_user[user.name] >= limit:
            raise not_allowed(
                f"connection refused for user '{user.name}': "
                f"user connection limit ({limit}) is reached"
            )
        self._of_vhost[vhost.name] += 1
        self._of_user[user.name] += 1

    def leave(self, user: str, vhost: str) -> None:
        """Stop counting a connection."""
        _take_off(self._of_vhost, vhost)
        _take_off(self._of_user, user)

    def open_channel(self, user: User) -> None:
        """Count a channel.

        Raises:
            RequestRefused: NOT_ALLOWED; there are too many already, and it is not counted.
        """
        limit = limit_of(user.limits, CHANNELS_MAX)
        if limit is not None and self._channels[user.name] >= limit:
            raise not_allowed(
                f"number of channels opened for user '{user.name}' has reached the maximum "
                f"allowed user limit of ({limit})"
            )
        self._channels[user.name] += 1

    def close_channel(self, user: str) -> None:
        """Stop counting a channel."""
        _take_off(self._channels, user)


def _take_off(counts: Counter[str], name: str) -> None:
    assert counts[name] > 0, f"{name} was never counted"
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
