"""Names of topics and groups, which the protocol gives with a namespace beside them.

The broker knows them as `namespace%name`; a retry or dead-letter topic as `%RETRY%namespace%name`.

Source: RocketMQ `NamespaceUtil`, `GrpcConverter.wrapResourceWithNamespace`.
"""

from typing import Final, Protocol

from sprocket.rocketmq.codec.grpc.messages import Resource
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX, RETRY_PREFIX

_SEPARATOR: Final = "%"
_PREFIXES: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


class NamedResource(Protocol):
    """What names a topic or group; a `Resource` is one."""

    @property
    def resource_namespace(self) -> str:
        """Its namespace; empty: that of the client."""

    @property
    def name(self) -> str:
        """Its name there."""


def full_name(resource: NamedResource, namespace: str = "") -> str:
    """Return the name that the broker knows.

    Args:
        resource: As a message of the protocol has it.
        namespace: The client's, for a resource that names none.
    """
    wanted = resource.resource_namespace or namespace
    if not wanted:
        return resource.name
    prefix, name = _without_prefix(resource.name)
    return f"{prefix}{wanted}{_SEPARATOR}{name}"


def resource(name: str) -> Resource:
    """Return a name of the broker as the protocol gives it."""
    prefix, rest = _without_prefix(name)
    namespace, separator, own = rest.partition(_SEPARATOR)
    if not separator or not namespace or not own:
        return Resource(name=name)
    return Resource(resource_namespace=namespace, name=prefix + own)


def _without_prefix(name: str) -> tuple[str, str]:
    """Return the prefix of the name of a retry or dead-letter topic, and the rest."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
